// SPDX-License-Identifier: Apache-2.0

import JSON
import WidgetModel

/// Compares two versions of a schema by the rule that version 1 may only grow.
///
/// Freshet must accept the same input as before, and its output must stay readable for older readers. In both
/// directions, removing a member or a value of a list is a breach.
enum ContractRule {
    enum Direction: String, CaseIterable {
        /// Input: events and providers' answers.
        case reads
        /// Output: published messages and requests to providers.
        case writes
    }

    /// Mark of an output enumeration whose readers must expect further values.
    static let extensible = "x-extensible"

    /// Returns changes that break an older peer, each with a pointer.
    static func problems(
        old: JSONValue, new: JSONValue, _ direction: Direction, at pointer: String = ""
    ) -> [String] {
        if old == new { return [] }
        // A boolean schema allows everything or nothing.
        if new == false || old == false { return ["\(pointer): nothing is allowed there any more, or was before"] }
        var comparison = Comparison(
            old: old == true ? .object(JSONObject()) : old, new: new == true ? .object(JSONObject()) : new,
            direction: direction, pointer: pointer)
        comparison.compare()
        return comparison.problems
    }
}

private struct Comparison {
    let old: JSONValue
    let new: JSONValue
    let direction: ContractRule.Direction
    let pointer: String
    var problems: [String] = []

    private static let types = ["null", "boolean", "integer", "number", "string", "array", "object"]
    private static let lowerBounds = ["minimum", "exclusiveMinimum", "minLength", "minItems"]
    private static let upperBounds = ["maximum", "exclusiveMaximum", "maxLength", "maxItems"]
    private static let understood =
        Set(lowerBounds + upperBounds)
        .union([
            "type", "const", "enum", "pattern", "format", "properties", "required", "items", "additionalProperties",
            "oneOf", "anyOf", ContractRule.extensible,
        ])

    mutating func compare() {
        compareTypes()
        compareValues()
        for name in Self.lowerBounds { compareBound(name) { $0 > $1 } }
        for name in Self.upperBounds { compareBound(name) { $0 < $1 } }
        for name in ["pattern", "format"] { compareText(name) }
        compareMembers()
        for name in ["items", "additionalProperties"] {
            add(
                ContractRule.problems(
                    old: old[name] ?? true, new: new[name] ?? true, direction, at: "\(pointer)/\(name)"))
        }
        for name in ["oneOf", "anyOf"] { compareAlternatives(name) }
        compareRest()
    }

    private mutating func add(_ found: [String]) { problems += found }
    private mutating func report(_ text: String) { problems.append("\(pointer): \(text)") }

    private static func types(of schema: JSONValue) -> Set<String> {
        guard let type = schema["type"] else { return Set(types) }
        var names = Set(type.arrayValue?.compactMap(\.stringValue) ?? [type.stringValue ?? ""])
        if names.contains("number") { names.insert("integer") }
        return names
    }

    private mutating func compareTypes() {
        let (before, after) = (Self.types(of: old), Self.types(of: new))
        switch direction {
        case .reads:
            for type in before.subtracting(after).sorted() { report("\(type) is not accepted any more") }
        case .writes:
            for type in after.subtracting(before).sorted() { report("\(type) is written now") }
        }
    }

    private static func values(of schema: JSONValue) -> [JSONValue]? {
        schema["const"].map { [$0] } ?? schema["enum"]?.arrayValue
    }

    private mutating func compareValues() {
        let (before, after) = (Self.values(of: old), Self.values(of: new))
        switch (before, after) {
        case (nil, nil): break
        case (nil, _?):
            if direction == .reads { report("only certain values are accepted now") }
        case (_?, nil):
            if direction == .writes, old[ContractRule.extensible] != true { report("any value is written now") }
        case (let before?, let after?):
            for value in before where !after.contains(value) { report("the value \(value.text) is gone") }
            guard direction == .writes, old[ContractRule.extensible] != true else { return }
            for value in after where !before.contains(value) { report("the value \(value.text) is written now") }
        }
    }

    /// - Parameter isTighter: Whether the first bound allows less than the second.
    private mutating func compareBound(_ name: String, isTighter: (Double, Double) -> Bool) {
        let (before, after) = (old[name]?.numberValue?.double, new[name]?.numberValue?.double)
        switch (direction, before, after) {
        case (.reads, nil, let after?): report("\(name) is \(after) now")
        case (.reads, let before?, let after?) where isTighter(after, before):
            report("\(name) is \(after), was \(before)")
        case (.writes, _?, nil): report("\(name) does not hold any more")
        case (.writes, let before?, let after?) where isTighter(before, after):
            report("\(name) is \(after), was \(before)")
        default: break
        }
    }

    private mutating func compareText(_ name: String) {
        guard old[name] != new[name] else { return }
        switch direction {
        case .reads where new[name] != nil: report("\(name) is another, or new")
        case .writes where old[name] != nil: report("\(name) is another, or gone")
        default: break
        }
    }

    private mutating func compareMembers() {
        for member in old["properties"]?.objectValue?.members ?? [] {
            let place = "\(pointer)/\(member.key)"
            guard let successor = new["properties"]?[member.key] else {
                problems.append("\(place): is gone")
                continue
            }
            add(ContractRule.problems(old: member.value, new: successor, direction, at: place))
        }
        let before = old["required"]?.arrayValue?.compactMap(\.stringValue) ?? []
        let after = new["required"]?.arrayValue?.compactMap(\.stringValue) ?? []
        switch direction {
        case .reads:
            for name in after where !before.contains(name) { problems.append("\(pointer)/\(name): is required now") }
        case .writes:
            for name in before where !after.contains(name) {
                problems.append("\(pointer)/\(name): is not always there any more")
            }
        }
    }

    private mutating func compareAlternatives(_ name: String) {
        switch (old[name]?.arrayValue, new[name]?.arrayValue) {
        case (nil, nil): break
        case (nil, _?):
            if direction == .reads { report("\(name) is new") }
        case (_?, nil):
            if direction == .writes { report("\(name) is gone") }
        case (let before?, let after?):
            // All previously accepted input is still accepted, and all output was known before.
            let (wanted, offered) = direction == .reads ? (before, after) : (after, before)
            for (index, alternative) in wanted.enumerated() {
                let attempts = offered.map { other in
                    let (old, new) = direction == .reads ? (alternative, other) : (other, alternative)
                    return ContractRule.problems(old: old, new: new, direction, at: "\(pointer)/\(name)/\(index)")
                }
                if attempts.contains(where: \.isEmpty) { continue }
                // The most similar alternative gives the best message; among several, the one at the same index.
                let nearest = attempts.min { $0.count < $1.count } ?? ["\(pointer)/\(name)/\(index): is gone, or new"]
                let same = attempts.indices.contains(index) ? attempts[index] : nearest
                add(same.count > nearest.count ? nearest : same)
            }
        }
    }

    /// Keywords without a rule here must not change.
    private mutating func compareRest() {
        let names = Set((old.objectValue?.keys ?? []) + (new.objectValue?.keys ?? []))
        for name in names.subtracting(Self.understood).sorted() where old[name] != new[name] {
            report("\(name) is another, which this rule does not understand")
        }
    }
}

extension JSONValue {
    /// Compact JSON.
    var text: String { String(decoding: encoded, as: UTF8.self) }
}
