import Logging
import PostgresClient
import WidgetModel
import WidgetStore

/// Ends the claims of what the rules defer. It asks nobody, so it costs a statement and no slot of a provider.
struct DeferralRunner: Sendable {
    let context: WorkerContext

    /// What is to sleep is locked first, so that no view or placement is missed.
    private func end(_ deferrals: [Deferral]) async throws -> [DeferTimelines.Row] {
        let statement = DeferTimelines(deferrals)
        guard deferrals.contains(where: { $0.until == nil }) else {
            return try await context.pool.query(statement)
        }
        return try await context.pool.withTransaction { connection in
            _ = try await connection.query(LockTimelines(deferrals.map(\.id)))
            return try await connection.query(statement)
        }
    }

    func run(_ batch: DeferralBatch) async {
        do {
            let rows = try await context.inParts(batch.deferrals, until: batch.leaseEnds) { deferrals in
                try await end(deferrals)
            }
            let held = Set(rows.map(\.id))
            context.statistics.count { counts in
                counts.fenced += batch.deferrals.count - rows.count
                for deferral in batch.deferrals where held.contains(deferral.id) {
                    if deferral.until == nil { counts.slept += 1 } else { counts.deferred += 1 }
                }
            }
            context.statistics.count(deferred: batch, held: held)
            context.meter.deferred(batch, held: held)
            context.decisions?.record(batch, held: held)
            // Something was asked for meanwhile that does not have to wait.
            if rows.contains(where: \.isDue) { context.signal.signal(.timelines) }
        } catch {
            guard !Task.isCancelled else { return }
            context.logger.error("deferred timelines are left to their lease", metadata: ["error": "\(error)"])
        }
        context.inFlight.drop(batch.timelines)
    }
}
