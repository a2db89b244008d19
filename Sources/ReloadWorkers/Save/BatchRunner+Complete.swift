import Logging
import PostgresClient
import WidgetModel
import WidgetStore

extension BatchRunner {
    /// Ends the claims of what is stored and published, with the policy's next time.
    func complete(_ saved: [SavedTimeline], of batch: ReloadBatch) async throws {
        guard !saved.isEmpty else { return }
        let rule = CompletionRule(batch: batch, sinceClaim: context.clock.elapsed - batch.startedAt)
        let completions = saved.map { saved in
            rule.completion(
                of: saved.fetched, publishedHash: saved.isPublished ? saved.fetched.hash : nil,
                isChanged: saved.needsPublishing || saved.isPublished)
        }
        var rows = try await context.merged(context.completions, completions, until: batch.leaseEnds) { completions in
            try await context.pool.query(CompleteTimelinesInPlace(completions))
        }
        if rows.count < completions.count {
            let found = Set(rows.map(\.id))
            let missed = completions.filter { !found.contains($0.id) }
            rows += try await context.inParts(missed, until: batch.leaseEnds) { missed in
                try await context.pool.query(CompleteTimelines(missed))
            }
        }
        context.statistics.count { counts in
            counts.completed += rows.count
            counts.fenced += saved.count - rows.count
        }
        context.statistics.count(completed: completions, held: rows, of: batch)
        context.decisions?.record(completions, held: rows, of: batch)
        // More was requested meanwhile: no need to wait for the poll.
        if rows.contains(where: \.isDue) { context.signal.signal(.timelines) }
        guard rows.count < saved.count else { return }
        let held = Set(rows.map(\.id))
        let lost = saved.filter { $0.isPublished && !held.contains($0.fetched.timeline.id) }
        try await PublishedAnew(context: context)
            .settle(lost.map { ($0.fetched.timeline.id, $0.fetched.timeline.claim) }, until: batch.leaseEnds)
    }
}

/// Repairs what is published after messages went out whose claims were gone by then: the last message may be older than
/// what is stored, or belong to a timeline that does not exist any more.
struct PublishedAnew: Sendable {
    let context: WorkerContext

    /// Makes what exists due, to be published again with a higher revision, and buries what does not.
    func settle(_ timelines: [(id: TimelineID, claim: Int64)], until deadline: Duration) async throws {
        guard !timelines.isEmpty else { return }
        context.logger.notice(
            "published after the claim had moved on; publishing anew", metadata: ["count": "\(timelines.count)"])
        let existing = try await forget(timelines.map(\.id), until: deadline)
        let gone = timelines.filter { !existing.contains($0.id) }
        guard !gone.isEmpty else { return }
        let outcome = await context.output.publish(gone.map { context.messages.removed($0.id, revision: $0.claim) })
        if outcome.acknowledged.count < gone.count {
            context.logger.error(
                "tombstones of collected timelines could not be published",
                metadata: ["count": "\(gone.count - outcome.acknowledged.count)"])
        }
        // One that was placed again since may have been published before its tombstone.
        _ = try await forget(gone.map(\.id), until: deadline)
    }

    /// Makes what exists due after its tombstone was published; what does not exist is rightly buried.
    func revive(_ ids: [TimelineID], until deadline: Duration) async throws {
        _ = try await forget(ids, until: deadline)
    }

    private func forget(_ ids: [TimelineID], until deadline: Duration) async throws -> Set<TimelineID> {
        let existing = try await context.inParts(ids, until: deadline) { ids in
            try await context.pool.query(RepublishTimelines(ids))
        }
        if !existing.isEmpty { context.signal.signal(.timelines) }
        return Set(existing)
    }
}
