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
    package func encode(into bytes: inout [UInt8]) {
        guard microseconds != .max, microseconds != .min else { return bytes.append(integer: microseconds) }
        let (value, overflow) = microseconds.subtractingReportingOverflow(Self.epoch)
        // Too early for PostgreSQL in any case; it must say so, and not read -infinity.
        bytes.append(integer: overflow ? .min + 1 : value)
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
    package func encode(into bytes: inout [UInt8]) {
        bytes.append(integer: high)
        bytes.append(integer: low)
    }

    @inlinable
    package init?(postgresBytes bytes: RawSpan, oid: UInt32) {
        guard bytes.byteCount == 16 else { return nil }
        self.init(high: bytes.postgresInteger(at: 0), low: bytes.postgresInteger(at: 8))
    }
}
