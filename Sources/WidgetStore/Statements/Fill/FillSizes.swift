package import PostgresClient

/// How large the tables of widgets and timelines are, with what has become of their rows.
package struct FillSizes: PostgresStatement {
    package struct Row: Hashable, Sendable {
        package let table: String
        /// Of the table alone, with its map files and TOAST.
        package let tableBytes: Int64
        /// Of all its indexes.
        package let indexBytes: Int64
        package let updates: Int64
        /// Updates that touched no index.
        package let hotUpdates: Int64
        package let deadRows: Int64
        package let autovacuums: Int64
    }

    package static let sql = """
        SELECT t.name, pg_table_size(t.name::regclass), pg_indexes_size(t.name::regclass), coalesce(s.n_tup_upd, 0),
               coalesce(s.n_tup_hot_upd, 0), coalesce(s.n_dead_tup, 0), coalesce(s.autovacuum_count, 0)
        FROM unnest($1::text[]) AS t (name) LEFT JOIN pg_stat_user_tables s ON s.relid = t.name::regclass
        ORDER BY t.name
        """

    let tables: [String]

    package init(tables: [String] = FillTable.names) {
        self.tables = tables
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(array: tables)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            table: try row.value(0), tableBytes: try row.value(1), indexBytes: try row.value(2),
            updates: try row.value(3), hotUpdates: try row.value(4), deadRows: try row.value(5),
            autovacuums: try row.value(6))
    }
}

/// How far the write-ahead log has come, in bytes: the difference of two is what was written between.
package struct WalPosition: PostgresStatement {
    package static let sql = "SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::int8"

    package init() {}

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int64 {
        try row.value(0)
    }
}

/// Takes a snapshot and so holds back vacuum for as long as the transaction is open.
package struct HoldSnapshot: PostgresStatement {
    package static let sql = "SELECT count(*) FROM app"

    package init() {}

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int64 {
        try row.value(0)
    }
}

/// Storage parameters of one of the tables of widgets and timelines, for measurements.
package struct TableStorage: Hashable, Sendable {
    package let sql: String

    /// - Parameter text: such as `timeline_state: fillfactor=70, autovacuum_vacuum_scale_factor=0.02`; nil when it is
    ///   none.
    package init?(_ text: String) {
        let parts = text.split(separator: ":", maxSplits: 1)
        guard parts.count == 2, FillTable.names.contains(String(parts[0])),
            parts[1].allSatisfy({ $0.isASCII && ($0.isLetter || $0.isNumber || "_=., -".contains($0)) })
        else { return nil }
        sql = "ALTER TABLE \(parts[0]) SET (\(parts[1]))"
    }
}
