// SPDX-License-Identifier: Apache-2.0

import JSON

@testable import FreshetService

/// Intent definition files that are written as JSON, with the keys' prefixes left out.
enum XcodeImport {
    /// Reads an intent `Show`.
    ///
    /// - Parameters:
    ///   - parameters: array of its parameters.
    ///   - intent: further members of the intent; null leaves one out.
    static func read(
        _ parameters: JSONValue = [], intent: JSONObject = [:], enumerations: JSONValue = [],
        strings: [String: [UInt8]] = [:]
    ) throws -> XcodeIntents {
        var members: JSONObject = ["Name": "Show", "Type": "Custom", "Verb": "View"]
        for member in intent.members { members[member.key] = member.value }
        let xml = """
            <plist version="1.0"><dict>
            <key>INEnums</key>\(xml(enumerations, "INEnum"))
            <key>INIntents</key><array><dict>
            \(self.members(members, "INIntent"))
            <key>INIntentParameters</key>\(self.xml(parameters, "INIntentParameter"))
            </dict></array></dict></plist>
            """
        return try XcodeIntents(Array(xml.utf8), strings: strings)
    }

    /// A `.strings` file.
    static func strings(_ table: KeyValuePairs<String, String>) -> [UInt8] {
        Array(table.map { "\"\($0)\" = \"\($1)\";\n" }.joined().utf8)
    }

    private static func xml(_ value: JSONValue, _ prefix: String) -> String {
        switch value {
        case .null: ""
        case .bool(let value): "<\(value)/>"
        case .number(let number):
            number.text.contains { ".e".contains($0) }
                ? "<real>\(number.text)</real>" : "<integer>\(number.text)</integer>"
        case .string(let text): "<string>\(text)</string>"
        case .array(let elements): "<array>\(elements.map { xml($0, prefix) }.joined())</array>"
        case .object(let object): "<dict>\(members(object, prefix))</dict>"
        }
    }

    private static func members(_ object: JSONObject, _ prefix: String) -> String {
        object.members.filter { $0.value != .null }.map { key, value in
            let name = prefix.hasSuffix("Combinations") ? key : prefix + key
            let isList = value.arrayValue != nil && name.hasSuffix("s")
            return "<key>\(name)</key>\(xml(value, isList ? String(name.dropLast()) : name))"
        }.joined()
    }
}
