import Logging
import PostgresClient
import WidgetModel
import WidgetStore

/// Walks all timelines slowly and appoints those with work and no list. Only a fault of the protocol leaves such
/// timelines: an alert fires unless the count stays zero.
struct AuditWalker {
    let context: WorkerContext

    /// Walks until the task is cancelled.
    ///
    /// - Throws: `CancellationError`; an error that is not transient.
    func run() async throws {
        var last: Int64 = 0
        try await context.repeatedly("audit") {
            let pause = last == 0 ? context.configuration.auditInterval : context.configuration.auditSpacing
            try await context.clock.sleep(for: WorkerClock.jittered(pause))
            last = try await chunk(after: last) ?? 0
        }
    }

    /// Audits one chunk, and returns its last row, nil at the end of a pass.
    func chunk(after last: Int64) async throws -> Int64? {
        let audit = Statements.auditTimelines(
            after: last, limit: context.configuration.auditChunk, slack: context.configuration.auditSlack)
        guard let row = try await context.pool.query(audit).first else { return nil }
        if row.appointed > 0 {
            context.statistics.count { $0.auditAppointed += row.appointed }
            context.logger.critical(
                "timelines had something to do and no appointment", metadata: ["count": "\(row.appointed)"])
            context.signal.signal(.timelines)
        }
        return row.last
    }
}
