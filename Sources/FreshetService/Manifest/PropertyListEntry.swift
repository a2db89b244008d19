// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON

/// A dictionary of a property list. A value of another type than the one that is asked for counts as absent.
struct PropertyListEntry {
    private let members: [String: Any]

    init(_ members: [String: Any] = [:]) { self.members = members }

    /// The dictionary of a property list in any of its forms, also that of `.strings` files; nil for other bytes.
    init?(propertyList data: [UInt8]) {
        let root = try? PropertyListSerialization.propertyList(from: Data(data), format: nil)
        guard let members = root as? [String: Any] else { return nil }
        self.members = members
    }

    /// In the order of their bytes.
    var keys: [String] { members.keys.sorted(by: Text.precedes) }

    func has(_ key: String) -> Bool { members[key] != nil }

    func text(_ key: String) -> String? { Self.text(members[key]) }

    func number(_ key: String) -> JSONNumber? { Self.number(members[key]) }

    func flag(_ key: String) -> Bool? { Self.flag(members[key]) }

    func entry(_ key: String) -> PropertyListEntry? { (members[key] as? [String: Any]).map(PropertyListEntry.init) }

    /// The dictionaries of an array.
    func entries(_ key: String) -> [PropertyListEntry] {
        (members[key] as? [Any] ?? []).compactMap { $0 as? [String: Any] }.map(PropertyListEntry.init)
    }

    /// A value of a parameter's type, or an array of such values, with nulls for others. The type decides how to read
    /// it, since a number in a property list also reads as a Boolean.
    func value(_ key: String, ofType type: String) -> JSONValue? {
        func single(_ value: Any) -> JSONValue {
            switch type {
            case "boolean": Self.flag(value).map { .bool($0) } ?? .null
            case "integer", "decimal": Self.number(value).map { .number($0) } ?? .null
            default: Self.text(value).map { .string($0) } ?? .null
            }
        }
        return members[key].map { ($0 as? [Any]).map { .array($0.map(single)) } ?? single($0) }
    }

    /// A text without U+0000, which PostgreSQL cannot store.
    private static func text(_ value: Any?) -> String? { (value as? String)?.replacing("\0", with: "") }

    /// A finite number, or a text that is one.
    private static func number(_ value: Any?) -> JSONNumber? {
        switch value {
        case let integer as Int: JSONNumber(integer)
        case let number as NSNumber: JSONNumber(number.doubleValue)
        case let text as String: Int(text).map { JSONNumber($0) } ?? Double(text).flatMap { JSONNumber($0) }
        default: nil
        }
    }

    /// A Boolean, or a number or text that stands for one.
    private static func flag(_ value: Any?) -> Bool? {
        if let flag = value as? Bool { return flag }
        if let number = number(value) { return number.double != 0 }
        switch text(value)?.lowercased() {
        case "yes", "true": return true
        case "no", "false": return false
        default: return nil
        }
    }
}
