/// uuid: 128 bits.
@usableFromInline
package struct PostgresUUID: Hashable, Sendable {
    @usableFromInline package var high: UInt64
    @usableFromInline package var low: UInt64

    @inlinable
    package init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }
}

extension PostgresUUID: PostgresValue {
    @inlinable
    package static var postgresType: PostgresType { .uuid }

    @inlinable
    package var postgresByteCount: Int { 16 }

    @inlinable
    package func encode(into writer: inout PostgresWriter) {
        writer.write(high)
        writer.write(low)
    }

    @inlinable
    package init?(postgresBytes bytes: RawSpan, oid: UInt32) {
        guard bytes.byteCount == 16 else { return nil }
        self.init(high: bytes.postgresInteger(at: 0), low: bytes.postgresInteger(at: 8))
    }
}
