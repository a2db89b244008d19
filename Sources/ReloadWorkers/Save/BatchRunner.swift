import KafkaClient
import Logging
import PostgresClient
import WidgetModel
import WidgetStore

/// Takes one batch from the claim to its end: snapshots of what is new → fetch → save → publish → complete, and what fails back to the database.
///
/// Each step looks at the claim in its own statement, so a worker that was stopped in between changes nothing any more.
/// What is cancelled in between keeps its lease, which the worker gives back when it stops.
struct BatchRunner: Sendable {
    let context: WorkerContext

    func run(_ batch: ReloadBatch) async {
        var batch = batch
        batch.traces = await context.traces.traces(of: batch.timelines, at: context.clock.elapsed)
        await takeSnapshots(of: batch)
        do {
            try await reload(batch)
            context.claimSize.ended(
                begun: batch.startedAt, isInTime: context.clock.elapsed < batch.leaseEnds, at: context.clock.elapsed)
        } catch {
            guard !Task.isCancelled else { return }
            if context.clock.elapsed >= batch.leaseEnds {
                context.claimSize.ended(begun: batch.startedAt, isInTime: false, at: context.clock.elapsed)
            }
            // The database is away, or refuses: the leases end by themselves, and the timelines are claimed again.
            context.logger.error(
                "a batch is left to its lease",
                metadata: ["kind": "\(batch.kind.definition.name)", "error": "\(error)"])
        }
        context.inFlight.drop(batch.timelines)
    }

    /// Part by part: what is tried again is asked for apart, and after what is not.
    private func reload(_ batch: ReloadBatch) async throws {
        // The slot is the claim loop's to take, so that it never plans with one twice.
        var holdsSlot = true
        func freeSlot() {
            guard holdsSlot else { return }
            holdsSlot = false
            context.inFlight.end(batch.provider, batch.lane)
        }
        defer { freeSlot() }
        var parts = batch.parts[...]
        var isFirst = true
        while let part = parts.popFirst() {
            let outcome = try await fetch(part, isFirst: isFirst)
            if parts.isEmpty { freeSlot() }
            try await settle(outcome, of: part)
            isFirst = false
        }
    }

    private func settle(_ outcome: FetchOutcome, of batch: ReloadBatch) async throws {
        context.statistics.count { counts in
            counts.fetched += outcome.fetched.count
            counts.foreign += outcome.foreign
        }
        context.statistics.count(fetched: outcome.fetched, of: batch)
        if outcome.foreign > 0 {
            context.logger.warning(
                "a provider answered for timelines that were not asked for",
                metadata: ["kind": "\(batch.kind.definition.name)", "count": "\(outcome.foreign)"])
        }
        try await fail(outcome.failed, of: batch)
        try await postpone(outcome.deferred, of: batch)
        guard Protection.saveBeforePublish.isOn else {
            try await publishBeforeSave(outcome.fetched, of: batch)
            return
        }
        let saved = try await save(outcome.fetched, of: batch)
        let published = try await publish(saved, of: batch)
        try await complete(published, of: batch)
    }

    /// The wrong order, for ``Protection``'s sake.
    private func publishBeforeSave(_ fetched: [FetchedTimeline], of batch: ReloadBatch) async throws {
        let unsaved = fetched.map {
            SavedTimeline(fetched: $0, isChanged: true, publishedHash: $0.timeline.publishedHash)
        }
        let published = try await publish(unsaved, of: batch)
        let held = Set(try await save(published.map(\.fetched), of: batch).map(\.fetched.timeline.id))
        try await complete(published.filter { held.contains($0.fetched.timeline.id) }, of: batch)
    }

    /// Ends the claims of what failed. The last good timelines and all requests stay.
    func fail(
        _ failed: [(timeline: ClaimedTimeline, failure: ProviderFailure)], of batch: ReloadBatch
    ) async throws {
        guard let first = failed.first else { return }
        let claims = failed.map { timeline, failure in
            var generator = SystemRandomNumberGenerator()
            let backoff = context.configuration.providerBackoff
                .delay(attempt: Int(timeline.attempts) + 1, using: &generator)
            let asked = min(failure.retryAfter ?? .zero, context.configuration.maximumRetryAfter)
            return EndedClaim(
                id: timeline.id, claim: timeline.claim, delay: max(backoff, asked), decision: .failed,
                rule: failure.rule, reason: timeline.reason ?? .policy, cause: timeline.cause,
                fetchTime: failure.fetchTime)
        }
        context.statistics.count { counts in
            for (_, failure) in failed { counts.failed[failure.reason, default: 0] += 1 }
        }
        context.statistics.count(.failed, failed.count, of: batch)
        context.logger.warning(
            "timelines failed",
            metadata: [
                "app": "\(batch.kind.app)", "kind": "\(batch.kind.definition.name)", "count": "\(failed.count)",
                "reason": "\(first.failure.reason)", "first": "\(first.failure.message)",
                "timeline": "\(first.timeline.id)",
            ].merging(batch.logMetadata) { $1 })
        try await context.inParts(claims, until: batch.leaseEnds) { claims in
            _ = try await context.pool.execute(FailTimelines(claims))
        }
        context.decisions?.record(claims, of: batch)
    }
}

extension InFlight {
    func drop(_ timelines: [ClaimedTimeline]) {
        drop(timelines.lazy.map { (id: $0.id, claim: $0.claim) })
    }
}
