// SPDX-License-Identifier: Apache-2.0

internal import Foundation
package import JSON
import WidgetModel

/// A validator for the subset of JSON Schema that the published schemas use.
package enum SchemaCheck {
    /// Loads a file of `schemas/`.
    package static func schema(_ path: String) throws -> JSONValue {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        return try JSONValue.parse([UInt8](Data(contentsOf: root.appending(path: "schemas/\(path)"))))
    }

    /// Returns pointers to the values that do not satisfy the schema.
    package static func problems(of value: JSONValue, by schema: JSONValue, at pointer: String = "") -> [String] {
        problems(of: value, by: schema, at: pointer, definitions: schema["$defs"])
    }

    private static func problems(
        of value: JSONValue, by schema: JSONValue, at pointer: String, definitions: JSONValue?
    ) -> [String] {
        if case .bool(let allowed) = schema { return allowed ? [] : [pointer] }
        if let name = schema["$ref"]?.stringValue {
            guard name.hasPrefix("#/$defs/"), let definition = definitions?[String(name.dropFirst(8))] else {
                return ["\(pointer): \(name) is not known"]
            }
            return problems(of: value, by: definition, at: pointer, definitions: definitions)
        }
        var problems: [String] = []
        if let type = schema["type"] {
            let names = type.arrayValue?.compactMap(\.stringValue) ?? [type.stringValue ?? ""]
            if !names.contains(where: { matches(value, type: $0) }) { return ["\(pointer) is no \(names)"] }
        }
        if let constant = schema["const"], constant != value { problems.append("\(pointer) is not \(constant)") }
        if let allowed = schema["enum"]?.arrayValue, !allowed.contains(value) {
            problems.append("\(pointer) is none of \(allowed)")
        }
        if let alternatives = schema["oneOf"]?.arrayValue {
            let count = alternatives.count {
                Self.problems(of: value, by: $0, at: pointer, definitions: definitions).isEmpty
            }
            if count != 1 { problems.append("\(pointer) satisfies \(count) of oneOf") }
        }
        if let alternatives = schema["anyOf"]?.arrayValue,
            !alternatives.contains(where: {
                Self.problems(of: value, by: $0, at: pointer, definitions: definitions).isEmpty
            })
        {
            problems.append("\(pointer) satisfies none of anyOf")
        }
        switch value {
        case .string(let text):
            problems += stringProblems(text, schema, pointer)
        case .array(let elements):
            if let minimum = schema["minItems"]?.numberValue?.int64, elements.count < minimum {
                problems.append("\(pointer) is short")
            }
            if let maximum = schema["maxItems"]?.numberValue?.int64, elements.count > maximum {
                problems.append("\(pointer) is long")
            }
            for (index, element) in elements.enumerated() {
                problems +=
                    schema["items"].map {
                        Self.problems(of: element, by: $0, at: "\(pointer)/\(index)", definitions: definitions)
                    } ?? []
            }
        case .object(let object):
            for key in schema["required"]?.arrayValue?.compactMap(\.stringValue) ?? [] where object[key] == nil {
                problems.append("\(pointer)/\(key) is missing")
            }
            for member in object.members {
                let place = "\(pointer)/\(member.key)"
                let schema = schema["properties"]?[member.key] ?? schema["additionalProperties"]
                problems +=
                    schema.map { Self.problems(of: member.value, by: $0, at: place, definitions: definitions) } ?? []
            }
        case .number(let number):
            if let minimum = schema["minimum"]?.numberValue?.double, number.double < minimum {
                problems.append("\(pointer) is small")
            }
        case .null, .bool:
            break
        }
        return problems
    }

    private static func stringProblems(_ text: String, _ schema: JSONValue, _ pointer: String) -> [String] {
        var problems: [String] = []
        let count = text.unicodeScalars.count
        if let minimum = schema["minLength"]?.numberValue?.int64, count < minimum {
            problems.append("\(pointer) is short")
        }
        if let maximum = schema["maxLength"]?.numberValue?.int64, count > maximum {
            problems.append("\(pointer) is long")
        }
        if let pattern = schema["pattern"]?.stringValue,
            text.range(of: pattern, options: .regularExpression) == nil
        {
            problems.append("\(pointer) does not match \(pattern)")
        }
        switch schema["format"] {
        case "date-time" where Timestamp(rfc3339: text) == nil: problems.append("\(pointer) is no date-time")
        case "uuid" where UUID(uuidString: text) == nil: problems.append("\(pointer) is no UUID")
        default: break
        }
        return problems
    }

    private static func matches(_ value: JSONValue, type: String) -> Bool {
        switch (value, type) {
        case (.null, "null"), (.bool, "boolean"), (.number, "number"), (.string, "string"), (.array, "array"),
            (.object, "object"):
            true
        case (.number(let number), "integer"): number.int64 != nil
        default: false
        }
    }
}
