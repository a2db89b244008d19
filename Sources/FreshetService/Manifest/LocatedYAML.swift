// SPDX-License-Identifier: Apache-2.0

package import JSON
import WidgetModel
import Yams

/// A YAML document as JSON, with the places of its values for error messages.
///
/// Of plain scalars only `true`, `false`, `null` and the numbers of JSON are not strings (`yes` is one); keys are
/// strings, and aliases are expanded.
struct LocatedYAML {
    /// Largest file that is read: 4 MiB.
    static let maximumBytes = 4 * 1024 * 1024
    /// Deepest nesting of lists and mappings.
    static let maximumDepth = 64
    /// Most values in a file with its aliases expanded.
    static let maximumValues = 200_000

    let json: JSONValue
    private let root: Node

    /// Reads every document of `text`; `file` is the name in problems. A syntax error ends the reading.
    static func read(_ text: String, file: String) -> (documents: [LocatedYAML], problems: [FileProblem]) {
        guard text.utf8.count <= maximumBytes else {
            let problem = FileProblem(
                file: file, message: "the file has \(text.utf8.count) bytes", expectation: "at most \(maximumBytes)")
            return ([], [problem])
        }
        var documents: [LocatedYAML] = []
        var converter = NodeConverter(file: file)
        do {
            let parser = try Yams.Parser(yaml: padded(text))
            while let node = try parser.nextRoot() {
                if let json = converter.convert(node, path: "", depth: 0) {
                    documents.append(LocatedYAML(json: json, root: node))
                }
            }
        } catch {
            converter.problems.append(problem(error, file: file))
        }
        return (documents, converter.problems)
    }

    /// The text with a line end and at least 64 bytes.
    ///
    /// Yams uses the bytes of the string beyond the call that lends them. That works only for strings with storage of
    /// their own, so a comment is added to very short ones.
    private static func padded(_ text: String) -> String {
        let ended = text.hasSuffix("\n") ? text : text + "\n"
        return ended.utf8.count >= 64 ? ended : ended + String(repeating: "#", count: 64)
    }

    private static func problem(_ error: any Error, file: String) -> FileProblem {
        var problem = FileProblem(file: file, message: "the file is not valid YAML")
        switch error as? YamlError {
        case .scanner(let context, let message, let mark, _)?, .parser(let context, let message, let mark, _)?,
            .composer(let context, let message, let mark, _)?:
            problem.location = (mark.line, mark.column)
            let situation = (context?.text).map { " \($0)" } ?? ""
            problem.message = "invalid YAML\(situation): \(message)"
        case .reader(let message, let offset, _, _)?:
            problem.message = "invalid YAML: \(message)" + (offset.map { " at byte \($0)" } ?? "")
        case .duplicatedKeysInMapping(let keys, let context)?:
            problem.location = (context.mark.line, context.mark.column)
            let names = keys.sorted().map { Text.quoted($0) }.joined(separator: ", ")
            problem.message = "duplicate key \(names)"
            problem.expectation = "every key once"
        default:
            break
        }
        return problem
    }

    /// Places of a member or item and of its value, and its path as YAML users write it, such as `kinds[1].maxBatch`.
    /// If there is none, the places are those of the innermost value on the way to it.
    func place(of tokens: [String]) -> (key: SourceLocation, value: SourceLocation, path: String) {
        var node: Node? = root
        var (key, value, path) = (root.location, root.location, "")
        for token in tokens {
            switch node {
            case .sequence(let items)?:
                path += "[\(token)]"
                node = Int(token).flatMap { items.indices.contains($0) ? items[$0] : nil }
                if let node { (key, value) = (node.location, node.location) }
            case .mapping(let members)?:
                path += path.isEmpty ? token : ".\(token)"
                let member = members.first { $0.key.scalar?.string == token }
                node = member?.value
                if let member { (key, value) = (member.key.location, member.value.location) }
            default:
                path += ".\(token)"
                node = nil
            }
        }
        return (key, value, path)
    }
}

/// A place in a text file; lines and columns start from 1, columns count Unicode scalars.
package typealias SourceLocation = (line: Int, column: Int)

extension Node {
    fileprivate var location: SourceLocation { (mark?.line ?? 1, mark?.column ?? 1) }
}

/// An error in a file, with its location.
package struct FileProblem: Error, Sendable, CustomStringConvertible {
    var file: String
    /// Nil for the file as a whole.
    package var location: SourceLocation?
    /// `kinds[1].maxBatch`; empty for the document itself.
    var path = ""
    package var message: String
    package var expectation: String?

    /// `kinds.yaml:12:15: kinds[1].maxBatch: 0 is out of range; expected 1 to 1000`
    package var description: String {
        let place = location.map { ":\($0.line):\($0.column)" } ?? ""
        return "\(file)\(place): \(path.isEmpty ? "" : path + ": ")\(message)"
            + (expectation.map { "; expected \($0)" } ?? "")
    }

    package var json: JSONValue {
        [
            "file": .string(file), "line": .count(location?.line), "column": .count(location?.column),
            "path": .string(path),
            "message": .string(message), "expected": .text(expectation),
        ]
    }
}

extension JSONValue {
    /// The value as YAML, with its members in their order.
    package func yaml() throws -> String {
        try Yams.serialize(node: node, width: -1, allowUnicode: true)
    }

    private var node: Node {
        switch self {
        case .null: Node("null")
        case .bool(let flag): Node(flag ? "true" : "false")
        case .number(let number): Node(number.text)
        // In quotes where it would be read as another type.
        case .string(let text): (try? text.represented()) ?? Node(text)
        case .array(let elements): Node(elements.map(\.node))
        case .object(let object):
            Node(object.members.map { (Node($0.key, Tag(.str)), $0.value.node) })
        }
    }
}

/// Turns Yams' nodes into JSON, and collects errors.
///
/// Yams shares aliased nodes, so values are counted while they are expanded.
private struct NodeConverter {
    let file: String
    var problems: [FileProblem] = []
    var values = 0

    mutating func convert(_ node: Node, path: String, depth: Int) -> JSONValue? {
        guard values <= LocatedYAML.maximumValues else { return nil }
        values += 1
        guard values <= LocatedYAML.maximumValues else {
            report(
                node, path: path, message: "too many values once the aliases are expanded",
                expected: "at most \(LocatedYAML.maximumValues)")
            return nil
        }
        guard depth <= LocatedYAML.maximumDepth else {
            report(
                node, path: path, message: "nested too deeply", expected: "at most \(LocatedYAML.maximumDepth) levels")
            return nil
        }
        switch node {
        case .scalar(let scalar): return convert(scalar, node, path)
        case .sequence(let sequence):
            guard hasTag(node, .seq, path) else { return nil }
            var items: [JSONValue] = []
            for (index, item) in sequence.enumerated() {
                if let item = convert(item, path: "\(path)[\(index)]", depth: depth + 1) { items.append(item) }
            }
            return .array(items)
        case .mapping(let mapping):
            guard hasTag(node, .map, path) else { return nil }
            return convert(mapping, path: path, depth: depth)
        case .alias:
            report(node, path: path, message: "an unresolved alias")
            return nil
        }
    }

    private mutating func convert(_ mapping: Node.Mapping, path: String, depth: Int) -> JSONValue {
        var members: [JSONObject.Member] = []
        var seen: Set<String> = []
        for (keyNode, valueNode) in mapping {
            guard let key = keyNode.scalar?.string else {
                report(keyNode, path: path, message: "a key that is a list or a mapping", expected: "a string")
                continue
            }
            let name = Text.containsControlCharacter(key) ? Text.quoted(key) : key
            let memberPath = path.isEmpty ? name : "\(path).\(name)"
            // Yams compares keys with their tags, so `1` and `"1"` are different keys.
            guard seen.insert(key).inserted else {
                report(
                    keyNode, path: memberPath, message: "duplicate key \(Text.quoted(key))", expected: "every key once")
                continue
            }
            if let value = convert(valueNode, path: memberPath, depth: depth + 1) {
                members.append((key: key, value: value))
            }
        }
        return .object(JSONObject(members))
    }

    private mutating func convert(_ scalar: Node.Scalar, _ node: Node, _ path: String) -> JSONValue? {
        switch Tag.Name(rawValue: node.tag.rawValue) {
        // Tags of YAML 1.1; an empty name is a scalar that Yams did not resolve.
        case .bool, .int, .float, .null, .timestamp, .merge, .value, .implicit:
            guard scalar.style == .plain else { return .string(scalar.string) }
            return plain(scalar.string, node, path)
        case .str, .nonSpecific: return .string(scalar.string)
        default:
            report(node, path: path, message: "the tag \(node.tag.rawValue) is not supported")
            return nil
        }
    }

    private mutating func plain(_ text: String, _ node: Node, _ path: String) -> JSONValue? {
        switch text {
        case "", "~", "null", "Null", "NULL": return .null
        case "true", "True", "TRUE": return .bool(true)
        case "false", "False", "FALSE": return .bool(false)
        case _ where text.wholeMatch(of: /-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?/) != nil:
            if let number = JSONNumber(text) { return .number(number) }
            report(
                node, path: path, message: "\(Text.printable(text, maximum: 64)) is out of range",
                expected: "a number that can be kept exactly, or a string in quotes")
            return nil
        default: return .string(text)
        }
    }

    private mutating func hasTag(_ node: Node, _ expected: Tag.Name, _ path: String) -> Bool {
        let tag = node.tag.rawValue
        guard tag != expected.rawValue, !tag.isEmpty, tag != Tag.Name.nonSpecific.rawValue else { return true }
        report(node, path: path, message: "the tag \(tag) is not supported")
        return false
    }

    private mutating func report(_ node: Node, path: String, message: String, expected expectation: String? = nil) {
        problems.append(
            FileProblem(file: file, location: node.location, path: path, message: message, expectation: expectation))
    }
}
