package import WidgetModel

/// A place in a text file; lines and columns start from 1, columns count Unicode scalars.
package struct SourceMark: Hashable, Comparable, Sendable {
    package var line: Int
    var column: Int

    package static func < (left: SourceMark, right: SourceMark) -> Bool {
        (left.line, left.column) < (right.line, right.column)
    }
}

/// A value of a YAML document with its place, for error messages.
///
/// It is a JSON value: of plain scalars only `true`, `false`, `null` and the numbers of JSON are not strings (`yes` is one);
/// keys are strings, and aliases are expanded.
struct LocatedValue: Sendable {
    let mark: SourceMark
    let content: Content

    enum Content: Sendable {
        /// Neither an array nor an object.
        case scalar(JSONValue)
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
        case .scalar(.bool): "a boolean"
        case .scalar(.number): "a number"
        case .scalar(.string): "a string"
        case .scalar: "nothing"
        case .sequence: "a list"
        case .mapping: "a mapping"
        }
    }

    var isNull: Bool {
        if case .scalar(.null) = content { true } else { false }
    }

    var json: JSONValue {
        switch content {
        case .scalar(let value): value
        case .sequence(let items): .array(items.map(\.json))
        case .mapping(let members):
            .object(JSONObject(members.map { JSONObject.Member(key: $0.key, value: $0.value.json) }))
        }
    }
}

/// An error in a file, with its place.
package struct FileProblem: Error, Hashable, Sendable, CustomStringConvertible {
    var file: String
    /// Nil for the file as a whole.
    package var mark: SourceMark?
    /// `kinds[1].maxBatch`; empty for the document itself.
    var path = ""
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
            "file": .string(file), "line": .count(mark?.line),
            "column": .count(mark?.column), "path": .string(path),
            "message": .string(message), "expected": .text(expectation),
        ]
    }
}
