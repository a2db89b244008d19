package import PostgresClient

/// How large the tables are that reloads write, and how many row versions they hold: for watching a long run.
package struct TableSizes: PostgresStatement {
    package struct Row: Hashable, Sendable {
        package let table: String
        /// Of the table with its maps and, if it has one, its TOAST table.
        package let tableBytes: Int64
        /// Of all its indexes.
        package let indexBytes: Int64
        /// As the statistics collector estimates them.
        package let live: Int64
        package let dead: Int64
        package let autovacuums: Int64

        /// Whether it is the hot table.
        package var isState: Bool { table == "timeline_state" }
    }

    package static let sql = """
        SELECT relname::text, pg_table_size(relid), pg_indexes_size(relid), n_live_tup, n_dead_tup, autovacuum_count
        FROM pg_stat_user_tables
        WHERE relid IN ('timeline'::regclass, 'timeline_state'::regclass, 'timeline_content'::regclass,
                        'widget'::regclass, 'consumer_position'::regclass)
        ORDER BY relname
        """

    package init() {}

    package func bind(_ parameters: inout PostgresParameters) {}

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            table: try row.value(0), tableBytes: try row.value(1), indexBytes: try row.value(2),
            live: try row.value(3), dead: try row.value(4), autovacuums: try row.value(5))
    }
}

/// Takes a snapshot, which a transaction that is `REPEATABLE READ` keeps to its end: no row version that it might see can
/// be removed meanwhile. For load tests.
package struct TakeSnapshot: PostgresStatement {
    package static let sql = "SELECT pg_current_snapshot()::text"

    package init() {}

    package func bind(_ parameters: inout PostgresParameters) {}

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> String { try row.value(0) }
}

/// Rewrites the hot table and its indexes without dead row versions: what is left is its compact size. Locks the table, so
/// only for load tests.
package struct CompactTimelineState: PostgresStatement {
    package static let sql = "VACUUM (FULL, ANALYZE) timeline_state"

    package init() {}

    package func bind(_ parameters: inout PostgresParameters) {}
}
