package import PostgresClient

/// Position of the pass of the audit under way.
package struct AuditPosition: Hashable, Sendable {
    /// Number of the pass.
    package let pass: Int64
    /// Timelines up to this one are audited.
    package let cursor: Int64

    package var isAtStart: Bool { cursor == 0 }
}

/// Progress of the audit.
package struct AuditProgress: Hashable, Sendable {
    /// Time since the audit has advanced, beyond the pause between two passes.
    package let silence: Duration
    /// Time since the pass began that follows the latest whole one.
    package let unfinished: Duration
}

extension PostgresStatement where Self == Statements {
    /// Takes the audit for a worker process; no row before the next pass and while another process has it. Only one
    /// process of the installation audits at a time.
    package static func takeAudit(worker: PostgresUUID, lease: Duration) -> PostgresQuery<AuditPosition> {
        PostgresQuery(
            """
            UPDATE audit SET worker = $1::uuid, lease_ends_at = now() + $2::int8 * interval '1 millisecond'
            WHERE pass_begins_at <= now() AND (worker = $1::uuid OR lease_ends_at <= now())
            RETURNING pass, cursor
            """, worker, lease.wholeMilliseconds
        ) { row in try AuditPosition(pass: row.value("pass"), cursor: row.value("cursor")) }
    }

    /// Stores the progress of the pass and renews the lease; no row if another process has the audit.
    package static func advanceAudit(worker: PostgresUUID, cursor: Int64, lease: Duration) -> PostgresQuery<Int64> {
        PostgresQuery(
            """
            UPDATE audit
            SET cursor = $2::int8, lease_ends_at = now() + $3::int8 * interval '1 millisecond', advanced_at = now()
            WHERE worker = $1::uuid
            RETURNING cursor
            """, worker, cursor, lease.wholeMilliseconds
        ) { row in try row.value("cursor") }
    }

    /// Ends the pass and the lease.
    ///
    /// - Parameters:
    ///   - isWhole: Whether the process has read all timelines of the pass. Otherwise the next pass begins at once.
    ///   - interval: pause after a whole pass.
    package static func endAuditPass(worker: PostgresUUID, isWhole: Bool, interval: Duration) -> PostgresQuery<Void> {
        PostgresQuery(
            """
            UPDATE audit
            SET worker = NULL, lease_ends_at = '-infinity', pass = pass + 1, cursor = 0, advanced_at = now(),
                pass_begins_at = CASE WHEN $2::bool THEN now() + $3::int8 * interval '1 millisecond'
                                      ELSE pass_begins_at END
            WHERE worker = $1::uuid
            """, worker, isWhole, interval.wholeMilliseconds
        )
    }

    /// Progress of the audit.
    package static func auditProgress() -> PostgresQuery<AuditProgress> {
        PostgresQuery(
            """
            SELECT greatest(0, extract(epoch FROM now() - greatest(advanced_at, pass_begins_at)))::float8 AS silence,
                   greatest(0, extract(epoch FROM now() - pass_begins_at))::float8 AS unfinished
            FROM audit
            """
        ) { row in
            try AuditProgress(silence: .seconds(row.value("silence")), unfinished: .seconds(row.value("unfinished")))
        }
    }
}
