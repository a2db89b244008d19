// SPDX-License-Identifier: Apache-2.0

import JSON
import Testing
import WidgetModel

/// A change to the real documents.
struct ContractChange: Sendable, CustomTestStringConvertible {
    let direction: ContractRule.Direction
    let part: String
    /// Keys and indices that lead to the value.
    let path: [String]
    let value: JSONValue?
    /// Part of the expected error; nil if the change is allowed.
    let breach: String?

    init(
        _ direction: ContractRule.Direction, _ part: String, _ path: [String], _ value: JSONValue?,
        _ breach: String?
    ) {
        (self.direction, self.part, self.path) = (direction, part, path)
        (self.value, self.breach) = (value, breach)
    }

    var testDescription: String {
        "\(part): /\(path.joined(separator: "/")) becomes \(value?.text ?? "nothing")"
    }

    func applied(to schema: JSONValue) throws -> JSONValue {
        try Self.replacing(path[...], of: schema, by: value)
    }

    private static func replacing(
        _ path: ArraySlice<String>, of value: JSONValue, by new: JSONValue?
    ) throws -> JSONValue {
        guard let key = path.first else { return new ?? .null }
        switch value {
        case .object(var object):
            if path.count == 1 {
                object[key] = new
            } else {
                object[key] = try replacing(path.dropFirst(), of: try #require(object[key]), by: new)
            }
            return .object(object)
        case .array(var elements):
            let index = try #require(Int(key))
            if path.count > 1 {
                elements[index] = try replacing(path.dropFirst(), of: elements[index], by: new)
            } else if let new {
                if index == elements.count { elements.append(new) } else { elements[index] = new }
            } else {
                elements.remove(at: index)
            }
            return .array(elements)
        default:
            throw ContractFiles.Unresolved(description: "no \(key) in \(value.text)")
        }
    }
}

extension ContractChange {
    private static let push = "freshet.pushes freshet.push.received.v1 data"
    private static let placed = "freshet.widgets freshet.widget.placed.v1 data"
    private static let updated = "freshet.timelines freshet.timeline.updated.v1 data"
    private static let decided = "freshet.decisions freshet.timeline.decided.v1 data"
    private static let answer = "POST /timelines answer"
    private static let request = "POST /timelines request"

    static let all: [ContractChange] = [
        // Input: less is accepted.
        ContractChange(.reads, push, ["properties", "matching"], nil, "/matching: is gone"),
        ContractChange(
            .reads, push, ["properties", "audience", "properties", "device"], nil, "/audience/device: is gone"),
        ContractChange(.reads, push, ["properties", "matching", "type"], "object", "/matching: null is not accepted"),
        ContractChange(.reads, push, ["properties", "app", "maxLength"], 128, "/app: maxLength is 128"),
        ContractChange(.reads, push, ["properties", "app", "minLength"], 2, "/app: minLength is 2"),
        ContractChange(.reads, push, ["properties", "app", "pattern"], "^[a-z.]+$", "/app: pattern is another"),
        ContractChange(.reads, push, ["properties", "app", "enum"], ["a"], "/app: only certain values"),
        ContractChange(.reads, push, ["required", "3"], "matching", "/matching: is required now"),
        ContractChange(.reads, push, ["properties", "kinds", "oneOf", "0"], nil, "/kinds/oneOf/0"),
        ContractChange(.reads, push, ["properties", "kinds", "oneOf", "1", "maxItems"], 10, "maxItems is 10"),
        ContractChange(.reads, push, ["additionalProperties"], false, "/additionalProperties: nothing is allowed"),
        ContractChange(.reads, push, ["not"], ["required": ["matching"]], "not is another, which this rule"),
        ContractChange(
            .reads, placed, ["properties", "family", "enum", "0"], nil, #"the value "systemSmall" is gone"#),
        ContractChange(.reads, placed, ["properties", "configuration"], true, nil),
        ContractChange(
            .reads, answer, ["properties", "timelines", "items", "oneOf", "1"], nil, "/timelines/items/oneOf/1"),
        ContractChange(
            .reads, "freshet.pushes freshet.push.received.v1 headers", ["required", "4"], "ce_time", "is required"),
        ContractChange(
            .reads, "freshet.pushes freshet.push.received.v1 headers", ["properties", "traceparent"], nil, "is gone"),
        // More is accepted.
        ContractChange(.reads, push, ["properties", "quiet"], ["type": "boolean"], nil),
        ContractChange(.reads, push, ["properties", "app", "maxLength"], 512, nil),
        ContractChange(.reads, push, ["properties", "app", "pattern"], nil, nil),
        ContractChange(.reads, push, ["required", "2"], nil, nil),
        ContractChange(.reads, push, ["properties", "kinds", "oneOf", "2"], ["type": "null"], nil),
        ContractChange(.reads, placed, ["properties", "family", "enum", "7"], "accessoryCorner", nil),
        // Output: members disappear, or unknown values appear.
        ContractChange(.writes, updated, ["properties", "user"], nil, "/user: is gone"),
        ContractChange(.writes, updated, ["required", "0"], nil, "/timeline: is not always there"),
        ContractChange(
            .writes, updated, ["properties", "revision", "type"], "string", "/revision: string is written now"),
        ContractChange(
            .writes, updated, ["properties", "revision", "type"], "number", "/revision: number is written now"),
        ContractChange(
            .writes, updated, ["properties", "storedAt", "format"], nil, "/storedAt: format is another, or gone"),
        ContractChange(.writes, updated, ["properties", "user", "maxLength"], 512, "/user: maxLength is 512"),
        ContractChange(
            .writes, updated, ["properties", "policy", "oneOf", "0", "enum", "2"], "soon",
            #"the value "soon" is written"#),
        ContractChange(
            .writes, updated, ["properties", "policy", "oneOf", "2"], ["type": "number"], "/policy/oneOf/2"),
        ContractChange(.writes, decided, ["properties", "rule", "enum", "0"], nil, #"the value "none" is gone"#),
        ContractChange(
            .writes, request, ["properties", "requests", "items", "required", "1"], nil, "is not always there"),
        ContractChange(
            .writes, request, ["properties", "requests", "items", "properties", "kind", "type"], ["string", "null"],
            "/kind: null is written now"),
        // Readers find more members, or values that they have to expect.
        ContractChange(.writes, updated, ["properties", "checksum"], ["type": "string"], nil),
        ContractChange(.writes, updated, ["required", "7"], "storedAt", nil),
        ContractChange(.writes, updated, ["properties", "user", "maxLength"], 128, nil),
        ContractChange(
            .writes, decided, ["properties", "rule", "enum", "0"], "aNewRule", #"the value "none" is gone"#),
        ContractChange(.writes, decided, ["properties", "lane", "enum", "4"], "urgent", nil),
        ContractChange(.writes, updated, ["properties", "family", "enum", "7"], "accessoryCorner", nil),
        ContractChange(
            .writes, request, ["properties", "requests", "items", "properties", "hint"], ["type": "string"], nil),
    ]
}
