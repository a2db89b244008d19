package import WidgetModel
import Yams

/// Reads YAML text into located values, with limits on size, depth and number of values.
enum LocatedYAML {
    /// Largest file that is read: 4 MiB.
    static let maximumBytes = 4 * 1024 * 1024
    /// Deepest nesting of lists and mappings.
    static let maximumDepth = 64
    /// Most values in a file with its aliases expanded.
    static let maximumValues = 200_000

    /// Documents and problems of a text.
    struct Outcome: Sendable {
        var documents: [LocatedValue] = []
        var problems: [FileProblem] = []
    }

    /// Reads every document of `text`; `file` is the name in problems. A syntax error ends the reading.
    static func read(_ text: String, file: String) -> Outcome {
        var outcome = Outcome()
        guard text.utf8.count <= maximumBytes else {
            outcome.problems.append(
                FileProblem(
                    file: file, message: "the file has \(text.utf8.count) bytes",
                    expectation: "at most \(maximumBytes)"))
            return outcome
        }
        var converter = NodeConverter(file: file)
        do {
            let parser = try Yams.Parser(yaml: padded(text))
            while let node = try parser.nextRoot() {
                if let document = converter.convert(node) { outcome.documents.append(document) }
            }
        } catch {
            converter.problems.append(problem(error, file: file))
        }
        outcome.problems = converter.problems
        return outcome
    }

    /// The text with a line end and at least 64 bytes.
    ///
    /// Yams uses the bytes of the string beyond the call that lends them. That works only for strings with storage of their
    /// own, so a comment is added to very short ones.
    private static func padded(_ text: String) -> String {
        let ended = text.hasSuffix("\n") ? text : text + "\n"
        return ended.utf8.count >= 64 ? ended : ended + String(repeating: "#", count: 64)
    }

    private static func problem(_ error: any Error, file: String) -> FileProblem {
        var problem = FileProblem(file: file, message: "the file is not valid YAML")
        guard let error = error as? YamlError else { return problem }
        switch error {
        case .scanner(let context, let message, let mark, _), .parser(let context, let message, let mark, _),
            .composer(let context, let message, let mark, _):
            problem.mark = SourceMark(line: mark.line, column: mark.column)
            let situation = (context?.text).map { " \($0)" } ?? ""
            problem.message = "invalid YAML\(situation): \(message)"
        case .reader(let message, let offset, _, _):
            problem.message = "invalid YAML: \(message)" + (offset.map { " at byte \($0)" } ?? "")
        case .duplicatedKeysInMapping(let keys, let context):
            problem.mark = SourceMark(line: context.mark.line, column: context.mark.column)
            let names = keys.sorted().map { Text.quoted($0) }.joined(separator: ", ")
            problem.message = "duplicate key \(names)"
            problem.expectation = "every key once"
        default:
            break
        }
        return problem
    }
}

package enum YAMLText {
    /// The value as YAML, with its members in their order.
    package static func write(_ value: JSONValue) throws -> String {
        try Yams.serialize(node: node(value), width: -1, allowUnicode: true)
    }

    private static func node(_ value: JSONValue) -> Node {
        switch value {
        case .null: Node("null")
        case .bool(let flag): Node(flag ? "true" : "false")
        case .number(let number): Node(number.text)
        // In quotes where it would be read as another type.
        case .string(let text): (try? text.represented()) ?? Node(text)
        case .array(let elements): Node(elements.map(node))
        case .object(let object):
            Node(object.members.map { (Node($0.key, Tag(.str)), node($0.value)) })
        }
    }
}

/// Turns Yams' nodes into located values.
///
/// Yams shares aliased nodes, so values are counted while they are expanded.
private struct NodeConverter {
    let file: String
    var problems: [FileProblem] = []
    var values = 0
    var isExhausted = false

    mutating func convert(_ node: Node) -> LocatedValue? {
        convert(node, path: "", depth: 0)
    }

    private mutating func convert(_ node: Node, path: String, depth: Int) -> LocatedValue? {
        guard !isExhausted else { return nil }
        let mark = node.mark.map { SourceMark(line: $0.line, column: $0.column) } ?? SourceMark(line: 1, column: 1)
        values += 1
        guard values <= LocatedYAML.maximumValues else {
            isExhausted = true
            report(mark, path, "too many values once the aliases are expanded", "at most \(LocatedYAML.maximumValues)")
            return nil
        }
        guard depth <= LocatedYAML.maximumDepth else {
            report(mark, path, "nested too deeply", "at most \(LocatedYAML.maximumDepth) levels")
            return nil
        }
        switch node {
        case .scalar(let scalar):
            return convert(scalar, node: node, mark: mark, path: path)
        case .sequence(let sequence):
            guard checkTag(node, is: .seq, mark: mark, path: path) else { return nil }
            var items: [LocatedValue] = []
            for (index, item) in sequence.enumerated() {
                if let item = convert(item, path: "\(path)[\(index)]", depth: depth + 1) { items.append(item) }
            }
            return LocatedValue(mark: mark, content: .sequence(items))
        case .mapping(let mapping):
            guard checkTag(node, is: .map, mark: mark, path: path) else { return nil }
            return convert(mapping, mark: mark, path: path, depth: depth)
        case .alias:
            report(mark, path, "an unresolved alias", nil)
            return nil
        }
    }

    private mutating func convert(
        _ mapping: Node.Mapping, mark: SourceMark, path: String, depth: Int
    ) -> LocatedValue? {
        var members: [LocatedValue.Member] = []
        var seen: Set<String> = []
        for (keyNode, valueNode) in mapping {
            let keyMark = keyNode.mark.map { SourceMark(line: $0.line, column: $0.column) } ?? mark
            guard case .scalar(let scalar) = keyNode else {
                report(keyMark, path, "a key that is a list or a mapping", "a string")
                continue
            }
            let key = scalar.string
            let name = Text.containsControlCharacter(key) ? Text.quoted(key) : key
            let memberPath = path.isEmpty ? name : "\(path).\(name)"
            // Yams compares keys with their tags, so `1` and `"1"` are different keys.
            guard seen.insert(key).inserted else {
                report(keyMark, memberPath, "duplicate key \(Text.quoted(key))", "every key once")
                continue
            }
            if let value = convert(valueNode, path: memberPath, depth: depth + 1) {
                members.append(LocatedValue.Member(key: key, keyMark: keyMark, value: value))
            }
        }
        return LocatedValue(mark: mark, content: .mapping(members))
    }

    private mutating func convert(_ scalar: Node.Scalar, node: Node, mark: SourceMark, path: String) -> LocatedValue? {
        let tag = node.tag.rawValue
        let string = LocatedValue(mark: mark, content: .scalar(.string(scalar.string)))
        switch Tag.Name(rawValue: tag) {
        case .str, .nonSpecific:
            return string
        // Tags of YAML 1.1; an empty name is a scalar that Yams did not resolve.
        case .bool, .int, .float, .null, .timestamp, .merge, .value, .implicit:
            guard scalar.style == .plain else { return string }
            return plain(scalar.string, mark: mark, path: path)
        default:
            report(mark, path, "the tag \(tag) is not supported", nil)
            return nil
        }
    }

    private mutating func plain(_ text: String, mark: SourceMark, path: String) -> LocatedValue? {
        let value: JSONValue
        switch text {
        case "", "~", "null", "Null", "NULL": value = .null
        case "true", "True", "TRUE": value = .bool(true)
        case "false", "False", "FALSE": value = .bool(false)
        case _ where text.wholeMatch(of: /-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?/) != nil:
            guard let number = JSONNumber(text) else {
                report(
                    mark, path, "\(Text.printable(text, maximum: 64)) is out of range",
                    "a number that can be kept exactly, or a string in quotes")
                return nil
            }
            value = .number(number)
        default: value = .string(text)
        }
        return LocatedValue(mark: mark, content: .scalar(value))
    }

    private mutating func checkTag(_ node: Node, is expected: Tag.Name, mark: SourceMark, path: String) -> Bool {
        let tag = node.tag.rawValue
        guard tag == expected.rawValue || tag.isEmpty || tag == Tag.Name.nonSpecific.rawValue else {
            report(mark, path, "the tag \(tag) is not supported", nil)
            return false
        }
        return true
    }

    private mutating func report(_ mark: SourceMark, _ path: String, _ message: String, _ expectation: String?) {
        problems.append(FileProblem(file: file, mark: mark, path: path, message: message, expectation: expectation))
    }
}
