import Logging
import PostgresClient
import WidgetModel
import WidgetStore

/// Collects timelines that no widget shows: first the tombstones are published and acknowledged, then the rows go,
/// unless a widget shows the timeline again by then.
struct CollectionRunner: Sendable {
    let context: WorkerContext

    func run(_ batch: CollectionBatch) async {
        do {
            try await collect(batch)
        } catch {
            guard !Task.isCancelled else { return }
            context.logger.error("a collection is left to its lease", metadata: ["error": "\(error)"])
        }
        context.inFlight.drop(batch.timelines)
    }

    private func collect(_ batch: CollectionBatch) async throws {
        guard batch.leaseEnds - context.clock.elapsed > context.output.longestPublish else { return }
        let outcome = await context.output.publish(
            batch.timelines.map { context.messages.removed($0.id, revision: $0.claim) })
        try Task.checkCancellation()
        let buried = outcome.acknowledged.map { (id: batch.timelines[$0].id, claim: batch.timelines[$0].claim) }
        let kept = (outcome.failed + outcome.refused.map(\.index)).map { batch.timelines[$0] }
        try await release(kept, until: batch.leaseEnds)
        guard !buried.isEmpty else { return }

        let deleted = try await context.inParts(buried, until: batch.leaseEnds) { buried in
            var pipeline = PostgresPipeline()
            _ = pipeline.append(LockTimelines(buried.map(\.id)))
            let collected = pipeline.append(CollectTimelines(buried))
            let results = try await context.pool.transaction(pipeline)
            return [Int(results.rows(collected).first ?? 0)]
        }.reduce(0, +)
        context.statistics.count { $0.collected += deleted }
        guard deleted < buried.count else { return }
        // A widget shows them again, or another worker has them: their tombstones must not be the last word.
        context.signal.signal(.timelines)
        try await PublishedAnew(context: context).revive(buried.map(\.id), until: batch.leaseEnds)
    }

    private func release(_ timelines: [ClaimedTimeline], until deadline: Duration) async throws {
        guard !timelines.isEmpty else { return }
        let claims = timelines.map {
            EndedClaim(
                id: $0.id, claim: $0.claim, delay: context.configuration.publishRetryDelay, decision: .released)
        }
        context.statistics.count { counts in
            counts.released += claims.count
            counts.unpublished += claims.count
        }
        try await context.inParts(claims, until: deadline) { claims in
            _ = try await context.pool.execute(ReleaseTimelines(claims))
        }
    }
}
