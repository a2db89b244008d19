import WidgetModel

/// A place in a text file; lines and columns start from 1, columns count Unicode scalars.
struct SourceMark: Hashable, Comparable, Sendable {
    var line: Int
    var column: Int

    /// The mark of a value whose format gives no lines.
    static let unknown = SourceMark(line: 0, column: 0)

    static func < (left: SourceMark, right: SourceMark) -> Bool {
        (left.line, left.column) < (right.line, right.column)
    }
}

/// A value of a YAML document that remembers where it stands, so that whoever finds it wrong can say where.
///
/// Holds what JSON can hold: scalars are resolved by YAML 1.2's core schema (`yes` is a string, `012` is twelve), keys
/// are strings, aliases are expanded.
struct LocatedValue: Sendable {
    let mark: SourceMark
    let content: Content

    enum Content: Sendable {
        case null
        case bool(Bool)
        /// The number as JSON writes it.
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

    /// What a message calls this sort of value: "a string", "a list".
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

    /// The scalar as text, shortened, or the sort of value: what a message quotes.
    var excerpt: String {
        switch content {
        case .bool(let value): "\(value)"
        case .number(let text): text.utf8.count > 64 ? "\(text.prefix(64))…" : text
        case .string(let text): Text.quoted(text)
        case .null, .sequence, .mapping: typeName
        }
    }

    var isNull: Bool {
        if case .null = content { true } else { false }
    }
}

/// One thing wrong in a file: where, at which path of the document, what, and what was expected instead.
struct FileProblem: Error, Hashable, Sendable, CustomStringConvertible {
    var file: String
    /// Absent when the problem is the file as a whole.
    var mark: SourceMark?
    /// `kinds[1].maxBatch`; empty for the document itself.
    var path: String
    var message: String
    var expectation: String?

    /// `kinds.yaml:12:15: kinds[1].maxBatch: 0 is out of range; expected 1 to 1000`
    var description: String {
        var text = file
        if let mark { text += ":\(mark.line):\(mark.column)" }
        text += ": "
        if !path.isEmpty { text += path + ": " }
        text += message
        if let expectation { text += "; expected " + expectation }
        return text
    }
}
