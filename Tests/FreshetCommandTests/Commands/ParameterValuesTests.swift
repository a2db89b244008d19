// SPDX-License-Identifier: Apache-2.0

import JSON
import Testing
import WidgetModel

@testable import freshet

/// DESIGN.md, D: parameter values on the command line.
@Suite struct ParameterValuesTests {
    private static let intent = IntentDefinition(
        title: "T",
        parameters: [
            IntentParameter(name: "card", displayName: "Card", type: .custom(typeName: "Card")),
            IntentParameter(name: "note", displayName: "Note", type: .string(.sentences)),
            IntentParameter(name: "hidden", displayName: "Hidden", type: .boolean),
            IntentParameter(name: "count", displayName: "Count", type: .integer(.init(), .field)),
            IntentParameter(name: "place", displayName: "Place", type: .location),
            IntentParameter(name: "lists", displayName: "Lists", type: .custom(typeName: "List"), count: .any),
        ])

    private static func assign(
        _ assignments: [String], to stored: JSONValue = [:], of intent: IntentDefinition? = intent
    ) throws -> JSONValue {
        try WidgetConfiguration(stored).assigning(assignments, of: intent).value
    }

    @Test("D: values are parsed by the type of their parameter")
    func types() throws {
        let values = try Self.assign([
            "card=42", "note=true", "hidden=true", "count=3", #"place={"latitude":1,"longitude":2}"#,
        ])
        #expect(
            values == [
                "card": "42", "note": "true", "hidden": true, "count": 3, "place": ["latitude": 1, "longitude": 2],
            ])
        #expect(try Self.assign([#"card={"identifier":"a","display":"A=B"}"#])["card"]?["display"] == "A=B")
        // The configuration's own check rejects the value.
        #expect(try Self.assign(["count=many"]) == ["count": "many"])
    }

    @Test("Parameters that are not given keep their values, and an empty value removes one")
    func others() throws {
        #expect(try Self.assign(["card=b"], to: ["card": "a", "note": "n"]) == ["card": "b", "note": "n"])
        #expect(try Self.assign(["card="], to: ["card": "a", "note": "n"]) == ["note": "n"])
    }

    @Test("D: several assignments to one parameter replace its stored values")
    func several() throws {
        #expect(try Self.assign(["lists=a", "lists=b"], to: ["lists": ["z"]]) == ["lists": ["a", "b"]])
        #expect(try Self.assign(["lists="], to: ["lists": ["z"]]) == [:])
    }

    @Test("Without an intent, JSON is parsed and other text is a string")
    func free() throws {
        #expect(try Self.assign(["a=1", "b=x y", "c=[1,2]"], of: nil) == ["a": 1, "b": "x y", "c": [1, 2]])
    }

    @Test("Arguments that are not assignments are refused", arguments: ["card", "=x", ""])
    func refused(_ text: String) {
        #expect(throws: ModelError.self) { try Self.assign([text]) }
    }
}
