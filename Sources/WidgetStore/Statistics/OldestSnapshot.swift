package import PostgresClient

package struct OldestSnapshot: Hashable, Sendable {
    /// Transactions that have begun since the oldest snapshot.
    package let transactions: Int64
    /// Seconds since the oldest transaction began.
    package let seconds: Double
}

extension PostgresStatement where Self == Statements {
    /// How far back PostgreSQL has to keep row versions, and the oldest transaction: what holds vacuum back.
    ///
    /// Sessions of other roles show their transactions only to members of `pg_read_all_stats`; to others, those that have
    /// written still show in the age.
    package static func oldestSnapshot() -> PostgresQuery<OldestSnapshot> {
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
        ) { row in OldestSnapshot(transactions: try row.value("transactions"), seconds: try row.value("seconds")) }
    }
}
