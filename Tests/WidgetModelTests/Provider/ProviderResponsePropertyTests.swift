// SPDX-License-Identifier: Apache-2.0

import JSON
import Randomness
import TestSupport
import Testing

@testable import WidgetModel

extension ProviderResponseTests {
    @Test("The hash without volatile fields is that of the canonical form of the other fields", .tags(.property))
    func volatileFieldsOfAnyContent() throws {
        var generator = JSONGenerator(seed: 33)
        let pointers = ["/a", "/b/a", "/0", "/1/b", "/a/0/c", "/é", "/\"", "/-1", "/01"]
        var shortened = 0
        for round in 0..<5_000 {
            let content = generator.value()
            let chosen = pointers.indices.filter { (round >> ($0 % 5)) & 1 == 1 }.map { pointers[$0] }
            let text = String(decoding: content.encoded, as: UTF8.self)
            let response = try parse(
                wrapped(
                    element(
                        #""policy":"never","entries":[{"date":"2020-06-22T10:00:00Z","content":\#(text)}]"#)),
                volatile: chosen)
            guard let timeline = accepted(response) else { continue }
            let left = Self.removing(chosen.compactMap { JSONPointer($0)?.tokens[...] }, from: content) ?? .null
            if left != content { shortened += 1 }
            let visible = #"{"entries":[{"content":"# + left.canonical + "}"
            let undated = ContentHash(ofContent: bytes(visible)[...])
            #expect(timeline.undatedHash == undated, "\(text) without \(chosen)")
            #expect(timeline.hash == undated.dated(timeline.firstEntryDate) && timeline.hash != undated)
        }
        #expect(shortened > 200)
    }

    /// Returns the value without the members at the pointers, computed on a tree; nil if a pointer is empty.
    private static func removing(_ pointers: [ArraySlice<String>], from value: JSONValue) -> JSONValue? {
        guard !pointers.contains(where: \.isEmpty) else { return nil }
        func below(_ token: String) -> [ArraySlice<String>] {
            pointers.filter { $0.first.map { Array($0.utf8) == Array(token.utf8) } ?? false }.map { $0.dropFirst() }
        }
        switch value {
        case .object(let object):
            return .object(
                JSONObject(
                    object.members.compactMap { member in
                        removing(below(member.key), from: member.value).map { (key: member.key, value: $0) }
                    }))
        case .array(let elements):
            return .array(elements.enumerated().compactMap { removing(below(String($0)), from: $1) })
        case .null, .bool, .number, .string:
            return value
        }
    }

    @Test func sortingIsStableForAnyOrder() throws {
        var random = SeededGenerator(seed: 31)
        for _ in 0..<100 {
            let days = (0..<20).map { _ in Int.random(in: 1...5, using: &random) }
            let entries = days.enumerated().map { #"{"date":"2020-06-0\#($1)T10:00:00Z","content":\#($0)}"# }
            let response = try parse(
                wrapped(element(#""policy":"atEnd","entries":[\#(entries.joined(separator: ","))]"#)))
            let parsed = try #require(accepted(response))
            let expected = days.indices.sorted { (days[$0], $0) < (days[$1], $1) }
            #expect(
                try Timeline(stored: parsed.content).entries.map(\.content)
                    == expected.map { .number(JSONNumber($0)) })
        }
    }

    @Test(.tags(.property))
    func mutatedResponses() {
        var generator = JSONGenerator(seed: 32)
        let good = wrapped(
            [
                element(#""policy":{"after":"2020-06-22T23:00:00Z"},"entries":[\#(entry),\#(entry)]"#),
                element(#""error":{"code":"busy","message":"later","retryAfter":1.5}"#, id: two),
            ].joined(separator: ","))
        var whole = 0
        for _ in 0..<50_000 {
            guard
                let response = try? ProviderResponse.parse(
                    generator.mutated(bytes(good)), requested: [RequestedTimeline(one), RequestedTimeline(two)])
            else { continue }
            whole += 1
            for outcome in response.outcomes {
                guard case .success(let timeline) = outcome else { continue }
                // Accepted timelines are whole and canonical.
                guard let value = try? JSONValue.parse(timeline.content), value.canonicalBytes == timeline.content,
                    (try? Timeline(stored: timeline.content))?.entries.count == timeline.entryCount
                else {
                    Issue.record("stored \(String(decoding: timeline.content, as: UTF8.self))")
                    return
                }
            }
        }
        #expect(whole > 5000)
    }
}
