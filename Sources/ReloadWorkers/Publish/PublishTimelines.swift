// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import Logging
import PostgresClient
import Waiting
import WidgetEvents
import WidgetModel
import WidgetStore

/// Publishes changed content after its store.
extension WorkerContext {
    /// Publishes changed timelines and waits for the acknowledgements, and sets ``TimelineJob/published``. The lists of
    /// unacknowledged messages go back, and their next holder publishes the stored content.
    func publish(_ batch: inout TimelineBatch) async {
        let changed = batch.jobs.indices.filter { batch.jobs[$0].written != nil && batch.jobs[$0].content != nil }
        guard !changed.isEmpty else { return }
        let deadline = changed.map { batch.jobs[$0].claim.leaseEnds }.min() ?? .zero
        guard deadline - clock.elapsed > output.longestPublish else {
            // An acknowledgement could come after the lease, when another process may have published.
            return giveBack(changed, of: &batch)
        }
        var messages = messages
        let outcome = await output.publish(
            changed.map { index in
                let (timeline, claim) = (batch.jobs[index].timeline, batch.jobs[index].claim)
                return messages.updated(
                    timeline, of: claim.kind, revision: claim.token, content: batch.jobs[index].content ?? [],
                    headers: TraceHeaders.headers(of: timeline, in: batch.traces))
            })
        for place in outcome.acknowledged + outcome.refused.map(\.index) {
            batch.jobs[changed[place]].published = batch.jobs[changed[place]].claim.token
        }
        for place in outcome.acknowledged {
            kinds.count(kind: batch.jobs[changed[place]].claim.kind.id) { $0.messagesPublished += 1 }
        }
        for (place, error) in outcome.refused {
            logger.error(
                "Kafka refuses a timeline for its size; it is stored and not published",
                metadata: ["timeline": "\(batch.jobs[changed[place]].timeline.id)", "error": "\(error)"])
        }
        metrics.published.increment(by: outcome.acknowledged.count)
        metrics.unpublished.increment(by: outcome.failed.count + outcome.refused.count)
        giveBack(outcome.failed.map { changed[$0] }, of: &batch)
    }

    private func giveBack(_ unpublished: [Int], of batch: inout TimelineBatch) {
        guard !unpublished.isEmpty else { return }
        logger.warning("timelines could not be published", metadata: ["count": "\(unpublished.count)"])
        for index in unpublished { batch.jobs[index].returnDelay = configuration.publishRetryDelay }
    }
}

/// Collects timelines that no widget shows: the rows get the revisions of their tombstones, the tombstones are
/// published and acknowledged, then the rows are deleted unless a widget shows the timeline again.
extension WorkerContext {
    /// Collects timelines. Lists with a row that is locked elsewhere or shown again go back: their next holder compares
    /// the published content with the stored one.
    func collect(_ jobs: inout [TimelineJob]) async throws {
        guard !jobs.isEmpty else { return }
        let deadline = jobs.leaseEnds
        let orphans = try await persistently(until: deadline) {
            try await pool.query(.buryOrphans(jobs.map(\.timeline.row)))
        }
        var acknowledged: [TimelineRevision] = []
        var collected: Set<Int64> = []
        if deadline - clock.elapsed > output.longestPublish {
            let outcome = await output.publish(
                orphans.map { removedMessage($0.id, revision: $0.revision) })
            try Task.checkCancellation()
            acknowledged = outcome.acknowledged.map { orphans[$0] }
            metrics.unpublished.increment(by: orphans.count - acknowledged.count)
        }
        if !acknowledged.isEmpty {
            let buried = acknowledged
            let (locked, revived) = try await persistently(until: deadline) {
                try await pool.withTransaction { connection in
                    let locked = try await connection.query(.lockOrphans(buried))
                    return (locked, try await connection.query(.collectTimelines(locked)))
                }
            }
            collected = Set(locked).subtracting(revived)
            metrics.collected.increment(by: collected.count)
            if !revived.isEmpty { signals.timelines.signal() }
        }
        let touched = Set(orphans.map(\.row))
        let published = Set(acknowledged.map(\.row))
        for index in jobs.indices {
            let row = jobs[index].timeline.row
            jobs[index].mayBeStored = touched.contains(row)
            // The tombstone is this process's last message for the timeline.
            if published.contains(row) { jobs[index].published = 0 }
            if !collected.contains(row) { jobs[index].returnDelay = configuration.publishRetryDelay }
        }
    }
}

extension WorkerContext {
    /// Tombstone of a timeline that no widget shows.
    func removedMessage(_ id: TimelineID, revision: Int64) -> KafkaMessage {
        messages.removed(id, revision: revision)
    }
}
