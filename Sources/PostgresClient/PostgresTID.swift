/// tid: where a version of a row is in its table (`ctid`). A new version of the row is somewhere else.
@usableFromInline
package struct PostgresTID: Hashable, Sendable {
    @usableFromInline package var block: UInt32
    /// Counted from 1.
    @usableFromInline package var offset: UInt16

    @inlinable
    package init(block: UInt32, offset: UInt16) {
        self.block = block
        self.offset = offset
    }
}

extension PostgresTID: PostgresValue {
    @inlinable
    package static var postgresType: PostgresType { .tid }

    @inlinable
    package var postgresByteCount: Int { 6 }

    @inlinable
    package func encode(into writer: inout PostgresWriter) {
        writer.write(block)
        writer.write(offset)
    }

    @inlinable
    package init?(postgresBytes bytes: RawSpan, oid: UInt32) {
        guard bytes.byteCount == 6 else { return nil }
        self.init(block: bytes.postgresInteger(at: 0), offset: bytes.postgresInteger(at: 4))
    }
}
