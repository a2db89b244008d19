// SPDX-License-Identifier: Apache-2.0

import JSON
import TestSupport
import Testing
import WidgetModel

@testable import SampleProvider

@Suite("Sample requests", .timeLimit(.patience))
struct SampleRequestTests {
    private func parse(_ text: String, app: SampleApp = .bank) throws(JSONError) -> [SampleRequest] {
        try SampleRequest.batch(Array(text.utf8), app: app)
    }

    @Test func readsWhatItNeedsAndPassesOverTheRest() throws {
        let batch = try parse(
            """
            {"version": [1, {"x": null}], "kind": "RecentPurchases", "requests": [
              {"id": "a", "kind": "DueDate", "family": "systemSmall", "configuration": {"card": "acme", "limit": 5, "tags": ["x"]},
               "environment": {"locale": "de"}, "user": "u1", "later": {}},
              {"id": "b", "family": null, "configuration": null, "user": null}]}
            """)
        #expect(batch.map(\.kind) == ["DueDate", "RecentPurchases"])
        #expect(batch.map(\.id) == ["a", "b"])
        #expect(batch[0].family == "systemSmall")
        #expect(batch[0].parameters == ["card": "acme"])
        #expect(batch[1].parameters.isEmpty)
        #expect(batch[0].lists == ["tags": ["x"]])
    }

    @Test func theIdentityDependsOnTheRequestedContentOnly() throws {
        func identity(_ request: String, kind: String = "A", app: SampleApp = .bank) throws -> UInt64 {
            try #require(try parse(#"{"requests":[\#(request)],"kind":"\#(kind)"}"#, app: app).first).identity
        }
        #expect(
            try parse(#"{"requests":[{"id":"1","kind":"A"}]}"#)[0].identity == identity(#"{"id":"2"}"#))
        let base = try identity(#"{"id":"1","family":"f","configuration":{"a":"x","b":2},"user":"u"}"#)
        #expect(try identity(#"{"user":"u","configuration":{"b":2,"a":"x"},"family":"f","id":"2"}"#) == base)
        let others = [
            try identity(#"{"id":"1","family":"g","configuration":{"a":"x","b":2},"user":"u"}"#),
            try identity(#"{"id":"1","family":"f","configuration":{"a":"y","b":2},"user":"u"}"#),
            try identity(#"{"id":"1","family":"f","configuration":{"a":"x","b":3},"user":"u"}"#),
            try identity(#"{"id":"1","family":"f","configuration":{"a":"x","b":2},"user":"v"}"#),
            try identity(#"{"id":"1","family":"f","configuration":{"a":"x","b":2}}"#),
            try identity(#"{"id":"1","family":"f","configuration":{"a":"x","b":2},"user":"u"}"#, kind: "B"),
            try identity(#"{"id":"1","family":"f","configuration":{"a":"x","b":2},"user":"u"}"#, app: .weather),
            try identity(#"{"id":"1","family":"u","configuration":{"a":"x","b":2},"user":"f"}"#),
            try identity(
                #"{"id":"1","family":"f","configuration":{"a":"x","b":2},"user":"u","environment":{"locale":"de"}}"#),
        ]
        #expect(!others.contains(base))
        #expect(Set(others).count == others.count)
    }

    @Test(arguments: [
        ("", ""), ("[]", ""), ("{\"requests\": [}", "/requests/0"),
        ("{\"requests\": [{\"id\": \"a\"}]}", "/requests/0/kind"),
        ("{\"requests\": [{\"id\": \"a\", \"kind\": 5}]}", "/requests/0/kind"),
        ("{\"kind\": 1}", "/kind"), ("{\"kind\": \"A\", \"requests\": {}}", "/requests"),
        ("{\"kind\": \"A\", \"requests\": [1]}", "/requests/0"),
        ("{\"kind\": \"A\", \"requests\": [{\"family\": \"f\"}]}", "/requests/0/id"),
        ("{\"kind\": \"A\", \"requests\": [{\"id\": 1}]}", "/requests/0/id"),
        ("{\"kind\": \"A\", \"requests\": [{\"id\": \"a\", \"configuration\": []}]}", "/requests/0/configuration"),
        ("{\"kind\": \"A\"} x", ""),
    ])
    func malformedIsRefusedWithItsPlace(text: String, pointer: String) {
        let error = #expect(throws: JSONError.self) { try parse(text) }
        #expect(error?.pointer == pointer)
        #expect(error?.message.isEmpty == false)
    }

    @Test func batchesAreBounded() throws {
        func body(_ count: Int) -> String {
            let requests = (0..<count).map { "{\"id\":\"\($0)\"}" }.joined(separator: ",")
            return "{\"kind\":\"A\",\"requests\":[\(requests)]}"
        }
        #expect(try parse(body(1_000)).count == 1_000)
        let error = #expect(throws: JSONError.self) { try parse(body(1_001)) }
        #expect(error?.pointer == "/requests")
    }

    @Test func revisionsGrowEvenWhenCountersAreShared() {
        var counters = RevisionCounters(count: 2)
        #expect(counters.next(of: [0, 2, 1]) == [1, 2, 1])
        #expect(counters.next(of: [2, 0]) == [3, 4])
    }

    @Test func countsAreBoundedOneByOneAndExactInSum() throws {
        var statistics = SampleStatistics(maximumTracked: 2)
        for (revision, ids) in [(1, ["a", "b", "c"]), (2, ["a"])] {
            let answers = ids.map { id -> SampleStatistics.Answer in
                (SampleRequest(id: id, kind: id == "b" ? "B" : "A"), revision, id == "c")
            }
            statistics.count(answers, of: .bank, at: Timestamp(microseconds: Int64(revision)))
        }
        typealias Counts = SampleStatistics.Counts
        #expect(statistics.answered == Counts(requests: 2, timelines: 4, failedTimelines: 1, largestBatch: 3))
        #expect(statistics.answered.meanBatch == 2)
        #expect(
            statistics.kinds == [
                .bank: [
                    "A": Counts(requests: 2, timelines: 3, failedTimelines: 1, largestBatch: 2),
                    "B": Counts(requests: 1, timelines: 1, largestBatch: 1),
                ]
            ])
        #expect(statistics.json["kinds"]?.arrayValue?.map { $0["kind"] } == ["A", "B"])
        typealias Fetches = SampleStatistics.Fetches
        #expect(
            statistics.fetches == [
                "a": Fetches(count: 2, lastFetchedAt: Timestamp(microseconds: 2), lastRevision: 2),
                "b": Fetches(count: 1, lastFetchedAt: Timestamp(microseconds: 1), lastRevision: 1),
            ])
    }
}
