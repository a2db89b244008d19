extension Bool: PostgresValue {
    @inlinable
    package static var postgresType: PostgresType { .bool }

    @inlinable
    package var postgresByteCount: Int { 1 }

    @inlinable
    package func encode(into writer: inout PostgresWriter) { writer.write(UInt8(self ? 1 : 0)) }

    @inlinable
    package init?(postgresBytes bytes: RawSpan, oid: UInt32) {
        guard bytes.byteCount == 1 else { return nil }
        self = bytes.postgresInteger(as: UInt8.self) != 0
    }
}

extension Int16: PostgresValue {
    @inlinable
    package static var postgresType: PostgresType { .int2 }

    @inlinable
    package var postgresByteCount: Int { 2 }

    @inlinable
    package func encode(into writer: inout PostgresWriter) { writer.write(self) }

    @inlinable
    package init?(postgresBytes bytes: RawSpan, oid: UInt32) {
        guard bytes.byteCount == 2 else { return nil }
        self = bytes.postgresInteger()
    }
}

extension Int32: PostgresValue {
    @inlinable
    package static var postgresType: PostgresType { .int4 }

    /// Also reads what is narrower.
    @inlinable
    package static func accepts(oid: UInt32) -> Bool {
        oid == PostgresType.int4.oid || oid == PostgresType.int2.oid
    }

    @inlinable
    package var postgresByteCount: Int { 4 }

    @inlinable
    package func encode(into writer: inout PostgresWriter) { writer.write(self) }

    @inlinable
    package init?(postgresBytes bytes: RawSpan, oid: UInt32) {
        switch bytes.byteCount {
        case 4: self = bytes.postgresInteger()
        case 2: self = Int32(bytes.postgresInteger(as: Int16.self))
        default: return nil
        }
    }
}

extension Int64: PostgresValue {
    @inlinable
    package static var postgresType: PostgresType { .int8 }

    /// Also reads what is narrower.
    @inlinable
    package static func accepts(oid: UInt32) -> Bool {
        oid == PostgresType.int8.oid || oid == PostgresType.int4.oid || oid == PostgresType.int2.oid
    }

    @inlinable
    package var postgresByteCount: Int { 8 }

    @inlinable
    package func encode(into writer: inout PostgresWriter) { writer.write(self) }

    @inlinable
    package init?(postgresBytes bytes: RawSpan, oid: UInt32) {
        switch bytes.byteCount {
        case 8: self = bytes.postgresInteger()
        case 4: self = Int64(bytes.postgresInteger(as: Int32.self))
        case 2: self = Int64(bytes.postgresInteger(as: Int16.self))
        default: return nil
        }
    }
}

/// As `Int64`: int8.
extension Int: PostgresValue {
    @inlinable
    package static var postgresType: PostgresType { .int8 }

    @inlinable
    package static func accepts(oid: UInt32) -> Bool { Int64.accepts(oid: oid) }

    @inlinable
    package var postgresByteCount: Int { 8 }

    @inlinable
    package func encode(into writer: inout PostgresWriter) { writer.write(Int64(self)) }

    @inlinable
    package init?(postgresBytes bytes: RawSpan, oid: UInt32) {
        guard let value = Int64(postgresBytes: bytes, oid: oid) else { return nil }
        self.init(exactly: value)
    }
}

extension Float: PostgresValue {
    @inlinable
    package static var postgresType: PostgresType { .float4 }

    @inlinable
    package var postgresByteCount: Int { 4 }

    @inlinable
    package func encode(into writer: inout PostgresWriter) { writer.write(bitPattern) }

    @inlinable
    package init?(postgresBytes bytes: RawSpan, oid: UInt32) {
        guard bytes.byteCount == 4 else { return nil }
        self.init(bitPattern: bytes.postgresInteger())
    }
}

extension Double: PostgresValue {
    @inlinable
    package static var postgresType: PostgresType { .float8 }

    /// Also reads what is narrower.
    @inlinable
    package static func accepts(oid: UInt32) -> Bool {
        oid == PostgresType.float8.oid || oid == PostgresType.float4.oid
    }

    @inlinable
    package var postgresByteCount: Int { 8 }

    @inlinable
    package func encode(into writer: inout PostgresWriter) { writer.write(bitPattern) }

    @inlinable
    package init?(postgresBytes bytes: RawSpan, oid: UInt32) {
        switch bytes.byteCount {
        case 8: self.init(bitPattern: bytes.postgresInteger())
        case 4: self.init(Float(bitPattern: bytes.postgresInteger()))
        default: return nil
        }
    }
}
