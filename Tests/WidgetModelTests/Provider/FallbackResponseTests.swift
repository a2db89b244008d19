// SPDX-License-Identifier: Apache-2.0

import JSON
import TestSupport
import Testing

@testable import WidgetModel

@Suite("Answers with snapshots and placeholders", .tags(.provider), .timeLimit(.patience))
struct FallbackResponseTests {
    private let one = TimelineID(high: 0, low: 1)
    private let two = TimelineID(high: 0, low: 2)
    private let three = TimelineID(high: 0, low: 3)

    private func snapshots(_ elements: String, maximumBytes: Int = ParsedTimeline.maximumContentBytes) throws
        -> FallbackResponse
    {
        try FallbackResponse.snapshots(
            bytes(#"{"more":[{}],"snapshots":[\#(elements)]}"#), requested: [one, two, three],
            maximumBytes: maximumBytes)
    }

    private func placeholders(_ elements: String) throws -> FallbackResponse {
        try FallbackResponse.placeholders(
            bytes(#"{"placeholders":[\#(elements)]}"#), requested: [one, two, three])
    }

    private func value(_ text: String) -> Result<[UInt8], ProviderFailure> { .success(bytes(text)) }

    private let entry = #"{"date":"2020-06-22T10:00:00Z","content":1}"#

    @Test func entriesAreInTheFormThatATimelineHas() throws {
        let raw = #"""
            {"url":"x:\u0041","note":0,"date":"2020-06-22T12:00:00.500+02:00","relevance":{"duration":0,"score":5e1},
             "content":{"b":1.0,"a":[]}}
            """#
        let response = try snapshots(#"{"id":"\#(one)","entry":\#(raw)}"#)
        let expected =
            #"{"content":{"a":[],"b":1},"date":"2020-06-22T10:00:00.5Z","relevance":{"score":50},"url":"x:A"}"#
        #expect(response.outcomes == [value(expected), .failure(.missing), .failure(.missing)])
        let timeline = try ProviderResponse.parse(
            bytes(#"{"timelines":[{"id":"\#(one)","policy":"never","entries":[\#(raw)]}]}"#),
            requested: [RequestedTimeline(one)])
        guard case .success(let parsed) = timeline.outcomes[0] else {
            Issue.record("\(timeline.outcomes)")
            return
        }
        #expect(String(decoding: parsed.content, as: UTF8.self) == #"{"entries":[\#(expected)],"policy":"never"}"#)
    }

    @Test func outcomesInTheOrderOfTheRequest() throws {
        let response = try snapshots(
            [
                #"{"id":"\#(three)","entry":\#(entry)}"#,
                #"{"id":"\#(two)","error":{"code":"busy","message":"later\nplease","retryAfter":5},"entry":null}"#,
                #"{"id":"\#(three)","entry":\#(entry)}"#,
                #"{"id":"\#(TimelineID(high: 9, low: 9))","entry":\#(entry)}"#,
                #"{"id":"nobody","entry":\#(entry)}"#, #"{"entry":\#(entry)}"#,
            ].joined(separator: ","))
        #expect(
            response.outcomes == [
                .failure(.missing), .failure(ProviderFailure(.provider, "busy: later please", retryAfter: .seconds(5))),
                .failure(.duplicate),
            ])
        #expect(response.foreignCount == 2 && response.foreignIDs.last == "nobody")
        #expect(
            response.unreadable == [
                ModelError(message: #"required member "id" is missing"#, pointer: "/snapshots/5/id")
            ])
    }

    @Test(arguments: [
        (#""other":1"#, "/entry", "required member \"entry\" is missing"),
        (#""entry":null"#, "/entry", "required member \"entry\" is missing"),
        (#""entry":[]"#, "/entry", "expected an object, found an array"),
        (#""entry":{"content":1}"#, "/entry/date", "required member \"date\" is missing"),
        (#""entry":{"date":"2020-06-22T10:00:00Z"}"#, "/entry/content", "required member \"content\" is missing"),
        (#""entry":{"date":"soon","content":1}"#, "/entry/date", "expected an RFC 3339 date-time, found \"soon\""),
        (
            #""entry":{"date":"2020-06-22T10:00:00Z","content":{"a":1,"a":2}}"#, "/entry/content/a",
            "duplicate member \"a\""
        ),
        (#""entry":ENTRY,"error":{"code":"a","message":"b"}"#, "", "has both entry and an error"),
        (#""entry":ENTRY,"entry":ENTRY"#, "/entry", "duplicate member \"entry\""),
        (#""error":{"code":"a"}"#, "/error/message", "required member \"message\" is missing"),
        (#""error":5"#, "/error", "expected an object, found a number"),
    ])
    func oneBadSnapshotCostsOnlyItself(rest: String, pointer: String, message: String) throws {
        let rest = rest.replacing("ENTRY", with: entry)
        let good = #"{"id":"\#(two)","entry":\#(entry)}"#
        for bad in [#"{"id":"\#(one)",\#(rest)}"#, #"{\#(rest),"id":"\#(one)"}"#] {
            let response = try snapshots("\(good),\(bad)")
            #expect(
                response.outcomes[0]
                    == .failure(.invalid(ModelError(message: message, pointer: "/snapshots/1\(pointer)"))))
            #expect(response.outcomes[1] == value(#"{"content":1,"date":"2020-06-22T10:00:00Z"}"#))
            #expect(response.unreadable.isEmpty)
        }
    }

    @Test func placeholdersAreAnyJSON() throws {
        let response = try placeholders(
            [
                #"{"id":"\#(one)","content":{"b":1.0,"a":"\u0000"}}"#, #"{"id":"\#(two)","content":"text"}"#,
                #"{"id":"\#(three)","error":{"code":"none","message":"m"}}"#,
            ].joined(separator: ","))
        #expect(
            response.outcomes == [
                value(#"{"a":"\u0000","b":1}"#), value(#""text""#),
                .failure(ProviderFailure(.provider, "none: m")),
            ])
        let none = try placeholders(#"{"id":"\#(one)","content":null}"#)
        #expect(
            none.outcomes[0]
                == .failure(
                    .invalid(
                        ModelError(
                            message: #"required member "content" is missing"#, pointer: "/placeholders/0/content"))))
    }

    @Test func tooLargeContentIsInvalid() throws {
        let large = #"{"date":"2020-06-22T10:00:00Z","content":"\#(String(repeating: "x", count: 200))"}"#
        let response = try snapshots(
            #"{"id":"\#(one)","entry":\#(large)},{"id":"\#(two)","entry":\#(entry)}"#,
            maximumBytes: 200)
        #expect(
            response.outcomes[0]
                == .failure(.invalid(ModelError(message: "more than 200 bytes", pointer: "/snapshots/0/entry"))))
        guard case .success = response.outcomes[1] else {
            Issue.record("\(response.outcomes)")
            return
        }
        func content(_ count: Int) throws -> Result<[UInt8], ProviderFailure> {
            try placeholders(#"{"id":"\#(one)","content":"\#(String(repeating: "x", count: count))"}"#).outcomes[0]
        }
        #expect(try content(65_534) == .success(Array(#"""#.utf8) + Array(repeating: 120, count: 65_534) + [34]))
        #expect(
            try content(65_535)
                == .failure(.invalid(ModelError(message: "more than 65536 bytes", pointer: "/placeholders/0/content"))))
    }

    @Test(arguments: [
        "", "garbage", "[]", "null", "{}", #"{"timelines":[]}"#, #"{"snapshots":null}"#, #"{"snapshots":{}}"#,
        #"{"snapshots":[}"#, #"{"snapshots":[]} x"#, #"{"snapshots":[],"snapshots":[]}"#,
    ])
    func garbage(text: String) {
        #expect(throws: JSONError.self) { try FallbackResponse.snapshots(bytes(text), requested: [one]) }
        #expect(throws: JSONError.self) { try FallbackResponse.placeholders(bytes(text), requested: [one]) }
    }

    @Test(.tags(.property))
    func mutatedAnswers() {
        var generator = JSONGenerator(seed: 41)
        let good =
            #"{"snapshots":[{"id":"\#(one)","entry":{"date":"2020-06-22T10:00:00+01:00","content":{"b":[1,"x"],"#
            + #""a":null},"relevance":{"score":1}}},{"id":"\#(two)","error":{"code":"busy","message":"later"}}]}"#
        var whole = 0
        for _ in 0..<20_000 {
            guard
                let response = try? FallbackResponse.snapshots(generator.mutated(bytes(good)), requested: [one, two])
            else { continue }
            whole += 1
            for case .success(let entry) in response.outcomes {
                // Accepted entries are whole and canonical.
                guard let value = try? JSONValue.parse(entry), value.canonicalBytes == entry,
                    value["date"]?.stringValue.flatMap({ Timestamp(rfc3339: $0) }) != nil, value["content"] != nil
                else {
                    Issue.record("stored \(String(decoding: entry, as: UTF8.self))")
                    return
                }
            }
        }
        #expect(whole > 2_000)
    }
}

@Suite("Requests for placeholders", .tags(.provider), .timeLimit(.patience))
struct PlaceholderRequestTests {
    private func identity(
        _ kind: String = "K", _ family: WidgetFamily = .systemSmall, _ locale: String = "de-DE",
        _ timeZone: String? = nil
    ) -> PlaceholderIdentity {
        PlaceholderIdentity(kind: kind, family: family, locale: locale, timeZone: timeZone)
    }

    @Test func bodyNamesNobody() throws {
        let items = [identity(), identity("K", .systemLarge, "en-AU", "Australia/Sydney")]
        let body = try JSONValue.parse(ProviderEndpoint.encode(placeholders: items, kind: "K"))
        #expect(
            body == [
                "kind": "K",
                "requests": [
                    [
                        "id": .string(items[0].id.description), "family": "systemSmall",
                        "environment": ["locale": "de-DE"],
                    ],
                    [
                        "id": .string(items[1].id.description), "family": "systemLarge",
                        "environment": ["locale": "en-AU", "timeZone": "Australia/Sydney"],
                    ],
                ],
            ])
    }

    @Test func idsTellPlaceholdersApart() {
        let all = [
            identity(), identity("L"), identity("K", .systemMedium), identity("K", .systemSmall, "de-AT"),
            identity("K", .systemSmall, "de-DE", "Europe/Berlin"), identity("K", .systemSmall, "de-DE", ""),
        ]
        #expect(Set(all.map(\.id)).count == all.count)
        #expect(Set(all).count == all.count)
        #expect(identity().id == identity().id)
    }
}
