extension Bool: PostgresValue {
    @inlinable
    package static var postgresType: PostgresType { .bool }

    @inlinable
    package func encode(into bytes: inout [UInt8]) { bytes.append(integer: UInt8(self ? 1 : 0)) }

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
    package func encode(into bytes: inout [UInt8]) { bytes.append(integer: self) }

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
    package func encode(into bytes: inout [UInt8]) { bytes.append(integer: bitPattern) }

    @inlinable
    package init?(postgresBytes bytes: RawSpan, oid: UInt32) {
        switch bytes.byteCount {
        case 8: self.init(bitPattern: bytes.postgresInteger())
        case 4: self.init(Float(bitPattern: bytes.postgresInteger()))
        default: return nil
        }
    }
}
