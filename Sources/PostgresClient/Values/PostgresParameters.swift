// SPDX-License-Identifier: Apache-2.0

/// A statement's parameters in binary, in one buffer that libpq copies from once.
@usableFromInline
package struct PostgresParameters: Sendable {
    /// One parameter: range of its bytes, and declared type. A count of -1 is NULL.
    @usableFromInline
    struct Field: Sendable {
        @usableFromInline let offset: Int
        @usableFromInline let count: Int
        @usableFromInline let oid: UInt32

        @inlinable
        init(offset: Int, count: Int, oid: UInt32) {
            self.offset = offset
            self.count = count
            self.oid = oid
        }
    }

    /// Begins with a byte that belongs to no parameter, so that an empty one has an address too.
    @usableFromInline var bytes: [UInt8] = [0]
    @usableFromInline var fields: [Field] = []
    /// The first parameter, from 1, that could not be encoded. `append` cannot throw; sending does.
    @usableFromInline var failure: (parameter: Int, error: PostgresError)?

    /// Empty, with room for the parameters of most statements.
    @inlinable
    package init() { fields.reserveCapacity(32) }

    /// Values in order; nil is NULL.
    @inlinable
    package init<each Value: PostgresValue>(_ value: repeat (each Value)?) {
        self.init()
        repeat append(each value)
    }

    @inlinable
    package mutating func append<Value: PostgresValue>(_ value: Value) {
        append(oid: Value.postgresType.oid) { bytes throws(PostgresError) in
            let size = value.encodedCount
            try Self.checkSize(bytes.count + size)
            try bytes.append(room: size) { output throws(PostgresError) in try value.encode(into: &output) }
        }
    }

    /// nil is NULL.
    @inlinable
    package mutating func append<Value: PostgresValue>(_ value: Value?) {
        guard let value else {
            fields.append(Field(offset: 0, count: -1, oid: Value.postgresType.oid))
            return
        }
        append(value)
    }

    /// A one-dimensional array in which nil is NULL, for `unnest($1::int8[])`.
    @inlinable
    package mutating func append<Value: PostgresValue>(array: [Value?]) {
        append(arrayOf: array) { $0 }
    }

    /// Makes room for further parameters of about that many bytes.
    @inlinable
    mutating func reserve(_ count: Int) { bytes.reserveCapacity(bytes.count + count) }

    /// An array of the elements' values, in which nil is NULL.
    @inlinable
    mutating func append<Element, Value: PostgresValue>(arrayOf elements: [Element], _ value: (Element) -> Value?) {
        append(oid: Value.postgresType.arrayOID) { bytes throws(PostgresError) in
            try bytes.append(arrayOf: elements, value)
        }
    }

    /// Adds a parameter with the bytes that `encode` appends.
    @inlinable
    mutating func append(oid: UInt32, _ encode: (inout [UInt8]) throws(PostgresError) -> Void) {
        let offset = bytes.count
        do throws(PostgresError) {
            try encode(&bytes)
            try Self.checkSize(bytes.count)
            fields.append(Field(offset: offset, count: bytes.count - offset, oid: oid))
        } catch {
            bytes.removeSubrange(offset...)
            fields.append(Field(offset: 0, count: -1, oid: oid))
            failure = failure ?? (fields.count, error)
        }
    }
}

extension PostgresParameters {
    /// Throws if a statement's parameters are too large.
    @inlinable
    static func checkSize(_ count: Int) throws(PostgresError) {
        // PostgreSQL accepts messages below 1 GiB; 64 KiB are for the rest of the message.
        if count > (1 << 30) - (1 << 16) { throw .tooLarge }
    }

    /// Throws when a parameter could not be encoded, or there are more than the protocol can count.
    func validate(statement: String) throws(PostgresError) {
        if let failure {
            throw PostgresError(
                .encoding, "parameter $\(failure.parameter) holds \(failure.error.message)", statement: statement)
        }
        guard fields.count <= 65535 else {
            throw PostgresError(
                .encoding, "\(fields.count) parameters; a statement takes 65535", statement: statement)
        }
    }
}

extension PostgresError {
    @usableFromInline static let tooLarge = PostgresError(.encoding, "more than the 1 GiB that a statement takes")

    @usableFromInline
    static func holdsNUL(_ type: PostgresType) -> PostgresError {
        PostgresError(.encoding, "a NUL byte, which \(type.name) cannot hold")
    }
}

/// A one-dimensional array as a parameter, for `ANY ($1::int8[])`. It is only sent; ``PostgresRow/array(_:of:)`` reads
/// arrays.
@usableFromInline
package struct PostgresArray<Element: PostgresValue>: PostgresValue {
    @usableFromInline let elements: [Element]

    @inlinable
    package init(_ elements: [Element]) {
        self.elements = elements
    }

    @inlinable
    package static var postgresType: PostgresType {
        let element = Element.postgresType
        return PostgresType(oid: element.arrayOID, arrayOID: 0, name: element.name + "[]")
    }

    @inlinable
    package var encodedCount: Int { elements.reduce(elements.isEmpty ? 12 : 20) { $0 + 4 + $1.encodedCount } }

    @inlinable
    package func encode(into output: inout OutputRawSpan) throws(PostgresError) {
        output.append(headOfArray: elements.count, of: Element.postgresType)
        for element in elements { try output.append(element: element, count: element.encodedCount) }
    }

    @usableFromInline
    package init?(postgresBytes bytes: RawSpan, oid: UInt32) { nil }
}
