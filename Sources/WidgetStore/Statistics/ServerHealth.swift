package import PostgresClient

package struct ServerSetting: Hashable, Sendable {
    package let name: String
    /// In its own unit.
    package let setting: String
    /// `kB`, `8kB`, `ms`, …; nil: none.
    package let unit: String?
}

private let names = [
    "server_version_num", "fsync", "synchronous_commit", "full_page_writes", "max_connections",
    "superuser_reserved_connections", "autovacuum", "track_counts", "shared_buffers",
    "idle_in_transaction_session_timeout", "max_wal_size", "autovacuum_vacuum_cost_delay",
]

private let serverSettingsSQL = """
    SELECT name, setting, unit FROM pg_settings
    WHERE name IN (\(names.map { "'\($0)'" }.joined(separator: ", ")))
    """

package struct ServerSessions: Hashable, Sendable {
    package let connections: Int64
    package let seesOthers: Bool
    package let isSuperuser: Bool
}

package struct OddIndex: Hashable, Sendable {
    package let table: String
    package let index: String
    package let isValid: Bool
}

extension PostgresStatement where Self == Statements {
    /// Server settings that matter to Freshet, for `freshet doctor`.
    package static func serverSettings() -> PostgresQuery<ServerSetting> {
        PostgresQuery(serverSettingsSQL) { row in
            ServerSetting(
                name: try row.value("name"), setting: try row.value("setting"), unit: try row.optional("unit"))
        }
    }

    /// Connections in use, and whether this role sees what the sessions of others do.
    package static func serverSessions() -> PostgresQuery<ServerSessions> {
        PostgresQuery(
            """
            SELECT (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS connections,
                   pg_has_role('pg_read_all_stats', 'USAGE') AS sees_others,
                   coalesce((SELECT rolsuper FROM pg_roles WHERE rolname = current_user), false) AS superuser
            """
        ) { row in
            ServerSessions(
                connections: try row.value("connections"), seesOthers: try row.value("sees_others"),
                isSuperuser: try row.value("superuser"))
        }
    }

    /// Harmful indexes: invalid ones, and indexes of `timeline` besides its three, which prevent HOT updates.
    package static func oddIndexes() -> PostgresQuery<OddIndex> {
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
            OddIndex(
                table: try row.value("table_name"), index: try row.value("index_name"), isValid: try row.value("valid"))
        }
    }
}
