// SPDX-License-Identifier: Apache-2.0

import Foundation

@usableFromInline
package struct PostgresType: Sendable, Hashable {
    /// Object identifier in `pg_type`, fixed for the built-in types.
    @usableFromInline package let oid: UInt32
    /// Object identifier of the type of its arrays.
    @usableFromInline package let arrayOID: UInt32
    @usableFromInline package let name: String

    @inlinable
    package init(oid: UInt32, arrayOID: UInt32, name: String) {
        self.oid = oid
        self.arrayOID = arrayOID
        self.name = name
    }
}

extension PostgresType {
    @inlinable package static var bool: PostgresType { PostgresType(oid: 16, arrayOID: 1000, name: "bool") }
    @inlinable package static var bytea: PostgresType { PostgresType(oid: 17, arrayOID: 1001, name: "bytea") }
    @inlinable package static var int8: PostgresType { PostgresType(oid: 20, arrayOID: 1016, name: "int8") }
    @inlinable package static var int2: PostgresType { PostgresType(oid: 21, arrayOID: 1005, name: "int2") }
    @inlinable package static var int4: PostgresType { PostgresType(oid: 23, arrayOID: 1007, name: "int4") }
    @inlinable package static var text: PostgresType { PostgresType(oid: 25, arrayOID: 1009, name: "text") }
    @inlinable package static var float4: PostgresType { PostgresType(oid: 700, arrayOID: 1021, name: "float4") }
    @inlinable package static var float8: PostgresType { PostgresType(oid: 701, arrayOID: 1022, name: "float8") }
    @inlinable package static var timestamptz: PostgresType {
        PostgresType(oid: 1184, arrayOID: 1185, name: "timestamptz")
    }
    @inlinable package static var uuid: PostgresType { PostgresType(oid: 2950, arrayOID: 2951, name: "uuid") }

    /// Types that are only read.
    private static let others = [
        PostgresType(oid: 18, arrayOID: 1002, name: "\"char\""), PostgresType(oid: 19, arrayOID: 1003, name: "name"),
        PostgresType(oid: 26, arrayOID: 1028, name: "oid"), PostgresType(oid: 114, arrayOID: 199, name: "json"),
        PostgresType(oid: 3802, arrayOID: 3807, name: "jsonb"),
        PostgresType(oid: 1042, arrayOID: 1014, name: "bpchar"),
        PostgresType(oid: 1043, arrayOID: 1015, name: "varchar"),
        PostgresType(oid: 1082, arrayOID: 1182, name: "date"),
        PostgresType(oid: 1114, arrayOID: 1115, name: "timestamp"),
        PostgresType(oid: 1186, arrayOID: 1187, name: "interval"),
        PostgresType(oid: 1700, arrayOID: 1231, name: "numeric"), PostgresType(oid: 2278, arrayOID: 0, name: "void"),
    ]

    private static let known: [PostgresType] =
        [.bool, .bytea, .int8, .int2, .int4, .text, .float4, .float8, .timestamptz, .uuid] + others

    /// Name of the type with this identifier, for errors.
    @usableFromInline
    static func name(ofOID oid: UInt32) -> String {
        for type in known {
            if type.oid == oid { return type.name }
            if type.arrayOID == oid, oid != 0 { return type.name + "[]" }
        }
        return "type \(oid)"
    }

    /// The element type of a known array type.
    static func elementOID(ofArray oid: UInt32) -> UInt32? {
        oid == 0 ? nil : known.first { $0.arrayOID == oid }?.oid
    }
}

/// A value with a binary form in PostgreSQL.
@usableFromInline
package protocol PostgresValue: Sendable {
    /// Declared type of parameters, which the statement's text may cast.
    static var postgresType: PostgresType { get }

    /// Whether a column type can be read as this value; by default the same type.
    static func accepts(oid: UInt32) -> Bool

    /// Size of the binary form in bytes.
    var encodedCount: Int { get }

    /// Appends the binary form, big-endian, of ``encodedCount`` bytes, for which there is room.
    /// - Throws: `.encoding` for a text with a NUL byte.
    func encode(into output: inout OutputRawSpan) throws(PostgresError)

    /// Reads the binary form of a value of a type that ``accepts(oid:)``; nil when it is malformed or out of range.
    init?(postgresBytes bytes: RawSpan, oid: UInt32)
}

extension PostgresValue {
    @inlinable
    package static func accepts(oid: UInt32) -> Bool { oid == postgresType.oid }
}

/// A value stored as another one. Enumerations with such a raw value conform without code.
@usableFromInline
package protocol PostgresConvertible: PostgresValue {
    associatedtype StoredValue: PostgresValue

    var storedValue: StoredValue { get }

    init?(storedValue: StoredValue)
}

extension PostgresConvertible {
    @inlinable
    package static var postgresType: PostgresType { StoredValue.postgresType }

    @inlinable
    package static func accepts(oid: UInt32) -> Bool { StoredValue.accepts(oid: oid) }

    @inlinable
    package var encodedCount: Int { storedValue.encodedCount }

    @inlinable
    package func encode(into output: inout OutputRawSpan) throws(PostgresError) {
        try storedValue.encode(into: &output)
    }

    @inlinable
    package init?(postgresBytes bytes: RawSpan, oid: UInt32) {
        guard let storedValue = StoredValue(postgresBytes: bytes, oid: oid) else { return nil }
        self.init(storedValue: storedValue)
    }
}

extension PostgresConvertible where Self: RawRepresentable, RawValue: PostgresValue {
    @inlinable
    package var storedValue: RawValue { rawValue }

    @inlinable
    package init?(storedValue: RawValue) { self.init(rawValue: storedValue) }
}

extension Bool: PostgresValue {
    @inlinable
    package static var postgresType: PostgresType { .bool }

    @inlinable
    package var encodedCount: Int { 1 }

    @inlinable
    package func encode(into output: inout OutputRawSpan) { output.append(integer: UInt8(self ? 1 : 0)) }

    @inlinable
    package init?(postgresBytes bytes: RawSpan, oid: UInt32) {
        guard bytes.byteCount == 1 else { return nil }
        self = bytes.postgresInteger(as: UInt8.self) != 0
    }
}

extension Int16: PostgresValue {}
extension Int32: PostgresValue {}
extension Int64: PostgresValue {}
extension Int: PostgresValue {}

extension PostgresValue where Self: FixedWidthInteger & SignedInteger & BitwiseCopyable {
    /// int2, int4 or int8, by the integer's size.
    @inlinable
    package static var postgresType: PostgresType {
        switch bitWidth {
        case 16: .int2
        case 32: .int4
        default: .int8
        }
    }

    /// The type itself and narrower ones.
    @inlinable
    package static func accepts(oid: UInt32) -> Bool {
        oid == postgresType.oid || bitWidth > 16 && oid == PostgresType.int2.oid
            || bitWidth > 32 && oid == PostgresType.int4.oid
    }

    @inlinable
    package var encodedCount: Int { MemoryLayout<Self>.size }

    @inlinable
    package func encode(into output: inout OutputRawSpan) { output.append(integer: self) }

    @inlinable
    package init?(postgresBytes bytes: RawSpan, oid: UInt32) {
        switch bytes.byteCount {
        case MemoryLayout<Self>.size: self = bytes.postgresInteger()
        case 4: self.init(exactly: bytes.postgresInteger(as: Int32.self))
        case 2: self.init(exactly: bytes.postgresInteger(as: Int16.self))
        default: return nil
        }
    }
}

extension Double: PostgresValue {
    @inlinable
    package static var postgresType: PostgresType { .float8 }

    /// float8 and float4.
    @inlinable
    package static func accepts(oid: UInt32) -> Bool {
        oid == PostgresType.float8.oid || oid == PostgresType.float4.oid
    }

    @inlinable
    package var encodedCount: Int { 8 }

    @inlinable
    package func encode(into output: inout OutputRawSpan) { output.append(integer: bitPattern) }

    @inlinable
    package init?(postgresBytes bytes: RawSpan, oid: UInt32) {
        switch bytes.byteCount {
        case 8: self.init(bitPattern: bytes.postgresInteger())
        case 4: self.init(Float(bitPattern: bytes.postgresInteger()))
        default: return nil
        }
    }
}

/// text; also reads varchar, bpchar, name and "char".
extension String: PostgresValue {
    @inlinable
    package static var postgresType: PostgresType { .text }

    @inlinable
    package static func accepts(oid: UInt32) -> Bool {
        switch oid {
        case 25, 1043, 1042, 19, 18: true
        default: false
        }
    }

    @inlinable
    package var encodedCount: Int { utf8.count }

    @inlinable
    package func encode(into output: inout OutputRawSpan) throws(PostgresError) {
        var text = self
        let isValid = text.withUTF8 { unsafe output.append(text: UnsafeRawBufferPointer($0)) }
        if !isValid { throw .holdsNUL(.text) }
    }

    @usableFromInline
    package init?(postgresBytes bytes: RawSpan, oid: UInt32) {
        // Invalid text is repaired, and differs then. `String(validating:as:)` tells so itself, in generic code of the
        // standard library that takes several times as long.
        var text = unsafe bytes.withUnsafeBytes { unsafe String(decoding: $0, as: UTF8.self) }
        let isValid = unsafe bytes.withUnsafeBytes { bytes in
            text.withUTF8 { utf8 in
                guard utf8.count == bytes.count else { return false }
                guard let start = bytes.baseAddress, let copy = utf8.baseAddress else { return true }
                return unsafe memcmp(copy, start, bytes.count) == 0
            }
        }
        guard isValid else { return nil }
        self = text
    }
}

/// text that is held as the bytes of its UTF-8, which hold no NUL: content that is passed on as it was made.
@usableFromInline
package struct PostgresTextBytes: PostgresValue, Hashable {
    @usableFromInline package var bytes: [UInt8]

    /// - Parameter bytes: valid UTF-8.
    @inlinable
    package init(_ bytes: [UInt8]) { self.bytes = bytes }

    @inlinable
    package static var postgresType: PostgresType { .text }

    @inlinable
    package var encodedCount: Int { bytes.count }

    @inlinable
    package func encode(into output: inout OutputRawSpan) throws(PostgresError) {
        let isValid = unsafe bytes.withUnsafeBytes { unsafe output.append(text: $0) }
        if !isValid { throw .holdsNUL(.text) }
    }

    @inlinable
    package init?(postgresBytes bytes: RawSpan, oid: UInt32) {
        self.bytes = unsafe bytes.withUnsafeBytes { unsafe [UInt8]($0) }
    }
}

/// bytea, and not an array of anything: a byte alone is no value.
extension Array: PostgresValue where Element == UInt8 {
    @inlinable
    package static var postgresType: PostgresType { .bytea }

    @inlinable
    package var encodedCount: Int { count }

    @inlinable
    package func encode(into output: inout OutputRawSpan) {
        unsafe withUnsafeBytes { unsafe output.append(contentsOf: $0) }
    }

    @inlinable
    package init?(postgresBytes bytes: RawSpan, oid: UInt32) {
        self = unsafe bytes.withUnsafeBytes { unsafe [UInt8]($0) }
    }
}

/// timestamptz: microseconds since the Unix epoch; ±infinity are `Int64.max` and `Int64.min`.
@usableFromInline
package struct PostgresTimestamp: Hashable, Sendable {
    @usableFromInline package var microseconds: Int64

    @inlinable
    package init(microseconds: Int64) { self.microseconds = microseconds }
}

extension PostgresTimestamp: PostgresValue {
    /// From the Unix epoch to 2000-01-01, from which PostgreSQL counts, in microseconds.
    @usableFromInline static var epoch: Int64 { 946_684_800_000_000 }

    @inlinable
    package static var postgresType: PostgresType { .timestamptz }

    @inlinable
    package var encodedCount: Int { 8 }

    @inlinable
    package func encode(into output: inout OutputRawSpan) {
        guard microseconds != .max, microseconds != .min else { return output.append(integer: microseconds) }
        let (value, overflow) = microseconds.subtractingReportingOverflow(Self.epoch)
        // Too early for PostgreSQL in any case; it must say so, and not read -infinity.
        output.append(integer: overflow ? .min + 1 : value)
    }

    @inlinable
    package init?(postgresBytes bytes: RawSpan, oid: UInt32) {
        guard bytes.byteCount == 8 else { return nil }
        let value: Int64 = bytes.postgresInteger()
        guard value != .max, value != .min else {
            self.init(microseconds: value)
            return
        }
        // PostgreSQL's last 30 years, from 294247 on, are beyond 64 bits of the Unix epoch.
        let (microseconds, overflow) = value.addingReportingOverflow(Self.epoch)
        guard !overflow, microseconds != .max else { return nil }
        self.init(microseconds: microseconds)
    }
}

/// uuid: 128 bits.
extension UInt128: PostgresValue {
    @inlinable
    package static var postgresType: PostgresType { .uuid }

    @inlinable
    package var encodedCount: Int { 16 }

    @inlinable
    package func encode(into output: inout OutputRawSpan) { output.append(integer: self) }

    @inlinable
    package init?(postgresBytes bytes: RawSpan, oid: UInt32) {
        guard bytes.byteCount == 16 else { return nil }
        self = bytes.postgresInteger()
    }
}

extension OutputRawSpan {
    /// Appends an integer in network byte order.
    @inlinable
    mutating func append<Value: FixedWidthInteger & BitwiseCopyable>(integer value: Value) {
        unsafe withUnsafeMutableBytes { bytes, count in
            unsafe bytes.storeBytes(of: value.bigEndian, toByteOffset: count, as: Value.self)
            count += MemoryLayout<Value>.size
        }
    }

    @inlinable
    mutating func append(contentsOf source: UnsafeRawBufferPointer) {
        unsafe withUnsafeMutableBytes { bytes, count in
            unsafe UnsafeMutableRawBufferPointer(rebasing: bytes[count...]).copyMemory(from: source)
            count += source.count
        }
    }

    /// Dimensions, flags (no NULL), type of the elements, and their number and first index.
    @inlinable
    mutating func append(headOfArray length: Int, of type: PostgresType) {
        append(integer: Int32(length == 0 ? 0 : 1))
        append(integer: Int32(0))
        append(integer: type.oid)
        guard length > 0 else { return }
        append(integer: Int32(truncatingIfNeeded: length))
        append(integer: Int32(1))
    }

    @inlinable
    mutating func append<Value: PostgresValue>(element: Value, count: Int) throws(PostgresError) {
        append(integer: Int32(truncatingIfNeeded: count))
        try element.encode(into: &self)
    }

    /// Appends a text, or nothing if it holds a NUL byte; returns whether it was appended.
    @usableFromInline
    mutating func append(text: UnsafeRawBufferPointer) -> Bool {
        if let start = text.baseAddress, unsafe memchr(start, 0, text.count) != nil { return false }
        unsafe append(contentsOf: text)
        return true
    }
}

extension [UInt8] {
    /// Makes room, and appends the bytes that a closure writes into it; none if it throws.
    @inlinable
    mutating func append<Failure: Error>(
        room: Int, _ write: (inout OutputRawSpan) throws(Failure) -> Void
    ) throws(Failure) {
        try append(addingCapacity: room) { span throws(Failure) in
            try unsafe span.withUnsafeMutableBufferPointer { buffer, count throws(Failure) in
                let memory = UnsafeMutableRawBufferPointer(buffer)
                var output = unsafe OutputRawSpan(buffer: memory, initializedCount: 0)
                try write(&output)
                count = unsafe output.finalize(for: memory)
            }
        }
    }

    /// Appends the values of elements as a one-dimensional array in PostgreSQL's binary form; nil is NULL.
    @inlinable
    mutating func append<Source, Value: PostgresValue>(
        arrayOf elements: [Source], _ value: (Source) -> Value?
    ) throws(PostgresError) {
        let length = elements.count
        let flags = count + 4
        append(room: 20) { output in output.append(headOfArray: length, of: Value.postgresType) }
        // Size of an element with its length, and index of the first one that is not written yet.
        var (index, size) = (0, 0)
        var hasNull = false
        while index < length {
            try PostgresParameters.checkSize(count + size)
            // All room at once: for each element alone, the checks cost more than the bytes.
            try append(room: Swift.max(size, capacity - count)) { output throws(PostgresError) in
                while index < length {
                    let value = value(elements[index])
                    size = 4 + (value?.encodedCount ?? 0)
                    if size > output.freeCapacity { return }
                    if let value {
                        try output.append(element: value, count: size - 4)
                    } else {
                        output.append(integer: Int32(-1))
                        hasNull = true
                    }
                    index += 1
                }
            }
        }
        if hasNull { set(Int32(1), at: flags) }
    }

    @inlinable
    mutating func set(_ value: Int32, at offset: Int) {
        unsafe withUnsafeMutableBytes { bytes in
            unsafe bytes.storeBytes(of: value.bigEndian, toByteOffset: offset, as: Int32.self)
        }
    }
}

extension RawSpan {
    /// The big-endian integer at `offset`; the span must hold it.
    @inlinable
    package func postgresInteger<Value: FixedWidthInteger & BitwiseCopyable>(
        at offset: Int = 0, as type: Value.Type = Value.self
    ) -> Value {
        unsafe Value(bigEndian: unsafeLoadUnaligned(fromByteOffset: offset, as: Value.self))
    }
}
