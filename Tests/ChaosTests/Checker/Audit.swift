// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import Synchronization

/// Records every committed step backwards through triggers, since sampling would miss most. The triggers write only
/// when they find a violation.
final class Audit: Sendable {
    private let pool: PostgresPool
    private let report: ChaosReport
    /// Whether triggers also record failed attempts.
    private let isHealthy: Bool
    /// IDs of reported rows. They may have gaps, since rows are committed in any order.
    private let seen = Mutex<Set<Int64>>([])

    init(pool: PostgresPool, report: ChaosReport, isHealthy: Bool) {
        self.pool = pool
        self.isHealthy = isHealthy
        self.report = report
    }

    /// Reports rows since the last look, and timelines without an appointment.
    func look() async throws {
        // This holds in every committed state, also during faults.
        report.checked(.appointed)
        if isHealthy { report.checked(.healthyProviders) }
        for text in try await pool.query(Unappointed()) {
            report.violated(.appointed, "something to do and no list: \(text)")
        }
        for row in try await pool.query(AuditRows()) where seen.withLock({ $0.insert(row.id).inserted }) {
            let invariant: Invariant =
                switch row.what {
                case "failed": .healthyProviders
                case let what where what.hasPrefix("timeline "): .neverBack
                default: .exactlyOnce
                }
            report.violated(invariant, "\(row.what): \(row.old) became \(row.new)")
        }
    }

    /// Further triggers while all providers are healthy: no attempt may fail.
    static let failuresSQL = """
        CREATE TRIGGER chaos_audit_failed AFTER UPDATE ON timeline FOR EACH ROW WHEN (NEW.attempts > OLD.attempts)
            EXECUTE FUNCTION chaos_audit('failed');
        """

    static let sql = """
        CREATE TABLE chaos_audit (
            id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, what text NOT NULL, old_row text NOT NULL,
            new_row text NOT NULL);
        CREATE FUNCTION chaos_audit() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            INSERT INTO chaos_audit (what, old_row, new_row) VALUES (TG_ARGV[0], left(OLD::text, 600), left(NEW::text, 600));
            RETURN NULL;
        END $$;
        CREATE TRIGGER chaos_audit AFTER UPDATE ON timeline FOR EACH ROW
            WHEN (NEW.rendered < OLD.rendered OR NEW.generation < OLD.generation OR NEW.revision < OLD.revision
                  OR NEW.content_revision < OLD.content_revision)
            EXECUTE FUNCTION chaos_audit('timeline went back');
        CREATE TRIGGER chaos_audit_requested AFTER UPDATE ON timeline FOR EACH ROW WHEN (NEW.requested < OLD.requested)
            EXECUTE FUNCTION chaos_audit('requested went back');
        CREATE TRIGGER chaos_audit AFTER UPDATE ON kind FOR EACH ROW WHEN (NEW.generation < OLD.generation)
            EXECUTE FUNCTION chaos_audit('kind.generation went back');
        CREATE TRIGGER chaos_audit AFTER UPDATE ON consumer_position FOR EACH ROW
            WHEN (NEW.next_offset < OLD.next_offset OR NEW.epoch < OLD.epoch)
            EXECUTE FUNCTION chaos_audit('consumer_position went back');
        """
}
