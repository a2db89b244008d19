// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import TestSupport
import Testing

@testable import WidgetModel

/// The examples of deploy/providers.md, as they stand there.
@Suite("Examples of timelines", .timeLimit(.patience))
struct ProviderExampleTests {
    private typealias Planner = StackPlannerTests

    /// An example: its answer, the rows of its table, and the sentence after the table.
    private static func example(_ name: String) throws -> (answer: String, rows: [[String]], end: String) {
        let path = try #require(Repository.path("deploy/providers.md"))
        let text = try String(contentsOfFile: path, encoding: .utf8)
        let start = try #require(text.range(of: "<!-- example: \(name) -->\n```json\n")).upperBound
        let parts = text[start...].components(separatedBy: "\n```\n\n")
        let sections = try #require(parts.dropFirst().first).components(separatedBy: "\n\n")
        let rows = sections[0].split(separator: "\n").dropFirst(2).map { row in
            row.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
        }
        return (parts[0], rows, try #require(sections.dropFirst().first))
    }

    /// What follows from a timeline in each minute of the day from its first entry on: one row for each change.
    private static func rows(of timeline: ParsedTimeline) throws -> [[String]] {
        let curve = try RelevanceCurve(timeline: timeline.content)
        var planner = StackPlanner(Planner.stack("other", "this"))
        planner.evidence = ["this": .init(curve: curve)]
        let rotations = planner.schedule(at: timeline.firstEntryDate).rotations
        var rows: [[String]] = []
        var time = timeline.firstEntryDate
        while time < Planner.time("23:59") {
            defer { time = time + .seconds(60) }
            let entry = try #require(ParsedTimeline.currentEntry(in: timeline.content, at: time))
            let line = try JSONValue.parse(Array(entry))["content"]?["line"]?.stringValue
            let score = curve.score(at: time).map { JSONNumber($0)?.canonical ?? "" }
            let top = rotations.last { $0.from <= time }?.item
            let found = [line ?? "", score ?? "", top == .widget("this") ? "this" : "other"]
            if rows.last.map({ Array($0.dropFirst()) }) != found {
                rows.append([String(time.rfc3339.dropFirst(11).prefix(5))] + found)
            }
        }
        return rows
    }

    @Test(
        "E: the days of the bank, the basketball game and the healing ranger, minute by minute",
        arguments: [
            ("bank", "The next request is at 22:00.", "22:00"),
            ("basketball", "The next request is that of a push or of the app.", nil),
            ("ranger", "The next request is at 10:05:", "10:05"),
        ] as [(String, String, String?)])
    func days(_ name: String, _ end: String, _ next: String?) throws {
        let example = try Self.example(name)
        let id = try #require(TimelineID("0b0e4f9a-52a1-43c6-9c6e-0e2b6f7f1a11"))
        let answer = try ProviderResponse.parse(Array(example.answer.utf8), requested: [RequestedTimeline(id)])
        let timeline = try answer.outcomes[0].get()
        #expect(try Self.rows(of: timeline) == example.rows)
        #expect(example.end.hasPrefix(end))
        let due = ReloadRules.test().due(
            timeline.policy, lastEntry: timeline.lastEntryDate, renderedAt: timeline.firstEntryDate)
        #expect(due == next.map(Planner.time))
    }
}
