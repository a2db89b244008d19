// SPDX-License-Identifier: Apache-2.0

/// A JSON document as a tree. For documents that are read often, use `JSONReader`, which builds no tree.
///
/// Strings and keys are compared by bytes, objects regardless of the order of their members, and numbers as doubles.
package enum JSONValue: Hashable, Sendable {
    case null
    case bool(Bool)
    case number(JSONNumber)
    case string(String)
    case array([JSONValue])
    case object(JSONObject)

    package static func == (left: JSONValue, right: JSONValue) -> Bool {
        switch (left, right) {
        case (.null, .null): true
        case (.bool(let left), .bool(let right)): left == right
        case (.number(let left), .number(let right)): left == right
        case (.string(let left), .string(let right)): Text.equal(left, right)
        case (.array(let left), .array(let right)): left == right
        case (.object(let left), .object(let right)): left == right
        default: false
        }
    }

    package func hash(into hasher: inout Hasher) {
        switch self {
        case .null: hasher.combine(0)
        case .bool(let value): hasher.combine(value)
        case .number(let value): hasher.combine(value)
        case .string(let value): Text.hash(value, into: &hasher)
        case .array(let elements): hasher.combine(elements)
        case .object(let object): hasher.combine(object)
        }
    }

    /// The kind of the value.
    package var kind: JSONKind {
        switch self {
        case .null: .null
        case .bool: .bool
        case .number: .number
        case .string: .string
        case .array: .array
        case .object: .object
        }
    }

    /// The member of an object; nil if it does not exist or the value is not an object.
    package subscript(key: String) -> JSONValue? {
        guard case .object(let object) = self else { return nil }
        return object[key]
    }

    package var stringValue: String? {
        guard case .string(let value) = self else { return nil }
        return value
    }

    package var numberValue: JSONNumber? {
        guard case .number(let value) = self else { return nil }
        return value
    }

    package var arrayValue: [JSONValue]? {
        guard case .array(let value) = self else { return nil }
        return value
    }

    package var objectValue: JSONObject? {
        guard case .object(let value) = self else { return nil }
        return value
    }
}

/// The kinds of JSON values.
package enum JSONKind: Hashable, Sendable {
    case null, bool, number, string, array, object

    /// Name of the kind with its article, for messages.
    package var name: String {
        switch self {
        case .null: "null"
        case .bool: "a boolean"
        case .number: "a number"
        case .string: "a string"
        case .array: "an array"
        case .object: "an object"
        }
    }
}

extension JSONValue: ExpressibleByNilLiteral, ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral,
    ExpressibleByStringLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    package init(nilLiteral: ()) { self = .null }
    package init(booleanLiteral value: Bool) { self = .bool(value) }
    package init(integerLiteral value: Int) { self = .number(JSONNumber(value)) }
    package init(stringLiteral value: String) { self = .string(value) }
    package init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
    package init(dictionaryLiteral elements: (String, JSONValue)...) {
        self = .object(JSONObject(elements.map { (key: $0.0, value: $0.1) }))
    }
}

extension JSONValue {
    /// Reads one document.
    ///
    /// - Parameters:
    ///   - range: place of the document in `bytes`; all of them if nil.
    ///   - maximumDepth: nesting limit of arrays and objects.
    ///   - checksNumbers: false for a document whose numbers are not used.
    package static func parse(
        _ bytes: [UInt8], in range: Range<Int>? = nil, maximumDepth: Int = JSONReader.defaultMaximumDepth,
        checksNumbers: Bool = true
    ) throws(JSONError) -> JSONValue {
        var reader = JSONReader(bytes, in: range, maximumDepth: maximumDepth, checksNumbers: checksNumbers)
        let value = try reader.value()
        try reader.finish()
        return value
    }

    /// Reads one document from a text.
    package static func parse(_ text: String) throws(JSONError) -> JSONValue {
        try parse(Array(text.utf8))
    }
}

extension JSONValue {
    package static func text(_ text: String?) -> JSONValue { text.map { .string($0) } ?? .null }

    package static func count(_ number: (some BinaryInteger)?) -> JSONValue {
        number.map { .number(JSONNumber(Int($0))) } ?? .null
    }

    package static func texts(_ texts: some Sequence<String>) -> JSONValue { .array(texts.map { .string($0) }) }

    /// A number; null for nil and for a number that is not finite.
    package static func decimal(_ value: Double?) -> JSONValue {
        value.flatMap { JSONNumber($0) }.map { .number($0) } ?? .null
    }

    /// A number rounded to three decimals, or null.
    package static func rounded(_ value: Double?) -> JSONValue { decimal(value.map { ($0 * 1_000).rounded() / 1_000 }) }

    /// The object with another member.
    package func adding(_ name: String, _ value: JSONValue) -> JSONValue {
        guard case .object(var object) = self else { return self }
        object[name] = value
        return .object(object)
    }
}

/// Members of a JSON object in the order in which they were written, with unique keys.
package struct JSONObject: Hashable, Sendable {
    package typealias Member = (key: String, value: JSONValue)

    package private(set) var members: [Member]

    package init() {
        members = []
    }

    /// Keeps the last of several members with the same key, at the place of the first.
    package init(_ members: [Member]) {
        self.members = []
        self.members.reserveCapacity(members.count)
        for member in members { self[member.key] = member.value }
    }

    /// Makes an object of members whose keys are known to be unique.
    package init(unique members: [Member]) {
        self.members = members
    }

    package var count: Int { members.count }
    package var isEmpty: Bool { members.isEmpty }
    package var keys: [String] { members.map(\.key) }

    /// The member's value. Setting nil removes the member, and setting a new key appends it.
    package subscript(key: String) -> JSONValue? {
        get { index(of: key).map { members[$0].value } }
        set {
            switch (index(of: key), newValue) {
            case (let index?, let value?): members[index].value = value
            case (let index?, nil): members.remove(at: index)
            case (nil, let value?): members.append((key, value))
            case (nil, nil): break
            }
        }
    }

    private func index(of key: String) -> Int? {
        members.firstIndex { Text.equal($0.key, key) }
    }

    /// Members in the order of the UTF-16 code units of their keys.
    var canonicalMembers: [Member] { members.sorted { $0.key.utf16.lexicographicallyPrecedes($1.key.utf16) } }

    /// Members in byte order of their keys.
    private var sorted: [Member] { members.sorted { Text.precedes($0.key, $1.key) } }

    package static func == (left: JSONObject, right: JSONObject) -> Bool {
        guard left.count == right.count else { return false }
        if same(left.members, right.members) { return true }
        return same(left.sorted, right.sorted)
    }

    private static func same(_ left: [Member], _ right: [Member]) -> Bool {
        zip(left, right).allSatisfy { Text.equal($0.key, $1.key) && $0.value == $1.value }
    }

    package func hash(into hasher: inout Hasher) {
        for member in sorted {
            Text.hash(member.key, into: &hasher)
            hasher.combine(member.value)
        }
    }
}

extension JSONObject: ExpressibleByDictionaryLiteral {
    package init(dictionaryLiteral elements: (String, JSONValue)...) {
        self.init(elements.map { (key: $0.0, value: $0.1) })
    }
}

extension JSONReader {
    /// Reads the next value as a tree.
    package mutating func value() throws(JSONError) -> JSONValue {
        switch try peek() {
        case .null:
            try literal("null")
            return .null
        case .bool:
            return .bool(try bool())
        case .number:
            return .number(try number())
        case .string:
            return .string(try string())
        case .array:
            var elements: [JSONValue] = []
            try beginArray()
            while try nextElement() { elements.append(try value()) }
            return .array(elements)
        case .object:
            var members: [JSONObject.Member] = []
            try beginObject()
            while let key = try nextKey() {
                members.append((key: text(of: key), value: try value()))
            }
            return .object(JSONObject(unique: members))
        }
    }
}
