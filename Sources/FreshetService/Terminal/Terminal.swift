// SPDX-License-Identifier: Apache-2.0

import Foundation
package import JSON
import WidgetModel

/// Output of commands: data on standard output, everything else on standard error.
package enum Terminal {
    /// Writes a line to standard output.
    package static func print(_ text: String) {
        write(text + "\n", to: .standardOutput)
    }

    /// Writes the document on one line, for programs that read line by line.
    package static func printLine(_ json: JSONValue) {
        print(String(decoding: json.encoded, as: UTF8.self))
    }

    /// Writes the document on several lines, for people.
    package static func print(_ json: JSONValue) {
        print(json.pretty)
    }

    /// Writes a line to standard error.
    package static func complain(_ text: String) {
        write(text + "\n", to: .standardError)
    }

    /// True if standard error is a terminal, where a progress line can be overwritten.
    package static var showsProgress: Bool { isatty(STDERR_FILENO) == 1 }

    /// Overwrites the progress line; does nothing without a terminal.
    package static func progress(_ text: String) {
        guard showsProgress else { return }
        write("\r\u{1B}[K" + text, to: .standardError)
    }

    /// Clears the progress line.
    package static func endProgress() {
        progress("")
    }

    /// Writes without a buffer, so that the streams keep their order and readers get each line at once.
    private static func write(_ text: String, to handle: FileHandle) {
        // A closed or full standard stream cannot be reported anywhere.
        try? handle.write(contentsOf: Array(text.utf8))
    }
}

/// Rows under titles, in columns as wide as they need to be.
package struct TextTable {
    private let header: [String]
    private let rows: [[String]]

    package init(_ header: String..., rows: [[String]]) {
        self.init(header: header, rows: rows)
    }

    package init(header: [String], rows: [[String]]) {
        self.header = header
        self.rows = rows
    }

    /// Creates a table of objects.
    ///
    /// - Parameter columns: titles, each with the name of the member that its column shows.
    package init(_ rows: [JSONValue], columns: KeyValuePairs<String, String>) {
        header = columns.map(\.key)
        self.rows = rows.map { row in columns.map { Self.cell(row[$0.value] ?? .null) } }
    }

    private static func cell(_ value: JSONValue) -> String {
        switch value {
        case .null: "-"
        case .bool(let flag): flag ? "yes" : "no"
        case .number(let number): number.text
        case .string(let text): Text.printable(text, maximum: 300)
        case .array(let elements): elements.isEmpty ? "-" : elements.map(cell).joined(separator: ", ")
        case .object: Text.printable(String(decoding: value.encoded, as: UTF8.self), maximum: 300)
        }
    }

    package var lines: [String] {
        let all = [header] + rows
        let widths = header.indices.map { column in all.map { $0[column].count }.max() ?? 0 }
        return all.map { row in
            var line = ""
            for (column, text) in row.enumerated() {
                line += text
                // The last column needs no padding.
                if column < row.count - 1 {
                    line += String(repeating: " ", count: widths[column] - text.count + 2)
                }
            }
            return line
        }
    }

    /// Prints the table on standard output.
    package func printed() {
        for line in lines { Terminal.print(line) }
    }
}

/// Short figures for people.
package enum Figure {
    /// Returns a size such as `512 B` or `12.3 MB`.
    package static func bytes(_ value: Double) -> String {
        for (limit, suffix) in [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")] where abs(value) >= limit * 0.999_5 {
            return digits(value / limit) + " " + suffix
        }
        return digits(value) + " B"
    }

    /// Returns a number rounded to three significant digits, to a whole number from 100 on, and to three decimals below
    /// 1, without trailing zeros.
    package static func digits(_ value: Double) -> String {
        guard value.isFinite else { return "–" }
        let size = abs(value)
        let places = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : size == 0 ? 0 : 3
        var text = String(format: "%.\(places)f", value)
        guard text.contains(".") else { return text }
        while text.hasSuffix("0") { text.removeLast() }
        if text.hasSuffix(".") { text.removeLast() }
        return text
    }

    /// `1 reload`, `1,234 reloads`.
    package static func counted(_ number: Int, _ noun: String) -> String {
        "\(grouped(number)) \(noun)\(number == 1 ? "" : "s")"
    }

    /// `1,234,567`.
    package static func grouped(_ number: Int) -> String {
        number.formatted(.number.locale(Locale(identifier: "en_US")))
    }
}
