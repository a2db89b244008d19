package import PostgresClient

extension PostgresStatement where Self == Statements {
    /// Whether the server takes writes: not a standby, and not made read-only.
    package static func takesWrites() -> PostgresQuery<Bool> {
        PostgresQuery("SELECT current_setting('transaction_read_only') = 'off' AS writable") { row in
            try row.value("writable")
        }
    }
}
