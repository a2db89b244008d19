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
        self = .object(JSONObject(elements.map { JSONObject.Member(key: $0.0, value: $0.1) }))
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
            var array = try beginArray()
            while try nextElement(&array) { elements.append(try value()) }
            return .array(elements)
        case .object:
            var members: [JSONObject.Member] = []
            var object = try beginObject()
            while let key = try nextKey(&object) {
                members.append(JSONObject.Member(key: text(of: key), value: try value()))
            }
            return .object(JSONObject(unique: members))
        }
    }
}
