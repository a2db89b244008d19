package import PostgresClient

/// Whether the server takes writes: not a standby, and not made read-only.
package struct TakesWrites: PostgresStatement {
    package static let sql = "SELECT current_setting('transaction_read_only') = 'off' AS writable"

    package init() {}

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Bool { try row.value("writable") }
}
