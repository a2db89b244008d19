package import PostgresClient
package import WidgetModel

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

    /// True for the table `timeline`.
    package var isTimeline: Bool { table == "timeline" }
}

package struct DatabaseVitals: Hashable, Sendable {
    /// Process id of the server process of this connection, on the server's machine.
    package let backend: Int32
    /// Whether the connection comes from this machine, as far as its address tells.
    package let isLocal: Bool
    /// Bytes of WAL ever inserted.
    package let walBytes: Int64
    package let now: Timestamp
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

    /// Where the database server is in its log and its time, and what serves this connection: for measurements.
    package static func databaseVitals() -> PostgresQuery<DatabaseVitals> {
        PostgresQuery(
            """
            SELECT pg_backend_pid() AS backend,
                   coalesce(inet_client_addr() <<= '127.0.0.0/8' OR inet_client_addr() = '::1', true) AS local,
                   pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::int8 AS wal_bytes, clock_timestamp() AS now
            """
        ) { row in
            DatabaseVitals(
                backend: try row.value("backend"), isLocal: try row.value("local"),
                walBytes: try row.value("wal_bytes"),
                now: try row.value("now"))
        }
    }

    /// Writes a checkpoint, so that what is measured after it does not depend on when the last one was. Needs a superuser or
    /// `pg_checkpoint`.
    package static func writeCheckpoint() -> PostgresQuery<Void> {
        PostgresQuery("CHECKPOINT")
    }

    /// Tidies the tables that reloads write: dead row versions of what came before are not what is measured.
    package static func tidyTimelines() -> PostgresQuery<Void> {
        PostgresQuery("VACUUM (ANALYZE) timeline, work, widget")
    }
}
