// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON

/// A dictionary of a property list. A value of another type than the one that is asked for counts as absent.
struct PropertyListEntry {
    private let members: [String: Any]

    init(_ members: [String: Any] = [:]) { self.members = members }

    /// The dictionary of a property list in any of its forms, also that of `.strings` files; nil for other bytes, and
    /// for a binary one with more than ``BinaryPropertyList/maximumValues`` values.
    init?(propertyList data: [UInt8]) {
        guard BinaryPropertyList(data)?.isTooLarge != true else { return nil }
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

    /// A finite number that JSON can keep exactly, or a text that is one.
    private static func number(_ value: Any?) -> JSONNumber? {
        switch value {
        case let integer as Int: JSONNumber("\(integer)")
        case let number as NSNumber: JSONNumber(number.doubleValue)
        case let text as String: Int(text).map { JSONNumber("\($0)") } ?? Double(text).flatMap { JSONNumber($0) }
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

/// The references of a binary property list. They make a short file stand for any number of values, since each value
/// may be referred to many times.
private struct BinaryPropertyList {
    static let maximumValues = 1_000_000

    private let data: [UInt8]
    /// Number of the value that holds all others.
    private let root: Int
    /// Place of the table of the values' places.
    private let table: Int
    private let placeSize: Int
    private let referenceSize: Int

    /// Nil for other bytes.
    init?(_ data: [UInt8]) {
        let trailer = data.count - 32
        guard data.starts(with: "bplist".utf8), trailer >= 8 else { return nil }
        self.data = data
        (placeSize, referenceSize) = (Int(data[trailer + 6]), Int(data[trailer + 7]))
        guard let root = Self.integer(data, at: trailer + 16, size: 8),
            let table = Self.integer(data, at: trailer + 24, size: 8), table < trailer
        else { return nil }
        (self.root, self.table) = (root, table)
    }

    /// Whether there are more values than ``maximumValues``, each counted as often as it is referred to.
    var isTooLarge: Bool {
        var (pending, count) = ([root], 1)
        while let value = pending.popLast() {
            let references = references(of: value)
            count += references.count
            guard count <= Self.maximumValues else { return true }
            pending += references
        }
        return false
    }

    /// The values in an array, a set or a dictionary; none for another value or a damaged one.
    private func references(of value: Int) -> [Int] {
        guard value < data.count, let place = Self.integer(data, at: table + value * placeSize, size: placeSize),
            place < data.count - 1
        else { return [] }
        let kind = data[place] >> 4
        guard (0xA...0xD).contains(kind) else { return [] }
        var (count, first) = (Int(data[place] & 0xF), place + 1)
        if count == 0xF {
            let size = 1 << Int(data[first] & 0xF)
            guard let long = Self.integer(data, at: first + 1, size: size), long < data.count else { return [] }
            (count, first) = (long, first + 1 + size)
        }
        if kind == 0xD { count *= 2 }
        guard first + count * referenceSize <= data.count else { return [] }
        return (0..<count).compactMap { Self.integer(data, at: first + $0 * referenceSize, size: referenceSize) }
    }

    /// Nil outside of the bytes, and for more than 63 bits.
    private static func integer(_ data: [UInt8], at place: Int, size: Int) -> Int? {
        guard (1...8).contains(size), place <= data.count - size else { return nil }
        return Int(exactly: data[place..<place + size].reduce(UInt64(0)) { $0 << 8 | UInt64($1) })
    }
}
