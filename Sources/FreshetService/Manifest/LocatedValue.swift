package import WidgetModel

/// A place in a text file; lines and columns start from 1, columns count Unicode scalars.
package struct SourceMark: Hashable, Comparable, Sendable {
    package var line: Int
    var column: Int

    /// The mark of values without lines.
    static let unknown = SourceMark(line: 0, column: 0)

    package static func < (left: SourceMark, right: SourceMark) -> Bool {
        (left.line, left.column) < (right.line, right.column)
    }
}

/// A value of a YAML document with its place, for error messages.
///
/// It is a JSON value: scalars are resolved by YAML 1.2's core schema (`yes` is a string, `012` is twelve), keys are strings,
/// and aliases are expanded.
struct LocatedValue: Sendable {
    let mark: SourceMark
    let content: Content

    enum Content: Sendable {
        case null
        case bool(Bool)
        /// A JSON number.
        case number(String)
        case string(String)
        case sequence([LocatedValue])
        case mapping([Member])
    }

    /// A key with its value, in the order of the document.
    struct Member: Sendable {
        let key: String
        let keyMark: SourceMark
        let value: LocatedValue
    }

    /// Name of the type for messages: "a string", "a list".
    var typeName: String {
        switch content {
        case .null: "nothing"
        case .bool: "a boolean"
        case .number: "a number"
        case .string: "a string"
        case .sequence: "a list"
        case .mapping: "a mapping"
        }
    }

    var isNull: Bool {
        if case .null = content { true } else { false }
    }
}

/// An error in a file, with its place.
package struct FileProblem: Error, Hashable, Sendable, CustomStringConvertible {
    var file: String
    /// Nil for the file as a whole.
    package var mark: SourceMark?
    /// `kinds[1].maxBatch`; empty for the document itself.
    var path: String
    package var message: String
    var expectation: String?

    /// `kinds.yaml:12:15: kinds[1].maxBatch: 0 is out of range; expected 1 to 1000`
    package var description: String {
        var text = file
        if let mark { text += ":\(mark.line):\(mark.column)" }
        text += ": "
        if !path.isEmpty { text += path + ": " }
        text += message
        if let expectation { text += "; expected " + expectation }
        return text
    }
    package var json: JSONValue {
        [
            "file": .string(file), "line": mark.map { .number(JSONNumber($0.line)) } ?? .null,
            "column": mark.map { .number(JSONNumber($0.column)) } ?? .null, "path": .string(path),
            "message": .string(message), "expected": expectation.map { .string($0) } ?? .null,
        ]
    }
}
