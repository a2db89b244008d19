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

    /// Reason for which a value could not be encoded.
    @usableFromInline
    enum Failure: Sendable {
        case notEncodable(String)
        case tooLarge
    }

    /// Begins with a byte that belongs to no parameter, so that an empty one has an address too.
    @usableFromInline var bytes: [UInt8] = [0]
    @usableFromInline var fields: [Field] = []
    /// The first parameter, from 1, that could not be encoded. `append` cannot throw; sending does.
    @usableFromInline var failure: (parameter: Int, reason: Failure)?

    @inlinable
    package init() {}

    /// Values in order; nil is NULL.
    @inlinable
    package init<each Value: PostgresValue>(_ value: repeat (each Value)?) {
        self.init()
        repeat append(each value)
    }

    /// One array.
    @inlinable
    package init<Value: PostgresValue>(array: [Value]) {
        self.init()
        append(array: array)
    }

    @inlinable
    package mutating func append<Value: PostgresValue>(_ value: Value) {
        let count = value.postgresByteCount
        guard check(value), claim(count, oid: Value.postgresType.oid) else { return }
        bytes.appendBinary(count) { writer in value.encode(into: &writer) }
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

    /// A one-dimensional array, for `unnest($1::int8[])`.
    @inlinable
    package mutating func append<Value: PostgresValue>(array: [Value]) {
        append(arrayOf: array.count) { array[$0] }
    }

    /// A one-dimensional array in which nil is NULL.
    @inlinable
    package mutating func append<Value: PostgresValue>(array: [Value?]) {
        append(arrayOf: array.count) { array[$0] }
    }

    @inlinable
    mutating func append<Value: PostgresValue>(arrayOf length: Int, _ element: (Int) -> Value?) {
        var count = length == 0 ? Self.emptyArrayHeader : Self.arrayHeader
        var hasNulls = false
        for index in 0..<length {
            count += 4
            guard let value = element(index) else {
                hasNulls = true
                continue
            }
            guard check(value) else { return }
            count += value.postgresByteCount
        }
        guard claim(count, oid: Value.postgresType.arrayOID) else { return }
        bytes.appendBinary(count) { writer in
            Self.writeHeader(into: &writer, count: length, hasNulls: hasNulls, elementOID: Value.postgresType.oid)
            for index in 0..<length {
                guard let value = element(index) else {
                    writer.writeCount(-1)
                    continue
                }
                writer.writeCount(value.postgresByteCount)
                value.encode(into: &writer)
            }
        }
    }
}

extension PostgresParameters {
    /// Dimensions, flags, element type; and, unless empty, the dimension's length and lower bound.
    @usableFromInline static var emptyArrayHeader: Int { 12 }
    @usableFromInline static var arrayHeader: Int { 20 }

    @inlinable
    static func writeHeader(into writer: inout PostgresWriter, count: Int, hasNulls: Bool, elementOID: UInt32) {
        writer.write(Int32(count == 0 ? 0 : 1))
        writer.write(Int32(hasNulls ? 1 : 0))
        writer.write(elementOID)
        guard count > 0 else { return }
        writer.writeCount(count)
        writer.write(Int32(1))
    }

    /// Notes a value that cannot be sent.
    @inlinable
    mutating func check<Value: PostgresValue>(_ value: Value) -> Bool {
        if value.isEncodable { return true }
        refuse(.notEncodable(Value.postgresType.name))
        return false
    }

    /// Adds a parameter of `count` bytes, which are still to be appended.
    @inlinable
    mutating func claim(_ count: Int, oid: UInt32) -> Bool {
        // PostgreSQL accepts messages below 1 GiB; 64 KiB are for the rest of the message.
        guard count <= (1 << 30) - (1 << 16) - bytes.count else {
            refuse(.tooLarge)
            return false
        }
        fields.append(Field(offset: bytes.count, count: count, oid: oid))
        return true
    }

    @usableFromInline
    mutating func refuse(_ reason: Failure) {
        fields.append(Field(offset: 0, count: -1, oid: 0))
        if failure == nil { failure = (fields.count, reason) }
    }

    /// Throws when a parameter could not be encoded, or there are more than the protocol can count.
    func validate(statement: String) throws(PostgresError) {
        if let failure {
            let reason =
                switch failure.reason {
                case .notEncodable(let type): "a NUL byte, which \(type) cannot hold"
                case .tooLarge: "more than the 1 GiB that a statement takes"
                }
            throw PostgresError(.encoding, "parameter $\(failure.parameter) holds \(reason)", statement: statement)
        }
        guard fields.count <= 65535 else {
            throw PostgresError(
                .encoding, "\(fields.count) parameters; a statement takes 65535", statement: statement)
        }
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
    package var isEncodable: Bool { elements.allSatisfy(\.isEncodable) }

    @inlinable
    package var postgresByteCount: Int {
        let header = elements.isEmpty ? PostgresParameters.emptyArrayHeader : PostgresParameters.arrayHeader
        return elements.reduce(header) { $0 + 4 + $1.postgresByteCount }
    }

    @inlinable
    package func encode(into writer: inout PostgresWriter) {
        PostgresParameters.writeHeader(
            into: &writer, count: elements.count, hasNulls: false, elementOID: Element.postgresType.oid)
        for element in elements {
            writer.writeCount(element.postgresByteCount)
            element.encode(into: &writer)
        }
    }

    @usableFromInline
    package init?(postgresBytes bytes: RawSpan, oid: UInt32) { nil }
}
