package import PostgresClient
package import WidgetModel

package struct TableSize: Hashable, Sendable {
    package let table: String
    /// Bytes of the table with its maps and TOAST table.
    package let tableBytes: Int64
    /// Bytes of all its indexes.
    package let indexBytes: Int64
    /// Estimates of the statistics collector.
    package let live: Int64
    package let dead: Int64
    package let autovacuums: Int64

    /// True for the table `timeline`.
    package var isTimeline: Bool { table == "timeline" }
}

package struct DatabaseVitals: Hashable, Sendable {
    /// Process id of this connection's server process, on the server's machine.
    package let backend: Int32
    /// Whether the connection's address is of this machine.
    package let isLocal: Bool
    /// Bytes of WAL ever inserted.
    package let walBytes: Int64
    package let now: Timestamp
}

extension PostgresStatement where Self == Statements {
    /// Sizes and row versions of the tables that reloads write, for long runs.
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
            try TableSize(
                table: row.value("name"), tableBytes: row.value("table_bytes"), indexBytes: row.value("index_bytes"),
                live: row.value("live"), dead: row.value("dead"), autovacuums: row.value("autovacuums"))
        }
    }

    /// Takes a snapshot, which a `REPEATABLE READ` transaction keeps to its end and with it all row versions that it
    /// might see. For load tests.
    package static func takeSnapshot() -> PostgresQuery<String> {
        PostgresQuery("SELECT pg_current_snapshot()::text AS snapshot") { row in try row.value("snapshot") }
    }

    /// Rewrites the tables of timelines and lists and their indexes without dead row versions. Locks the tables, so
    /// only for load tests.
    package static func compactTimelines() -> PostgresQuery<Void> {
        PostgresQuery("VACUUM (FULL, ANALYZE) timeline, work")
    }

    /// The server's log position and time, and this connection's server process, for measurements.
    package static func databaseVitals() -> PostgresQuery<DatabaseVitals> {
        PostgresQuery(
            """
            SELECT pg_backend_pid() AS backend,
                   coalesce(inet_client_addr() <<= '127.0.0.0/8' OR inet_client_addr() = '::1', true) AS local,
                   pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::int8 AS wal_bytes, clock_timestamp() AS now
            """
        ) { row in
            try DatabaseVitals(
                backend: row.value("backend"), isLocal: row.value("local"), walBytes: row.value("wal_bytes"),
                now: row.value("now"))
        }
    }

    /// Writes a checkpoint, so that measurements do not depend on the time of the last one. Needs a superuser or
    /// `pg_checkpoint`.
    package static func writeCheckpoint() -> PostgresQuery<Void> {
        PostgresQuery("CHECKPOINT")
    }

    /// Vacuums the tables that reloads write, so that earlier row versions do not affect measurements.
    package static func tidyTimelines() -> PostgresQuery<Void> {
        PostgresQuery("VACUUM (ANALYZE) timeline, work, widget")
    }
}
