package import PostgresClient

/// Position of the pass of the audit under way.
package struct AuditPosition: Hashable, Sendable {
    /// Number of the pass.
    package let pass: Int64
    /// Timelines up to this one are audited.
    package let cursor: Int64
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
    /// - Parameter interval: pause until the next pass.
    package static func endAuditPass(worker: PostgresUUID, interval: Duration) -> PostgresQuery<Void> {
        PostgresQuery(
            """
            UPDATE audit
            SET worker = NULL, lease_ends_at = '-infinity', pass = pass + 1, cursor = 0, advanced_at = now(),
                pass_begins_at = now() + $2::int8 * interval '1 millisecond'
            WHERE worker = $1::uuid
            """, worker, interval.wholeMilliseconds
        )
    }

    /// Time since the audit has advanced, beyond the pause between two passes, in seconds.
    package static func auditSilence() -> PostgresQuery<Double> {
        PostgresQuery(
            """
            SELECT greatest(0, extract(epoch FROM now() - greatest(advanced_at, pass_begins_at)))::float8 AS silence
            FROM audit
            """
        ) { row in try row.value("silence") }
    }
}
