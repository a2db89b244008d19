package import PostgresClient
package import WidgetModel

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
