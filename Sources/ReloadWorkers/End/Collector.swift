import Logging
import PostgresClient
import WidgetModel
import WidgetStore

/// Collects timelines that no widget shows: the rows get the revisions of their tombstones, the tombstones are
/// published and acknowledged, then the rows are deleted unless a widget shows the timeline again.
struct Collector: Sendable {
    let context: WorkerContext

    /// Collects timelines. Lists with a row that is locked elsewhere or shown again go back: their next holder compares
    /// the published content with the stored one.
    func collect(_ jobs: inout [TimelineJob]) async throws {
        guard !jobs.isEmpty else { return }
        let deadline = jobs.leaseEnds
        let orphans = try await context.persistently(until: deadline) {
            try await context.pool.query(.buryOrphans(jobs.map(\.timeline.row)))
        }
        var acknowledged: [TimelineRevision] = []
        var collected: Set<Int64> = []
        if deadline - context.clock.elapsed > context.output.longestPublish {
            let outcome = await context.output.publish(
                orphans.map { context.messages.removed($0.id, revision: $0.revision) })
            try Task.checkCancellation()
            acknowledged = outcome.acknowledged.map { orphans[$0] }
            context.metrics.unpublished.increment(by: orphans.count - acknowledged.count)
        }
        if !acknowledged.isEmpty {
            let buried = acknowledged
            let (locked, revived) = try await context.persistently(until: deadline) {
                try await context.pool.withTransaction { connection in
                    let locked = try await connection.query(.lockOrphans(buried))
                    return (locked, try await connection.query(.collectTimelines(locked)))
                }
            }
            collected = Set(locked).subtracting(revived)
            context.metrics.collected.increment(by: collected.count)
            if !revived.isEmpty { context.signal.signal(.timelines) }
        }
        let touched = Set(orphans.map(\.row))
        let published = Set(acknowledged.map(\.row))
        for index in jobs.indices {
            let row = jobs[index].timeline.row
            jobs[index].mayBeStored = touched.contains(row)
            // The tombstone is this process's last message for the timeline.
            if published.contains(row) { jobs[index].published = 0 }
            if !collected.contains(row) { jobs[index].returnDelay = context.configuration.publishRetryDelay }
        }
    }
}
