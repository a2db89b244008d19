// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import TestSupport
import Testing

@testable import WidgetModel

/// An element of `values` of a schedule.
private struct TopValue: Decodable {
    var from: Date
    var widget: String
    var value: Double
    var since: Date?
}

/// The widget to show at a time, of the schedules of several apps. Nil: the one that the person left on top.
private func widget(of schedules: [[TopValue]], at time: Date) -> String? {
    let tops = schedules.compactMap { $0.last { $0.from <= time } }.filter { $0.value > 0 }
    let greatest = tops.map(\.value).max() ?? 0
    let near = tops.filter { $0.value >= greatest - 0.05 }
    return near.max { ($0.since ?? .distantPast, $0.value) < ($1.since ?? .distantPast, $1.value) }?.widget
}

/// The code and the day of deploy/stacks.md for a device that shows widgets of several apps in one place.
@Suite("Several apps in one place", .timeLimit(.patience))
struct SeveralAppsTests {
    private typealias Planner = StackPlannerTests
    private static let apps = ["weather", "calendar", "reminders"]

    /// The section of the document.
    private static func document() throws -> String {
        let path = try #require(Repository.path("deploy/stacks.md"))
        let text = try String(contentsOfFile: path, encoding: .utf8)
        let start = try #require(text.range(of: "## Several apps in one place")).upperBound
        let end = text.range(of: "\n## ", range: start..<text.endIndex)?.lowerBound ?? text.endIndex
        return String(text[start..<end])
    }

    /// Cells of the rows of the document's tables with a number of columns, without the head.
    private static func rows(_ columns: Int) throws -> [[String]] {
        let rows = try document().split(separator: "\n").filter { $0.hasPrefix("| ") }
            .map { $0.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) } }
            .filter { $0.count == columns && !$0.joined().allSatisfy { $0 == "-" } }
        return Array(rows.filter { $0 != ["", ""] }.dropFirst())
    }

    /// Text of the document's only block of a language.
    private static func block(_ language: String) throws -> String {
        let text = try document()
        let start = try #require(text.range(of: "```\(language)\n")).upperBound
        let end = try #require(text.range(of: "\n```", range: start..<text.endIndex)).lowerBound
        return String(text[start..<end])
    }

    /// `values` of each app's schedule, planned at 6:00.
    private static func values() throws -> [String: JSONValue] {
        let rows = try rows(4)
        #expect(Set(rows.map { $0[0] }) == Set(apps))
        var values: [String: JSONValue] = [:]
        for app in apps {
            let points = try rows.filter { $0[0] == app }.map { row in
                RelevanceCurve.Point(
                    date: Planner.time(row[1]), score: try #require(Double(row[2])),
                    duration: .seconds(try #require(Int(row[3]))))
            }
            var planner = StackPlanner(Planner.stack(app))
            planner.evidence[app] = .init(curve: RelevanceCurve(points))
            let now = Planner.time("06:00")
            let key = StackPlan.Key(app: "com.example.\(app)", user: "u", device: "d", stack: "home")
            values[app] = StackPlan(key: key, schedule: planner.schedule(at: now), plannedAt: now).json["values"]
        }
        return values
    }

    @Test("E: a day of three apps that say 1 every time: the device shows the newest, and at the end what it did")
    func day() throws {
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .iso8601
        let schedules = try Self.values().values.map { try decoder.decode([TopValue].self, from: Data($0.encoded)) }
        let expected = try Self.rows(2)
        #expect(expected.count == 7)
        var shown: [[String]] = []
        for minute in stride(from: 0, to: 18 * 60, by: 5) {
            let time = Planner.time("06:00") + .seconds(60 * minute)
            let date = Date(timeIntervalSince1970: Double(time.microseconds) / 1_000_000)
            let found = widget(of: schedules, at: date) ?? "what the person left on top"
            if shown.last?[1] != found { shown.append([String(time.rfc3339.dropFirst(11).prefix(5)), found]) }
        }
        #expect(shown == expected)
    }

    @Test("The values of the document are those of the day's plan")
    func values() throws {
        let documented = try JSONValue.parse(Array(try Self.block("json").utf8))
        #expect(try Self.values()["weather"]?.canonical == documented.canonical)
    }

    @Test("A stack of three widgets of one app turns as the device chooses among three apps")
    func oneStack() throws {
        var planner = StackPlanner(Planner.stack("notes", "weather", "calendar", "reminders"))
        for app in Self.apps {
            let points = try Self.rows(4).filter { $0[0] == app }.map { row in
                RelevanceCurve.Point(
                    date: Planner.time(row[1]), score: Double(row[2]) ?? 0, duration: .seconds(Int(row[3]) ?? 0))
            }
            planner.evidence[app] = .init(curve: RelevanceCurve(points))
        }
        let expected = try Self.rows(2).map { "\($0[0]) \(Self.apps.contains($0[1]) ? $0[1] : "notes")" }
        #expect(Planner.rotations(planner.schedule(at: Planner.time("06:00"))) == expected)
    }

    @Test("The document contains this code")
    func documented() throws {
        let source = try String(contentsOfFile: #filePath, encoding: .utf8)
        let code = try Self.block("swift")
        #expect(code.contains("func widget(of schedules"))
        let own = source.replacing("private struct", with: "struct").replacing("private func", with: "func")
        #expect(own.contains(code))
    }
}
