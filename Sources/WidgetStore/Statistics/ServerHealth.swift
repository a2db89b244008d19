// SPDX-License-Identifier: Apache-2.0

package import PostgresClient
package import WidgetModel

/// A server setting. `setting`: value in its unit. `unit`: `kB`, `8kB`, `ms`, …; nil without a unit.
package typealias ServerSetting = (name: String, setting: String, unit: String?)

private let names = [
    "server_version_num", "fsync", "synchronous_commit", "full_page_writes", "max_connections",
    "superuser_reserved_connections", "autovacuum", "track_counts", "shared_buffers",
    "idle_in_transaction_session_timeout", "max_wal_size", "autovacuum_vacuum_cost_delay",
]

private let serverSettingsSQL = """
    SELECT name, setting, unit FROM pg_settings
    WHERE name IN (\(names.map { "'\($0)'" }.joined(separator: ", ")))
    """

extension PostgresStatement where Self == Statements {
    /// Server settings that `freshet doctor` checks.
    package static func serverSettings() -> PostgresQuery<ServerSetting> {
        PostgresQuery(serverSettingsSQL) { row in
            try ServerSetting(name: row.value("name"), setting: row.value("setting"), unit: row.optional("unit"))
        }
    }

    /// Connections in use, and whether this role sees the sessions of others.
    package static func serverSessions() -> PostgresQuery<(connections: Int64, seesOthers: Bool, isSuperuser: Bool)> {
        PostgresQuery(
            """
            SELECT (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS connections,
                   pg_has_role('pg_read_all_stats', 'USAGE') AS sees_others,
                   coalesce((SELECT rolsuper FROM pg_roles WHERE rolname = current_user), false) AS superuser
            """
        ) { row in
            try (
                connections: row.value("connections"), seesOthers: row.value("sees_others"),
                isSuperuser: row.value("superuser")
            )
        }
    }

    /// Harmful indexes: invalid ones, and indexes of `timeline` besides its three, which prevent HOT updates.
    package static func oddIndexes() -> PostgresQuery<(table: String, index: String, isValid: Bool)> {
        PostgresQuery(
            """
            SELECT t.relname::text AS table_name, i.relname::text AS index_name, x.indisvalid AND x.indisready AS valid
            FROM pg_index x
            JOIN pg_class i ON i.oid = x.indexrelid
            JOIN pg_class t ON t.oid = x.indrelid
            WHERE t.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'timeline'::regclass)
                AND (NOT x.indisvalid OR NOT x.indisready
                     OR x.indrelid = 'timeline'::regclass
                        AND i.relname NOT IN ('timeline_pkey', 'timeline_identity', 'timeline_by_kind'))
            ORDER BY 1, 2
            """
        ) { row in
            try (table: row.value("table_name"), index: row.value("index_name"), isValid: row.value("valid"))
        }
    }

    /// Age of the row versions that PostgreSQL has to keep, and the oldest transaction, which holds vacuum back.
    ///
    /// Sessions of other roles show their transactions only to members of `pg_read_all_stats`; to others, those that
    /// have written still show in the age.
    package static func oldestSnapshot() -> PostgresQuery<(transactions: Int64, seconds: Double)> {
        PostgresQuery(
            """
            SELECT greatest(
                       coalesce((SELECT max(age(a.backend_xmin)) FROM pg_stat_activity a WHERE a.backend_xmin IS NOT NULL), 0),
                       coalesce((SELECT max(greatest(age(r.xmin), age(r.catalog_xmin))) FROM pg_replication_slots r), 0),
                       coalesce((SELECT max(age(p.transaction)) FROM pg_prepared_xacts p), 0),
                       (pg_snapshot_xmax(pg_current_snapshot())::text::int8
                        - pg_snapshot_xmin(pg_current_snapshot())::text::int8))::int8 AS transactions,
                   coalesce((SELECT greatest(0, extract(epoch FROM clock_timestamp() - min(a.xact_start)))
                             FROM pg_stat_activity a
                             WHERE a.backend_type = 'client backend'), 0)::float8 AS seconds
            """
        ) { row in try (transactions: row.value("transactions"), seconds: row.value("seconds")) }
    }

    /// Whether the server takes writes: not a standby, and not made read-only.
    package static func takesWrites() -> PostgresQuery<Bool> {
        PostgresQuery("SELECT current_setting('transaction_read_only') = 'off' AS writable") { row in
            try row.value("writable")
        }
    }
}

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

package struct TimelineSummary: Hashable, Sendable {
    package let id: TimelineID
    /// Targeted requests so far, and those served by the last render.
    package let requested: Int64
    package let rendered: Int64
    /// Whether a request is newer than the stored content.
    package let isStale: Bool
    /// Hash and revision of the stored content; nil without content.
    package let hash: ContentHash?
    package let revision: Int64?
    package let requestedAt: Timestamp?
    package let renderedAt: Timestamp?
}

private let storedTimelinesSQL = """
    SELECT t.identity, t.requested, t.rendered, \(RowFormula.isStale) AS stale,
           CASE WHEN t.content_revision > 0 THEN t.hash END AS hash, nullif(t.content_revision, 0) AS revision,
           t.requested_at, t.rendered_at
    FROM timeline t JOIN kind k ON k.id = t.kind_id
    WHERE t.identity > $1::uuid
    ORDER BY t.identity
    LIMIT $2::int8
    """

extension PostgresStatement where Self == Statements {
    /// Every timeline with its stored content and pending requests, for checks of load tests. A full scan, page by page
    /// in the order of the public ids.
    ///
    /// - Parameter after: last id of the page before.
    package static func storedTimelines(after: TimelineID?, limit: Int) -> PostgresQuery<TimelineSummary> {
        PostgresQuery(storedTimelinesSQL, after ?? TimelineID(high: 0, low: 0), limit) { row in
            try TimelineSummary(
                id: row.value("identity"), requested: row.value("requested"), rendered: row.value("rendered"),
                isStale: row.value("stale"), hash: row.optional("hash"), revision: row.optional("revision"),
                requestedAt: row.optional("requested_at"), renderedAt: row.optional("rendered_at"))
        }
    }

    /// Number of timelines in ready or leased lists, and of sweeps: zero at the end of a run.
    package static func timelinesUnderWay() -> PostgresQuery<Int64> {
        PostgresQuery(
            """
            SELECT (SELECT coalesce(sum(cardinality(timelines)), 0)::int8 FROM work
                    WHERE ready_at <= now() OR lease IS NOT NULL OR due_at <= now())
                + (SELECT count(*) FROM sweep) AS count
            """
        ) { row in try row.value("count") }
    }
}
