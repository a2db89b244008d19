import Foundation
package import WidgetModel

/// Output of commands: data on standard output, everything else on standard error.
package enum Terminal {
    package static func print(_ text: String) {
        write(text + "\n", to: .standardOutput)
    }

    /// The document on one line, for programs that read line by line.
    package static func printLine(_ json: JSONValue) {
        print(String(decoding: json.encoded, as: UTF8.self))
    }

    package static func print(_ json: JSONValue) {
        print(PrettyJSON.text(json))
    }

    package static func complain(_ text: String) {
        write(text + "\n", to: .standardError)
    }

    package static var showsProgress: Bool { isatty(STDERR_FILENO) == 1 }

    /// Overwrites the progress line; does nothing without a terminal.
    package static func progress(_ text: String) {
        guard showsProgress else { return }
        write("\r\u{1B}[K" + text, to: .standardError)
    }

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

    /// - Parameter columns: titles with the names of the members that they show.
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

    package func printed() {
        for line in lines { Terminal.print(line) }
    }
}

/// Short figures for people.
package enum Figure {
    /// `512 B`, `12.3 MB`.
    package static func bytes(_ value: Double) -> String {
        for (limit, suffix) in [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")] where abs(value) >= limit * 0.999_5 {
            return digits(value / limit) + " " + suffix
        }
        return digits(value) + " B"
    }

    /// Three digits that count, without zeros at the end.
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
}
