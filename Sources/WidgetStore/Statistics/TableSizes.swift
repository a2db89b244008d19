package import PostgresClient

package struct TableSize: Hashable, Sendable {
    package let table: String
    /// Of the table with its maps and, if it has one, its TOAST table.
    package let tableBytes: Int64
    /// Of all its indexes.
    package let indexBytes: Int64
    /// As the statistics collector estimates them.
    package let live: Int64
    package let dead: Int64
    package let autovacuums: Int64

    /// Whether it is the table of timelines.
    package var isTimeline: Bool { table == "timeline" }
}

extension PostgresStatement where Self == Statements {
    /// How large the tables are that reloads write, and how many row versions they hold: for watching a long run.
    package static func tableSizes() -> PostgresQuery<TableSize> {
        PostgresQuery(
            """
            SELECT relname::text AS name, pg_table_size(relid) AS table_bytes, pg_indexes_size(relid) AS index_bytes,
                   n_live_tup AS live, n_dead_tup AS dead, autovacuum_count AS autovacuums
            FROM pg_stat_user_tables
            WHERE relid IN ('timeline'::regclass, 'work'::regclass, 'widget'::regclass, 'consumer_position'::regclass)
            ORDER BY relname
            """
        ) { row in
            TableSize(
                table: try row.value("name"), tableBytes: try row.value("table_bytes"),
                indexBytes: try row.value("index_bytes"), live: try row.value("live"), dead: try row.value("dead"),
                autovacuums: try row.value("autovacuums"))
        }
    }

    /// Takes a snapshot, which a transaction that is `REPEATABLE READ` keeps to its end: no row version that it might see can
    /// be removed meanwhile. For load tests.
    package static func takeSnapshot() -> PostgresQuery<String> {
        PostgresQuery("SELECT pg_current_snapshot()::text AS snapshot") { row in try row.value("snapshot") }
    }

    /// Rewrites the tables of timelines and lists and their indexes without dead row versions: their compact size. Locks the
    /// tables, so only for load tests.
    package static func compactTimelines() -> PostgresQuery<Void> {
        PostgresQuery("VACUUM (FULL, ANALYZE) timeline, work")
    }
}
