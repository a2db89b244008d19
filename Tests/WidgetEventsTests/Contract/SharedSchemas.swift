// SPDX-License-Identifier: Apache-2.0

import JSON
import Testing
import WidgetModel

/// The schemas that occur in several places of a contract, each named by a hash of its content, so that an addition
/// elsewhere changes no name.
struct SharedSchemas {
    private var occurrences: [String: Int] = [:]
    private var schemas: [String: JSONValue] = [:]

    /// Length from which a schema is longer than a reference to it.
    private static let leastLength = 40

    init(_ values: [JSONValue]) {
        for value in values { count(value) }
    }

    private mutating func count(_ value: JSONValue) {
        switch value {
        case .object(let object):
            occurrences[value.text, default: 0] += 1
            for member in object.members { count(member.value) }
        case .array(let elements): for element in elements { count(element) }
        default: break
        }
    }

    /// The value with references in place of shared schemas, which are added to the table.
    mutating func folded(_ value: JSONValue) -> JSONValue {
        switch value {
        case .object(let object):
            let text = value.text
            guard text.utf8.count >= Self.leastLength, occurrences[text, default: 0] > 1 else {
                return .object(folded(object))
            }
            let name = ContentHash(of: [UInt8](text.utf8)).description.prefix(8)
            if schemas[String(name)] == nil { schemas[String(name)] = .object(folded(object)) }
            return ["$ref": .string(String(name))]
        case .array(let elements): return .array(elements.map { folded($0) })
        default: return value
        }
    }

    private mutating func folded(_ object: JSONObject) -> JSONObject {
        JSONObject(object.members.map { (key: $0.key, value: folded($0.value)) })
    }

    /// The shared schemas by name.
    var table: JSONValue {
        .object(
            JSONObject(
                schemas.sorted { Text.precedes($0.key, $1.key) }.map { (key: $0.key, value: $0.value) }
            ))
    }

    /// The value with the schemas of a table in place of references.
    static func expanded(_ value: JSONValue, _ table: JSONValue?) throws -> JSONValue {
        switch value {
        case .object(let object):
            if let name = object["$ref"]?.stringValue { return try expanded(try #require(table?[name]), table) }
            return .object(
                JSONObject(
                    try object.members.map {
                        (key: $0.key, value: try expanded($0.value, table))
                    }))
        case .array(let elements): return .array(try elements.map { try expanded($0, table) })
        default: return value
        }
    }
}

extension JSONValue {
    /// JSON in lines of about 120 characters. Short members share a line, also with the beginning of a long one, and
    /// closing brackets stand behind the last member.
    func wrapped(_ depth: Int = 0) -> String {
        let text = self.text
        guard text.utf8.count + depth > 118 else { return text }
        let pad = String(repeating: " ", count: depth + 1)
        switch self {
        case .array(let elements):
            return "[\n" + Self.lines(elements.map { $0.wrapped(depth + 1) }, pad) + "]"
        case .object(let object):
            let members = object.members.map {
                "\(JSONValue.string($0.key).text):\($0.value.wrapped(depth + 1))"
            }
            return "{\n" + Self.lines(members, pad) + "}"
        default: return text
        }
    }

    private static func lines(_ items: [String], _ pad: String) -> String {
        var lines: [String] = []
        for item in items {
            let beginning = item.prefix { $0 != "\n" }
            if let last = lines.last, !last.contains("\n"), last.utf8.count + beginning.utf8.count < 118 {
                lines[lines.count - 1] = "\(last), \(item)"
            } else {
                lines.append(pad + item)
            }
        }
        return lines.joined(separator: ",\n")
    }
}
