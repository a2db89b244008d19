package import PostgresClient

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
