import Foundation
import JSON
import WidgetModel

/// Chart of a widget's relevance during a day, for the terminal, as SVG and as JSON.
struct RelevanceChart {
    let title: String
    let day: LocalDay
    let curve: RelevanceCurve
    /// Ranks of the scores, by which stacks are planned.
    let ranks: RelevanceRanks

    private var steps: [RelevanceCurve.Step] { curve.steps(in: day.range) }

    // MARK: Terminal

    /// Rows of the chart, from the highest score down.
    private static let rows = 8
    /// Columns of a day: a quarter of an hour each.
    private static let columns = 96
    private static let eighths = Array(" ▁▂▃▄▅▆▇█")

    /// The highest score in each quarter of an hour, above the hours, and the list of the steps.
    var text: String {
        let steps = steps
        let head = "\(title), \(day.name) (\(day.timeZone))"
        guard !steps.isEmpty else { return "\(head)\nThe timeline says nothing about relevance on this day." }
        let scores = (0..<Self.columns).map { highest(in: part($0)..<part($0 + 1)) }
        let top = scores.max() ?? 0
        var lines = [head]
        if top > 0 {
            let width = Self.number(top).count
            for row in stride(from: Self.rows, to: 0, by: -1) {
                let label = row == Self.rows ? Self.number(top) : row == 1 ? "0" : ""
                let bars = scores.map { score in
                    let level = Int((max(0, score) / top * Double(Self.rows * 8)).rounded(.up)) - (row - 1) * 8
                    return String(Self.eighths[min(8, max(0, level))])
                }
                lines.append(
                    "\(String(repeating: " ", count: width - label.count))\(label) │\(Self.trimmed(bars.joined()))")
            }
            let hours = stride(from: 0, to: Self.columns, by: 12).map { day.clock(part($0)) }
            lines.append(
                String(repeating: " ", count: width) + " └"
                    + Self.trimmed(hours.map { $0 + String(repeating: " ", count: 12 - $0.count) }.joined()))
        }
        lines += steps.map { step -> String in
            let rank =
                step.score > 0
                ? "rank \(Self.number((ranks.rank(of: step.score) * 100).rounded() / 100))" : "not relevant"
            return "\(day.clock(step.from))  \(Self.number(step.score))  \(rank)"
        }
        return lines.joined(separator: "\n")
    }

    /// Beginning of a column.
    private func part(_ column: Int) -> Timestamp {
        let length = day.range.upperBound.microseconds - day.range.lowerBound.microseconds
        return Timestamp(microseconds: day.range.lowerBound.microseconds + length * Int64(column) / Int64(Self.columns))
    }

    private func highest(in range: Range<Timestamp>) -> Double { curve.steps(in: range).map(\.score).max() ?? 0 }

    /// The line without spaces at its end.
    private static func trimmed(_ line: String) -> String {
        String(line.reversed().drop { $0 == " " }.reversed())
    }

    private static func number(_ score: Double) -> String { score.formatted(.number.grouping(.never)) }

    // MARK: SVG

    private static let width = 960.0
    private static let height = 240.0

    var svg: String {
        let steps = steps
        let top = max(steps.map(\.score).max() ?? 0, .leastNormalMagnitude)
        let length = Double(day.range.upperBound.microseconds - day.range.lowerBound.microseconds)
        func x(_ time: Timestamp) -> String {
            Self.coordinate(Double(time.microseconds - day.range.lowerBound.microseconds) / length * Self.width)
        }
        func y(_ score: Double) -> String { Self.coordinate(Self.height * (1 - max(0, score) / top)) }
        var path = ""
        for (index, step) in steps.enumerated() {
            let end = index + 1 < steps.count ? steps[index + 1].from : day.range.upperBound
            path += "\(index == 0 ? "M" : "L")\(x(step.from)) \(y(step.score))H\(x(end))"
        }
        let hours = (0..<8).map { part($0 * 12) }.map { time in
            "<text x=\"\(x(time))\" y=\"\(Self.coordinate(Self.height + 20))\">\(day.clock(time))</text>"
        }
        let label = HTML.escaped("\(title), \(day.name) (\(day.timeZone))")
        return """
            <svg xmlns="http://www.w3.org/2000/svg" viewBox="-40 -40 1040 310" role="img" font-family="sans-serif" font-size="14">
            <title>\(label)</title>
            <text y="-20">\(label), highest score \(Self.number(steps.map(\.score).max() ?? 0))</text>
            <path d="M0 \(Self.coordinate(Self.height))H\(Self.coordinate(Self.width))" stroke="gray" fill="none"/>
            <path d="\(path)" stroke="teal" stroke-width="2" fill="none"/>
            \(hours.joined(separator: "\n"))
            </svg>

            """
    }

    private static func coordinate(_ value: Double) -> String { String(format: "%.1f", value) }

    // MARK: JSON

    var json: JSONValue {
        [
            "day": .string(day.name), "timeZone": .string(day.timeZone),
            "steps": .array(
                steps.map {
                    [
                        "from": .string($0.from.rfc3339), "score": JSONNumber($0.score).map { .number($0) } ?? .null,
                        "rank": .rounded(ranks.rank(of: $0.score)),
                    ]
                }),
        ]
    }
}
