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
    @inlinable package static var jsonb: PostgresType { PostgresType(oid: 3802, arrayOID: 3807, name: "jsonb") }

    /// Types that are only read.
    private static let others = [
        PostgresType(oid: 18, arrayOID: 1002, name: "\"char\""), PostgresType(oid: 19, arrayOID: 1003, name: "name"),
        PostgresType(oid: 26, arrayOID: 1028, name: "oid"), PostgresType(oid: 114, arrayOID: 199, name: "json"),
        PostgresType(oid: 1042, arrayOID: 1014, name: "bpchar"),
        PostgresType(oid: 1043, arrayOID: 1015, name: "varchar"),
        PostgresType(oid: 1082, arrayOID: 1182, name: "date"),
        PostgresType(oid: 1114, arrayOID: 1115, name: "timestamp"),
        PostgresType(oid: 1186, arrayOID: 1187, name: "interval"),
        PostgresType(oid: 1700, arrayOID: 1231, name: "numeric"), PostgresType(oid: 2278, arrayOID: 0, name: "void"),
    ]

    private static let known: [PostgresType] =
        [.bool, .bytea, .int8, .int2, .int4, .text, .float4, .float8, .timestamptz, .uuid, .jsonb] + others

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

    /// Appends the binary form, big-endian.
    /// - Throws: `.encoding` for a text with a NUL byte.
    func encode(into bytes: inout [UInt8]) throws(PostgresError)

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
    package func encode(into bytes: inout [UInt8]) throws(PostgresError) {
        try storedValue.encode(into: &bytes)
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
