// SPDX-License-Identifier: Apache-2.0

import JSON
import TestSupport
import Testing

@testable import WidgetModel

@Suite("Answers that show the same as the stored timeline")
struct ShownTimelineTests {
    private let now = time("2026-06-22T10:00:00Z")

    /// Reads a provider's answer.
    ///
    /// - Parameter entries: times from now in seconds with the entries' other members.
    private func parsed(_ entries: [(Int, String)], volatile: [String] = []) throws -> ParsedTimeline {
        let id = TimelineID(high: 1, low: 2)
        let list = entries.map { #"{"date":"\#((now + .seconds($0)).rfc3339)",\#($1)}"# }.joined(separator: ",")
        let fields = volatile.compactMap { JSONPointer($0) }
        let response = try ProviderResponse.parse(
            bytes(#"{"timelines":[{"id":"\#(id)","policy":"atEnd","entries":[\#(list)]}]}"#),
            requested: [RequestedTimeline(id, volatileFields: fields)])
        guard case .success(let timeline) = response.outcomes[0] else { throw Unexpected() }
        return timeline
    }

    private struct Unexpected: Error {}

    /// Whether an answer of now shows the same as an earlier one.
    private func isSame(
        _ old: [(Int, String)], asked: Int = -3_600, _ new: [(Int, String)], volatile: [String] = []
    ) throws -> Bool {
        let stored = try parsed(old, volatile: volatile).hash(at: now + .seconds(asked))
        return try parsed(new, volatile: volatile).showsTheSame(as: stored, at: now)
    }

    private let one = #""content":{"a":1}"#
    private let two = #""content":{"a":2}"#

    @Test("The date of an entry that is shown already is not seen")
    func datedNow() throws {
        #expect(try isSame([(-3_600, one)], [(0, one)]))
        #expect(try isSame([(-3_600, one)], [(-1_800, one)]))
        #expect(try isSame([(-3_600, one)], [(8, one)]), "the provider's clock is ahead")
        #expect(try !isSame([(-3_600, one)], [(0, two)]))
        #expect(try isSame([(-3_600, one), (600, two)], [(0, one), (600, two)]))
        #expect(try !isSame([(-3_600, one)], [(0, #""content":{"a":1},"url":"x:y""#)]))
    }

    @Test("Dates that lie ahead, and those of entries with relevance, count")
    func datesAhead() throws {
        #expect(try !isSame([(-3_600, one)], [(600, one)]))
        #expect(try !isSame([(300, one)], [(600, one)]))
        #expect(try !isSame([(-3_600, one), (600, two)], [(0, one), (601, two)]))
        let relevant = one + #","relevance":{"score":1,"duration":1800}"#
        #expect(try !isSame([(-3_600, relevant)], [(0, relevant)]))
        #expect(try isSame([(-3_600, relevant)], [(-3_600, relevant)]))
    }

    @Test("An unchanged answer stays the same when the date of its first entry comes")
    func dateHasCome() throws {
        #expect(try isSame([(-600, one), (600, two)], asked: -3_600, [(-600, one), (600, two)]))
        #expect(try isSame([(600, one)], [(600, one)]))
    }

    @Test("Entries that show the same as the one before change nothing, as in Xcode's template")
    func repeated() throws {
        let template = (0..<5).map { ($0 * 3_600, one) }
        #expect(try isSame(template.map { ($0.0 - 18_000, $0.1) }, asked: -18_000, template))
        #expect(try isSame([(-3_600, one)], template))
        #expect(try !isSame([(-3_600, one)], template + [(20_000, two)]))
        #expect(try isSame([(-3_600, one), (600, two)], [(0, one), (300, one), (600, two), (900, two)]))
        #expect(try !isSame([(-3_600, one)], [(0, one), (300, one + #","relevance":{"score":2}"#)]))
        // Volatile fields are left out first.
        func content(_ at: Int) -> String { #""content":{"at":\#(at),"a":1}"# }
        #expect(try isSame([(-3_600, content(1))], [(0, content(2)), (60, content(3))], volatile: ["/at"]))
        #expect(try !isSame([(-3_600, content(1))], [(0, content(2)), (60, content(3))]))
    }

    @Test("A volatile field can be a member of every element of a list")
    func everyElement() throws {
        func content(_ first: Int, _ second: Int, name: String = "x") -> String {
            #""content":{"list":[{"at":\#(first),"n":"\#(name)"},{"at":\#(second),"n":"y"}],"*":{"at":\#(first)}}"#
        }
        func isSame(_ left: String, _ right: String, _ fields: String...) throws -> Bool {
            try self.isSame([(-60, left)], [(-60, right)], volatile: fields)
        }
        #expect(try isSame(content(1, 2), content(3, 4), "/list/*/at", "/*/at"))
        #expect(try !isSame(content(1, 2), content(3, 4), "/list/*/at"), "in an object, the token is a name")
        #expect(try !isSame(content(1, 2), content(1, 4), "/list/0/at"))
        #expect(try isSame(content(1, 2), content(1, 4), "/list/*/at"))
        #expect(try !isSame(content(1, 2), content(1, 4, name: "z"), "/list/*/at"))
        let nested = (1...2).map { #""content":[[{"t":\#($0)},{"t":5}],[{"t":\#($0)}]]"# }
        #expect(try isSame(nested[0], nested[1], "/*/*/t"))
        #expect(try isSame(#""content":[1,2]"#, #""content":[3]"#, "/*"))
    }
}
