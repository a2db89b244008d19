import Logging
import PostgresClient
import WidgetModel
import WidgetStore

/// Collects timelines that no widget shows: first the tombstones are published and acknowledged, then the rows go, unless a
/// widget shows the timeline again by then.
struct Collector: Sendable {
    let context: WorkerContext

    /// - Returns: the timelines, settled; lists with a row that was locked elsewhere go back.
    func collect(_ items: [CollectItem], until deadline: Duration) async throws -> [SettledTimeline] {
        var settled = items.map(\.settled)
        guard deadline - context.clock.elapsed > context.output.longestPublish else {
            return returned(settled, Array(settled.indices))
        }
        let outcome = await context.output.publish(
            items.map { context.messages.removed($0.timeline.id, revision: $0.timeline.contentRevision) })
        try Task.checkCancellation()
        let buried = outcome.acknowledged
        let kept = outcome.failed + outcome.refused.map(\.index)
        context.statistics.count { $0.unpublished += kept.count }
        settled = returned(settled, kept)
        guard !buried.isEmpty else { return settled }
        // A tombstone is what this process published last: if the row stays, the comparison publishes its content again.
        for place in buried {
            let item = items[place]
            settled[place].published = PublishedTimeline(
                row: item.timeline.row, id: item.timeline.id, revision: 0)
            settled[place].isStored = true
        }
        let orphans = buried.map { place in
            let timeline = items[place].timeline
            return (row: timeline.row, requested: timeline.state.requested)
        }
        let (locked, revived) = try await context.persistently(until: deadline) {
            try await context.pool.withTransaction { connection in
                let locked = Set(try await connection.query(.lockOrphans(orphans)))
                let revived = Set(try await connection.query(.collectTimelines(Array(locked))))
                return (locked, revived)
            }
        }
        context.statistics.count { $0.collected += locked.count - revived.count }
        // Rows that somebody else has locked, and rows that are shown again and must be published again.
        let again = buried.filter { place in
            let row = items[place].timeline.row
            return !locked.contains(row) || revived.contains(row)
        }
        if !revived.isEmpty { context.signal.signal(.timelines) }
        return returned(settled, again)
    }

    /// Has the lists go back: whoever claims them compares what was published with what is stored.
    private func returned(_ settled: [SettledTimeline], _ places: [Int]) -> [SettledTimeline] {
        var settled = settled
        for place in places { settled[place].returnDelay = context.configuration.publishRetryDelay }
        return settled
    }
}
