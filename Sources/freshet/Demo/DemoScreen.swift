// SPDX-License-Identifier: Apache-2.0

import Foundation

/// Shows the progress: redrawn in place on a terminal, a plain line every five seconds elsewhere.
struct DemoScreen {
    /// Looks of a line, on a terminal that has colours.
    enum Style: String {
        case plain = ""
        case title = "1"
        case good = "32"
        case bad = "31"
    }

    /// Columns of a terminal that does not tell, and of other outputs.
    static let defaultColumns = 80
    private static let nameColumns = 22

    let start = ContinuousClock.now
    private let isTerminal = isatty(STDOUT_FILENO) == 1
    private let hasColors: Bool = {
        let environment = ProcessInfo.processInfo.environment
        return isatty(STDOUT_FILENO) == 1 && environment["NO_COLOR"]?.isEmpty ?? true && environment["TERM"] != "dumb"
    }()
    /// Rows that the next frame replaces.
    private var drawn = 0
    private var lastLine: ContinuousClock.Instant?

    /// Columns of the terminal now: its window may change.
    private var columns: Int {
        var size = winsize()
        guard isTerminal, ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else {
            return Self.defaultColumns
        }
        return Int(size.ws_col)
    }

    mutating func show(_ title: String, _ facts: [(name: String, value: String)]) {
        guard isTerminal else {
            if let lastLine, lastLine.duration(to: .now) < .seconds(5) { return }
            lastLine = .now
            return say("\(title): " + facts.map { "\($0.name) \($0.value)" }.joined(separator: ", "))
        }
        erase()
        let rows = Self.frame(title, facts, columns: columns)
        print("")
        for (index, row) in rows.enumerated() { print(styled(row, index == 0 ? .title : .plain)) }
        drawn = rows.count + 1
        fflush(nil)
    }

    /// A line that stays above the redrawn part.
    mutating func say(_ text: String, _ style: Style = .plain) {
        erase()
        print(styled(text, style))
        fflush(nil)
    }

    /// Lines with a name and its text, which is wrapped between words.
    mutating func say(_ name: String, _ text: String) {
        for line in Self.wrapped(text, after: "  " + Self.padded(name), columns: columns) { say(line) }
    }

    /// Rows of a frame: none is longer than the terminal is wide, since a wrapped one would take two rows of it.
    static func frame(_ title: String, _ facts: [(name: String, value: String)], columns: Int) -> [String] {
        ([title] + facts.map { padded($0.name) + $0.value }).map { row in
            let row = "  " + row
            return row.count < columns ? row : row.prefix(max(0, columns - 2)) + "…"
        }
    }

    /// Wraps a text between words behind a first part, whose width further lines leave blank. A word that does not fit
    /// into a line stays whole.
    static func wrapped(_ text: String, after first: String, columns: Int) -> [String] {
        var lines: [String] = []
        var line = first
        var isEmpty = true
        for word in text.split(separator: " ") {
            if !isEmpty, line.count + 1 + word.count > columns {
                lines.append(line)
                line = String(repeating: " ", count: first.count)
                isEmpty = true
            }
            line += (isEmpty ? "" : " ") + word
            isEmpty = false
        }
        return lines + [line]
    }

    private static func padded(_ name: String) -> String {
        name.padding(toLength: nameColumns, withPad: " ", startingAt: 0)
    }

    private func styled(_ text: String, _ style: Style) -> String {
        hasColors && style != .plain ? "\u{1B}[\(style.rawValue)m\(text)\u{1B}[m" : text
    }

    private mutating func erase() {
        if drawn > 0 { print("\u{1B}[\(drawn)A\u{1B}[J", terminator: "") }
        drawn = 0
    }
}
