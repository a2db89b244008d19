// SPDX-License-Identifier: Apache-2.0

import JSON
import TestSupport
import Testing

@testable import WidgetModel

@Suite(.tags(.provider), .timeLimit(.patience))
struct ProviderResponseTests {
    let one = TimelineID(high: 0, low: 1)
    let two = TimelineID(high: 0, low: 2)

    func parse(
        _ text: String, _ requested: [TimelineID]? = nil, maximumEntries: Int = ParsedTimeline.maximumEntries,
        maximumContentBytes: Int = ParsedTimeline.maximumContentBytes, volatile: [String] = []
    ) throws -> ProviderResponse {
        let volatileFields = volatile.compactMap { JSONPointer($0) }
        return try ProviderResponse.parse(
            bytes(text), requested: (requested ?? [one]).map { RequestedTimeline($0, volatileFields: volatileFields) },
            maximumEntries: maximumEntries, maximumContentBytes: maximumContentBytes)
    }

    func wrapped(_ element: String) -> String { #"{"timelines":[\#(element)]}"# }

    func element(_ rest: String, id: TimelineID? = nil) -> String {
        #"{"id":"\#(id ?? one)",\#(rest)}"#
    }

    func accepted(_ response: ProviderResponse, _ index: Int = 0) -> ParsedTimeline? {
        guard case .success(let timeline) = response.outcomes[index] else { return nil }
        return timeline
    }

    let entry = #"{"date":"2020-06-22T10:00:00Z","content":1}"#

    @Test("An answer that ends after a key with half a surrogate pair is refused with a pointer to the element")
    func breaksOffBehindLoneSurrogate() throws {
        // The second half is not a surrogate and would overflow.
        for key in [#"\uD83D\uD83D"#, #"\uD83D\uD7FF"#, #"\uD83D\n0041"#, #"\uD83D....A"#, #"\uDC00"#, #"\uD83D"#] {
            #expect(throws: JSONError.self, "\(key)") { try parse(#"{"timelines":[{"\#(key)":[1,"#) }
            #expect(throws: JSONError.self, "\(key)") {
                try FallbackResponse.snapshots(bytes(#"{"snapshots":[{"\#(key)":[1,"#), requested: [one])
            }
        }
        #expect {
            try parse(#"{"timelines":[{"a\uD83D\uD83Db":[1,"#)
        } throws: {
            ($0 as? JSONError)?.pointer == "/timelines/0"
        }
    }

    /// An element in which order, spacing, numbers, times and unknown members are not canonical.
    private func uncanonical() throws -> ProviderResponse {
        try parse(
            wrapped(
                element(
                    #"""
                    "extra":[1], "entries": [
                      {"url":"x:\u0041", "date":"2020-06-22T12:00:00.500+02:00",
                       "content":{"light":{"b":1.0,"a":[]},"dark":null}},
                      {"date":"2020-06-22t10:00:00z","note":"ignored","content":"second",
                       "relevance":{"score":52.60,"duration":1.8e3}},
                      {"content":0,"date":"2020-06-22T09:00:00Z","relevance":{"duration":0,"score":-0.0},"url":null},
                      {"content":0,"date":"2020-06-22T09:00:00Z","relevance":null}
                    ], "policy":{"after":"2020-06-22T23:00:00+01:00","x":1}
                    """#)))
    }

    @Test func canonicalContent() throws {
        let response = try uncanonical()
        let timeline = try #require(accepted(response))
        #expect(
            String(decoding: timeline.content, as: UTF8.self)
                == #"{"entries":[{"content":0,"date":"2020-06-22T09:00:00Z","relevance":{"score":0}},"#
                + #"{"content":0,"date":"2020-06-22T09:00:00Z"},"#
                + #"{"content":"second","date":"2020-06-22T10:00:00Z","relevance":{"duration":1800,"score":52.6}},"#
                + #"{"content":{"dark":null,"light":{"a":[],"b":1}},"date":"2020-06-22T10:00:00.5Z","url":"x:A"}],"#
                + #""policy":{"after":"2020-06-22T22:00:00Z"}}"#)
        let stored = try JSONValue.parse(timeline.content)
        #expect(stored.canonicalBytes == timeline.content, "canonical as a whole")
        #expect(try Timeline(stored: timeline.content).entries.count == 4)
        #expect(response.foreignCount == 0 && response.unreadable.isEmpty)
    }

    @Test("An accepted timeline states its policy, the number of its entries and their first and last dates")
    func statements() throws {
        let timeline = try #require(accepted(try uncanonical()))
        #expect(timeline.policy == .after(time("2020-06-22T22:00:00Z")))
        #expect(timeline.entryCount == 4)
        #expect(timeline.firstEntryDate == time("2020-06-22T09:00:00Z"))
        #expect(timeline.lastEntryDate == time("2020-06-22T10:00:00.5Z"))
    }

    @Test("The hash is that of the visible content: everything except the policy")
    func visibleHash() throws {
        let timeline = try #require(accepted(try uncanonical()))
        let entriesEnd = timeline.content.count - #"],"policy":{"after":"2020-06-22T22:00:00Z"}}"#.utf8.count
        #expect(timeline.hash == ContentHash(ofContent: timeline.content[..<entriesEnd]))
    }

    @Test func outcomesInTheOrderOfTheRequest() throws {
        let three = TimelineID(high: 0, low: 3)
        let four = TimelineID(high: 0, low: 4)
        let response = try parse(
            wrapped(
                [
                    element(#""policy":"never","entries":[\#(entry)]"#, id: three),
                    element(#""error":{"code":"busy","message":"later\nplease","retryAfter":1.5}"#, id: two),
                    element(#""policy":"atEnd","entries":[\#(entry)]"#, id: four),
                    element(#""policy":"atEnd","entries":[\#(entry)]"#, id: four),
                    element(#""policy":"atEnd","entries":[\#(entry)]"#, id: TimelineID(high: 9, low: 9)),
                    #"{"id":"not-a-uuid\u0007","policy":"atEnd","entries":[\#(entry)]}"#,
                    #"{"policy":"atEnd","entries":[\#(entry)]}"#,
                ].joined(separator: ",")), [one, two, three, four])
        #expect(response.outcomes[0] == .failure(.missing))
        #expect(
            response.outcomes[1]
                == .failure(ProviderFailure(.provider, "busy: later please", retryAfter: .milliseconds(1500))))
        #expect(accepted(response, 2)?.policy == .never)
        #expect(response.outcomes[3] == .failure(.duplicate))
        #expect(response.foreignCount == 2)
        #expect(response.foreignIDs.first == "00000000-0000-0009-0000-000000000009")
        #expect(response.foreignIDs.last?.hasPrefix("not-a-uuid") == true)
        #expect(
            response.unreadable == [
                ModelError(message: #"required member "id" is missing"#, pointer: "/timelines/6/id")
            ])
    }

    @Test(arguments: [
        (#""policy":"atEnd""#, "/entries", "required member \"entries\" is missing"),
        (#""policy":"atEnd","entries":null"#, "/entries", "required member \"entries\" is missing"),
        (#""policy":"atEnd","entries":[]"#, "/entries", "expected at least one entry"),
        (#""policy":"atEnd","entries":{}"#, "/entries", "expected an array, found an object"),
        (#""entries":[ENTRY]"#, "/policy", "required member \"policy\" is missing"),
        (
            #""policy":"sometimes","entries":[ENTRY]"#, "/policy",
            #"expected "atEnd", "never" or {"after": date}, found "sometimes""#
        ),
        (#""policy":{},"entries":[ENTRY]"#, "/policy/after", "required member \"after\" is missing"),
        (
            #""policy":{"after":"noon"},"entries":[ENTRY]"#, "/policy/after",
            "expected an RFC 3339 date-time, found \"noon\""
        ),
        (#""policy":5,"entries":[ENTRY]"#, "/policy", "expected a string or an object, found a number"),
        (#""policy":"atEnd","entries":[ENTRY,5]"#, "/entries/1", "expected an object, found a number"),
        (
            #""policy":"atEnd","entries":[ENTRY,{"content":1}]"#, "/entries/1/date",
            "required member \"date\" is missing"
        ),
        (
            #""policy":"atEnd","entries":[{"date":"2020-06-22T10:00:00Z"}]"#, "/entries/0/content",
            "required member \"content\" is missing"
        ),
        (
            #""policy":"atEnd","entries":[{"date":5,"content":1}]"#, "/entries/0/date",
            "expected a string, found a number"
        ),
        (
            #""policy":"atEnd","entries":[{"date":"2020-06-22T10:00:00Z","content":1,"relevance":{"duration":1}}]"#,
            "/entries/0/relevance/score", "required member \"score\" is missing"
        ),
        (
            #""policy":"atEnd","entries":[{"date":"2020-06-22T10:00:00Z","content":1,"relevance":{"score":"1"}}]"#,
            "/entries/0/relevance/score", "expected a number, found a string"
        ),
        (
            #""policy":"atEnd","entries":[{"date":"2020-06-22T10:00:00Z","content":1,"relevance":{"#
                + #""score":1,"duration":-1}}]"#,
            "/entries/0/relevance/duration", "expected seconds from 0, found a negative number"
        ),
        (
            #""policy":"atEnd","entries":[{"date":"2020-06-22T10:00:00Z","content":1,"url":"a\nb"}]"#, "/entries/0/url",
            "must not contain control characters"
        ),
        (
            #""policy":"atEnd","entries":[{"date":"2020-06-22T10:00:00Z","content":1,"url":""}]"#, "/entries/0/url",
            "expected 1 to 2048 bytes"
        ),
        (
            #""policy":"atEnd","entries":[ENTRY],"error":{"code":"a","message":"b"}"#, "",
            "has both entries and an error"
        ),
        (#""error":{"message":"b"}"#, "/error/code", "required member \"code\" is missing"),
        (#""error":{"code":"b"}"#, "/error/message", "required member \"message\" is missing"),
        (
            #""error":{"code":"a","message":"b","retryAfter":-1}"#, "/error/retryAfter",
            "expected seconds from 0, found a negative number"
        ),
        (#""error":"broken""#, "/error", "expected an object, found a string"),
        // The element itself is malformed, but the next one can still be found.
        (
            #""policy":"atEnd","entries":[{"date":"2020-06-22T10:00:00Z","content":{"a":"\ud83d"}}]"#,
            "/entries/0/content/a", "escape of a high surrogate without its low one"
        ),
        (
            #""policy":"atEnd","entries":[{"date":"2020-06-22T10:00:00Z","content":{"a":1,"a":2}}]"#,
            "/entries/0/content/a", "duplicate member \"a\""
        ),
        (
            #""policy":"atEnd","entries":[{"date":"2020-06-22T10:00:00Z","content":1e999}]"#, "/entries/0/content",
            "the number 1e999 cannot be kept exactly; use a string"
        ),
        (#""policy":"atEnd","policy":"never","entries":[ENTRY]"#, "/policy", "duplicate member \"policy\""),
    ])
    func oneBadElementCostsOnlyItself(rest: String, pointer: String, message: String) throws {
        let rest = rest.replacing("ENTRY", with: entry)
        let good = element(#""policy":"atEnd","entries":[\#(entry)]"#, id: two)
        // The ID may come first or last, and valid elements before and after are kept.
        for bad in [element(rest), #"{\#(rest),"id":"\#(one)"}"#] {
            for text in ["\(bad),\(good)", "\(good),\(bad)"] {
                let response = try parse(wrapped(text), [one, two])
                let index = text.hasPrefix(bad) ? 0 : 1
                #expect(
                    response.outcomes[0]
                        == .failure(.invalid(ModelError(message: message, pointer: "/timelines/\(index)\(pointer)"))))
                #expect(accepted(response, 1)?.entryCount == 1)
                #expect(response.unreadable.isEmpty)
            }
        }
    }

    @Test(arguments: ["5", "null", "\"x\"", "[]", "[{\"id\":1}]", "{}", #"{"id":5}"#, #"{"id":{},"policy":"never"}"#])
    func elementsWithoutAnID(text: String) throws {
        let good = element(#""policy":"atEnd","entries":[\#(entry)]"#)
        let response = try parse(wrapped("\(text),\(good),\(text)"))
        #expect(accepted(response)?.entryCount == 1)
        #expect(response.unreadable.count == 2)
        #expect(response.unreadable.first?.pointer.hasPrefix("/timelines/0") == true)
        #expect(response.unreadable.last?.pointer.hasPrefix("/timelines/2") == true)
    }

    @Test(arguments: [
        "", "garbage", "<html></html>", "[]", "null", "{}", #"{"timelines":null}"#, #"{"timelines":{}}"#,
        #"{"timelines":[}"#, #"{"timelines":[]"#, #"{"timelines":[]} x"#, #"{"timelines":[],"timelines":[]}"#,
        #"{"timelines":[{"id":"x",}]}"#, #"{"timelines":[{]}"#, "\u{FEFF}{\"timelines\":[]}",
        #"{"timelines":[{"id":"\ud83d"#,
    ])
    func garbage(text: String) {
        #expect(throws: JSONError.self) { try parse(text) }
    }

    @Test func emptyAnswers() throws {
        let response = try parse(#"{"timelines":[],"more":{"a":1}}"#, [one, two])
        #expect(response.outcomes == [.failure(.missing), .failure(.missing)])
        #expect(try parse(#"{"timelines":[]}"#, []).outcomes.isEmpty)
    }

    @Test func limits() throws {
        func answer(_ entries: [String]) throws -> Result<ParsedTimeline, ProviderFailure> {
            let list = entries.joined(separator: ",")
            return try parse(
                wrapped(element(#""policy":"atEnd","entries":[\#(list)]"#)), maximumEntries: 3, maximumContentBytes: 400
            ).outcomes[0]
        }
        guard case .success = try answer([entry, entry, entry]) else {
            Issue.record("three elements must be refused")
            return
        }
        #expect(
            try answer([entry, entry, entry, entry])
                == .failure(.invalid(ModelError(message: "more than 3 entries", pointer: "/timelines/0/entries"))))
        let large = #"{"date":"2020-06-22T10:00:00Z","content":"\#(String(repeating: "x", count: 500))"}"#
        #expect(
            try answer([large])
                == .failure(.invalid(ModelError(message: "more than 400 bytes", pointer: "/timelines/0/entries"))))
        let retry = #""error":{"code":"a","message":"b","retryAfter":1e300}"#
        #expect(
            try parse(wrapped(element(retry))).outcomes[0]
                == .failure(ProviderFailure(.provider, "a: b", retryAfter: .seconds(86_400))))
        let many = (0..<100).map {
            element(#""policy":"atEnd","entries":[\#(entry)]"#, id: TimelineID(high: 5, low: $0))
        }
        let foreign = try parse(wrapped(many.joined(separator: ",")))
        #expect(foreign.foreignCount == 100 && foreign.foreignIDs.count == ProviderResponse.keptComplaints)
    }

    @Test func volatileFieldsDoNotCount() throws {
        func hash(_ content: String, _ volatile: [String]) throws -> ContentHash {
            let text = #""policy":"atEnd","entries":[{"date":"2020-06-22T10:00:00Z","content":\#(content)}]"#
            let parsed = try #require(accepted(try parse(wrapped(element(text)), volatile: volatile)))
            #expect(String(decoding: parsed.content, as: UTF8.self).contains("now") == content.contains("now"))
            return parsed.hash
        }
        let volatile = ["/now", "/list/1", "/deep/a~1b", "/absent/x"]
        let base = #"{"now":1,"list":[1,2,3],"deep":{"a/b":1,"c":2},"x":0}"#
        #expect(try hash(base, volatile) == hash(#"{"now":2,"list":[1,9,3],"deep":{"a/b":7,"c":2},"x":0}"#, volatile))
        #expect(try hash(base, volatile) != hash(#"{"now":1,"list":[1,2,4],"deep":{"a/b":1,"c":2},"x":0}"#, volatile))
        #expect(try hash(base, volatile) != hash(#"{"now":1,"list":[1,2,3],"deep":{"a/b":1,"c":3},"x":0}"#, volatile))
        #expect(try hash(base, []) != hash(#"{"now":2,"list":[1,2,3],"deep":{"a/b":1,"c":2},"x":0}"#, []))
        #expect(try hash("1", [""]) == hash("2", [""]))
        #expect(try hash("\"now\"", ["/now"]) == hash("\"now\"", []))
    }

    @Test("Each timeline is hashed without the volatile fields of its kind, wherever its id is in the element")
    func severalKinds() throws {
        let three = TimelineID(high: 0, low: 3)
        let requested = zip([one, two, three], [["/at"], ["/list/0"], []]).map { id, pointers in
            RequestedTimeline(id, volatileFields: pointers.compactMap { JSONPointer($0) })
        }
        func hashes(at: Int, first: Int, idLast: Bool) throws -> [ContentHash] {
            let rest =
                #""entries":[{"date":"2020-06-22T10:00:00Z","content":{"at":\#(at),"list":[\#(first),2]}}],"#
                + #""policy":"never""#
            let elements = [two, three, one].map { (id: TimelineID) in
                idLast ? #"{\#(rest),"id":"\#(id)"}"# : element(rest, id: id)
            }
            let response = try ProviderResponse.parse(
                bytes(wrapped(elements.joined(separator: ","))), requested: requested)
            return try (0..<3).map { try #require(accepted(response, $0)).hash }
        }
        let base = try hashes(at: 1, first: 1, idLast: false)
        #expect(Set(base).count == 3)
        for idLast in [false, true] {
            #expect(try hashes(at: 1, first: 1, idLast: idLast) == base)
            let otherAt = try hashes(at: 2, first: 1, idLast: idLast)
            #expect(zip(otherAt, base).map { $0 == $1 } == [true, false, false])
            let otherFirst = try hashes(at: 1, first: 2, idLast: idLast)
            #expect(zip(otherFirst, base).map { $0 == $1 } == [false, true, false])
        }
    }

    @Test("An id that was requested twice has its first place, and a repeated answer is a duplicate")
    func idAskedForTwice() throws {
        let good = element(#""policy":"atEnd","entries":[\#(entry)]"#)
        let foreign = element(#""policy":"atEnd","entries":[\#(entry)]"#, id: TimelineID(high: 9, low: 9))
        let once = try parse(wrapped("\(foreign),\(good)"), [two, one, one])
        #expect(accepted(once, 1)?.policy == .atEnd)
        #expect(once.outcomes[0] == .failure(.missing) && once.outcomes[2] == .failure(.missing))
        #expect(once.foreignCount == 1)
        let twice = try parse(wrapped("\(good),\(good)"), [two, one, one])
        #expect(twice.outcomes == [.failure(.missing), .failure(.duplicate), .failure(.missing)])
        #expect(twice.foreignCount == 0)
    }
}
