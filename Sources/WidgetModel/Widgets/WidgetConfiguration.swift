// SPDX-License-Identifier: Apache-2.0

package import JSON

/// Values that a person chose for a kind's parameters, as a JSON object in canonical form (RFC 8785).
///
/// A value is a scalar, an object of scalars such as an identifier with its display string, or an array of these.
///
/// Two configurations are equal when their canonical forms are the same bytes.
package struct WidgetConfiguration: Hashable, Sendable, CustomStringConvertible {
    /// Longest canonical form, in bytes.
    package static let maximumBytes = 16_384

    /// RFC 8785 form; `{}` for a kind without parameters.
    package let canonical: String

    /// The configuration of a kind without parameters.
    package static let empty = WidgetConfiguration(checked: "{}")

    private init(checked canonical: String) {
        self.canonical = canonical
    }

    /// - Throws: `ModelError` unless `value` is an object of at most 16 KiB of such values without U+0000, which
    ///   PostgreSQL cannot store.
    package init(_ value: JSONValue) throws(ModelError) {
        guard case .object(let object) = value else {
            throw ModelError(message: "expected an object, found \(value.kind.name)")
        }
        for member in object.members {
            let pointer = "/" + JSONPointer.foreignToken(member.key)
            guard case .array(let elements) = member.value else {
                try Self.check(member.value, at: pointer)
                continue
            }
            for (index, element) in elements.enumerated() { try Self.check(element, at: "\(pointer)/\(index)") }
        }
        let canonical = value.canonical
        if let problem = Self.problem(of: canonical) { throw problem }
        self.init(checked: canonical)
    }

    /// Throws unless a value is a scalar, or an object of scalars.
    private static func check(_ value: JSONValue, at pointer: String) throws(ModelError) {
        guard case .object(let object) = value else { return try checkScalar(value, at: pointer) }
        for member in object.members {
            try checkScalar(member.value, at: "\(pointer)/\(JSONPointer.foreignToken(member.key))")
        }
    }

    private static func checkScalar(_ value: JSONValue, at pointer: String) throws(ModelError) {
        guard value.kind != .object, value.kind != .array else {
            throw ModelError(message: "expected a scalar, found \(value.kind.name)", pointer: pointer)
        }
    }

    /// Reason why a canonical form cannot be stored, or nil.
    private static func problem(of canonical: String) -> ModelError? {
        let count = canonical.utf8.count
        guard count <= maximumBytes else {
            return ModelError(message: "must be at most \(maximumBytes) bytes, is \(count)")
        }
        guard canonical.hasEscapedNull else { return nil }
        let members = (try? JSONValue.parse(canonical))?.objectValue?.members ?? []
        let member = members.first { $0.key.utf8.contains(0) || $0.value.canonical.hasEscapedNull }
        return ModelError(
            message: "must not contain U+0000", pointer: member.map { "/" + JSONPointer.foreignToken($0.key) } ?? "")
    }

    /// Reads a configuration from JSON text, as it is stored.
    package init(json: [UInt8]) throws(ModelError) {
        var reader = JSONReader(json)
        do throws(JSONError) {
            try self.init(from: &reader)
            try reader.finish()
        } catch {
            throw error.modelError
        }
    }

    /// A stored configuration, which is not checked again.
    package init(storedCanonical canonical: String) {
        self.init(checked: canonical)
    }

    /// - Parameter values: values that were checked by their parameters.
    init(checked values: JSONObject) {
        self.init(checked: JSONValue.object(values).canonical)
    }

    /// Reads the next value as a configuration.
    package init(from reader: inout JSONReader) throws(JSONError) {
        try reader.expect(.object)
        let offset = reader.position
        let canonical = try reader.canonicalText(Self.checkMembers)
        if let problem = Self.problem(of: canonical) {
            let error = reader.failure(.invalidValue, problem.message, at: offset)
            throw JSONError(
                kind: error.kind, message: error.message, byteOffset: error.byteOffset,
                pointer: error.pointer + problem.pointer)
        }
        self.init(checked: canonical)
    }

    /// Passes over the members.
    private static func checkMembers(_ reader: inout JSONReader) throws(JSONError) {
        try reader.beginObject()
        while try reader.nextKey() != nil {
            switch try reader.peek() {
            case .array:
                try reader.beginArray()
                while try reader.nextElement() { try checkValue(try reader.peek(), &reader) }
            case let kind: try checkValue(kind, &reader)
            }
        }
    }

    /// Passes over a scalar, or an object of scalars.
    private static func checkValue(_ kind: JSONKind, _ reader: inout JSONReader) throws(JSONError) {
        guard kind == .object else { return try checkScalar(kind, &reader) }
        try reader.beginObject()
        while try reader.nextKey() != nil { try checkScalar(try reader.peek(), &reader) }
    }

    private static func checkScalar(_ kind: JSONKind, _ reader: inout JSONReader) throws(JSONError) {
        guard kind != .object, kind != .array else {
            throw reader.failure(.invalidValue, "expected a scalar, found \(kind.name)", at: reader.position)
        }
        try reader.skip()
    }

    package var description: String { canonical }

    package var isEmpty: Bool { canonical.utf8.count == 2 }

    /// The configuration as a tree.
    package var value: JSONValue {
        (try? JSONValue.parse(canonical)) ?? .object(JSONObject())
    }

    package static func == (left: WidgetConfiguration, right: WidgetConfiguration) -> Bool {
        Text.equal(left.canonical, right.canonical)
    }

    package func hash(into hasher: inout Hasher) {
        Text.hash(canonical, into: &hasher)
    }
}
