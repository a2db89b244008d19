import Foundation
import WidgetModel

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// Output of commands: data on standard output, everything else on standard error.
enum Terminal {
    static func print(_ text: String) {
        write(text + "\n", to: STDOUT_FILENO)
    }

    /// The document on one line, for programs that read line by line.
    static func printLine(_ json: JSONValue) {
        print(String(decoding: json.encoded, as: UTF8.self))
    }

    static func print(_ json: JSONValue) {
        print(PrettyJSON.text(json))
    }

    static func complain(_ text: String) {
        write(text + "\n", to: STDERR_FILENO)
    }

    static var showsProgress: Bool { isatty(STDERR_FILENO) == 1 }

    /// Overwrites the progress line; does nothing without a terminal.
    static func progress(_ text: String) {
        guard showsProgress else { return }
        write("\r\u{1B}[K" + text, to: STDERR_FILENO)
    }

    static func endProgress() {
        progress("")
    }

    /// Writes without a buffer, so that the streams keep their order and readers get each line at once.
    private static func write(_ text: String, to descriptor: Int32) {
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let written = bytes.withUnsafeBytes { Self.systemWrite(descriptor, $0.baseAddress, $0.count) }
            if written < 0 {
                if errno == EINTR { continue }
                // A closed or full standard stream: there is nobody left to tell.
                return
            }
            bytes = bytes.dropFirst(written)
        }
    }

    private static func systemWrite(_ descriptor: Int32, _ address: UnsafeRawPointer?, _ count: Int) -> Int {
        #if canImport(Darwin)
        Darwin.write(descriptor, address, count)
        #else
        Glibc.write(descriptor, address, count)
        #endif
    }
}

/// Indented JSON: two spaces per level, short arrays and objects of scalars on one line.
enum PrettyJSON {
    private static let lineLength = 100

    static func text(_ value: JSONValue) -> String {
        var text = ""
        append(value, indentation: 0, to: &text)
        return text
    }

    private static func append(_ value: JSONValue, indentation: Int, to text: inout String) {
        let compact = String(decoding: value.encoded, as: UTF8.self)
        switch value {
        case .object(let object) where !object.isEmpty && indentation + compact.utf8.count > lineLength:
            let inner = String(repeating: " ", count: indentation + 2)
            text += "{"
            for (index, member) in object.members.enumerated() {
                text += (index == 0 ? "\n" : ",\n") + inner
                text += String(decoding: JSONValue.string(member.key).encoded, as: UTF8.self) + ": "
                append(member.value, indentation: indentation + 2, to: &text)
            }
            text += "\n" + String(repeating: " ", count: indentation) + "}"
        case .array(let elements) where !elements.isEmpty && indentation + compact.utf8.count > lineLength:
            let inner = String(repeating: " ", count: indentation + 2)
            text += "["
            for (index, element) in elements.enumerated() {
                text += (index == 0 ? "\n" : ",\n") + inner
                append(element, indentation: indentation + 2, to: &text)
            }
            text += "\n" + String(repeating: " ", count: indentation) + "]"
        default:
            text += compact
        }
    }
}

/// A table of text.
struct TextTable {
    private let header: [String]
    private var rows: [[String]] = []

    init(_ header: String...) {
        self.header = header
    }

    init(header: [String], rows: [[String]]) {
        self.header = header
        self.rows = rows
    }

    mutating func add(_ row: String...) {
        rows.append(row)
    }

    var lines: [String] {
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

    func printed() {
        for line in lines { Terminal.print(line) }
    }
}
