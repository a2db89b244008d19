// SPDX-License-Identifier: Apache-2.0

package import PostgresClient
import Waiting
package import WidgetModel

/// Operations on Freshet's state.
package struct WidgetStore: Sendable {
    package let pool: PostgresPool

    package init(pool: PostgresPool) {
        self.pool = pool
    }

    /// Runs one statement on a connection of the pool.
    package func query<Statement: PostgresStatement>(
        _ statement: Statement
    ) async throws(PostgresError) -> [Statement.Row] {
        try await pool.query(statement)
    }

    /// Retries `body`, with back-off, after transient errors.
    ///
    /// - Parameter isIdempotent: whether `body` may run again after a COMMIT of unknown outcome.
    package func retryingConflicts<Value: Sendable>(
        attempts: Int = 10, isIdempotent: Bool = true, _ body: () async throws -> Value
    ) async throws -> Value {
        var attempt = 1
        while true {
            do {
                return try await body()
            } catch let error as PostgresError
                where error.isRetriable && attempt < attempts && (isIdempotent || !error.commitOutcomeUnknown)
            {
                var generator = SystemRandomNumberGenerator()
                let backoff = Backoff(base: .milliseconds(20), cap: .seconds(1))
                try await Task.sleep(for: backoff.delay(attempt: attempt, using: &generator))
                attempt += 1
            }
        }
    }
}

extension PostgresMigration {
    /// The store's migrations, embedded in the binary. Each is small, safe under load, and never undone.
    package static let all: [PostgresMigration] = [
        migration(1, "apps_and_kinds", PackageResources.m0001_apps_and_kinds_sql),
        migration(2, "timelines", PackageResources.m0002_timelines_sql),
        migration(3, "widgets", PackageResources.m0003_widgets_sql),
        migration(4, "ingest", PackageResources.m0004_ingest_sql),
        migration(5, "dead_letters", PackageResources.m0005_dead_letters_sql),
        migration(6, "placeholders_and_statistics", PackageResources.m0006_placeholders_and_statistics_sql),
        migration(7, "event_outcomes", PackageResources.m0007_event_outcomes_sql),
        migration(8, "people_and_stacks", PackageResources.m0008_people_and_stacks_sql),
        migration(9, "delivery", PackageResources.m0009_delivery_sql),
        migration(10, "sweeps_and_audit", PackageResources.m0010_sweeps_and_audit_sql),
        migration(11, "apns_environment", PackageResources.m0011_apns_environment_sql),
        migration(12, "retention", PackageResources.m0012_retention_sql),
        migration(13, "log_fingerprints", PackageResources.m0013_log_fingerprints_sql),
        migration(14, "registrations_of_topic", PackageResources.m0014_registrations_of_topic_sql),
        migration(15, "failed_sweeps", PackageResources.m0015_failed_sweeps_sql),
        migration(16, "looked_generation", PackageResources.m0016_looked_generation_sql),
        migration(17, "too_many_widgets", PackageResources.m0017_too_many_widgets_sql),
        migration(18, "batch_conditions", PackageResources.m0018_batch_conditions_sql),
        migration(19, "server_run", PackageResources.m0019_server_run_sql),
        migration(20, "open_breakers", PackageResources.m0020_open_breakers_sql),
        migration(21, "processes", PackageResources.m0021_processes_sql),
        migration(22, "operator_actions", PackageResources.m0022_operator_actions_sql),
        migration(23, "decision_history", PackageResources.m0023_decision_history_sql),
    ]

    private static func migration(_ version: Int, _ name: String, _ text: [UInt8]) -> PostgresMigration {
        PostgresMigration(version: version, name: name, sql: String(decoding: text, as: UTF8.self))
    }
}

extension PostgresStatement where Self == Statements {
    /// Reads the database's time. Behind a lock on rows it is later than all times that other transactions have stored
    /// in them.
    ///
    /// Times from outside are limited to it before they are compared or stored: one that lies ahead would make all
    /// correct changes until then outdated. A stored time that lies ahead nevertheless, from a server with another
    /// clock, counts as none.
    package static func databaseTime() -> PostgresQuery<Timestamp> {
        PostgresQuery("SELECT clock_timestamp() AS now") { row in try row.value("now") }
    }
}

/// SQL for a stored time that counts as none if it lies ahead of the database's clock.
func usableTime(_ column: String) -> String { "CASE WHEN \(column) <= clock_timestamp() THEN \(column) END" }
