import Logging
import PostgresClient
import WidgetModel
import WidgetStore

/// A fetched timeline whose content is the stored one.
struct SavedTimeline: Sendable {
    let fetched: FetchedTimeline
    /// Whether the stored content changed just now.
    let isChanged: Bool
    /// What was last published, as the save found it.
    let publishedHash: ContentHash?
    /// Whether it was published under this claim.
    var isPublished = false

    /// The visible-change gate: equal content costs no message, unless it is not what was last published.
    var needsPublishing: Bool { isChanged || publishedHash != fetched.hash }
}

extension FetchedTimeline {
    fileprivate var write: ContentWrite {
        ContentWrite(
            id: timeline.id, claim: timeline.claim, hash: hash, content: String(decoding: content, as: UTF8.self),
            tid: timeline.tid)
    }
}

extension BatchRunner {
    /// Stores what differs from the stored content, where the claim still holds.
    ///
    /// - Returns: those whose claim held.
    func save(_ fetched: [FetchedTimeline], of batch: ReloadBatch) async throws -> [SavedTimeline] {
        guard !fetched.isEmpty else { return [] }
        var rows: [SaveContent.Row]
        do {
            rows = try await context.merged(context.saves(of: batch.lane), fetched, until: batch.leaseEnds) { fetched in
                try await context.pool.query(SaveContentInPlace(fetched.map(\.write)))
            }
            if rows.count < fetched.count {
                let found = Set(rows.map(\.id))
                let missed = fetched.filter { !found.contains($0.timeline.id) }
                rows += try await context.inParts(missed, until: batch.leaseEnds) { missed in
                    try await context.pool.query(SaveContent(missed.map(\.write)))
                }
            }
        } catch let error as PostgresError where error.blamesData {
            return try await saveRefused(fetched, error, of: batch)
        }
        let found = Dictionary(rows.map { ($0.id, $0) }, uniquingKeysWith: { first, _ in first })
        let saved = fetched.compactMap { fetched in
            found[fetched.timeline.id].map {
                SavedTimeline(fetched: fetched, isChanged: $0.isChanged, publishedHash: $0.publishedHash)
            }
        }
        context.statistics.count { counts in
            counts.stored += saved.count(where: \.isChanged)
            counts.unchanged += saved.count { !$0.needsPublishing }
            counts.fenced += fetched.count - saved.count
        }
        context.statistics.count(saved: saved, of: batch)
        context.meter.stored(saved, of: batch, at: context.clock.elapsed)
        if let onStored = context.onStored {
            for saved in saved where saved.isChanged {
                onStored(saved.fetched.timeline.id, saved.fetched.timeline.cause)
            }
        }
        return saved
    }

    /// The database refuses something that the provider gave. Halving finds what; the same again would be refused again,
    /// so that backs off. The others are stored.
    private func saveRefused(
        _ fetched: [FetchedTimeline], _ error: PostgresError, of batch: ReloadBatch
    ) async throws -> [SavedTimeline] {
        guard fetched.count > 1 else {
            try await fail(fetched.map { ($0.timeline, ProviderFailure(.storage, "\(error)")) }, of: batch)
            return []
        }
        let middle = fetched.count / 2
        let first = try await save(Array(fetched[..<middle]), of: batch)
        return try await first + save(Array(fetched[middle...]), of: batch)
    }

    /// Publishes what is not what was last published, and gives back what could not be.
    ///
    /// - Returns: those that are to be completed.
    func publish(_ saved: [SavedTimeline], of batch: ReloadBatch) async throws -> [SavedTimeline] {
        var saved = saved
        let indices = saved.indices.filter { saved[$0].needsPublishing }
        guard !indices.isEmpty else { return saved }
        guard batch.leaseEnds - context.clock.elapsed > context.output.longestPublish else {
            // An acknowledgement could come after the lease, when somebody else may have published already.
            try await release(indices.map { saved[$0] }, of: batch)
            return saved.filter { !$0.needsPublishing }
        }
        let outcome = await context.output.publish(
            indices.map { index in
                let fetched = saved[index].fetched
                return context.messages.updated(
                    fetched.timeline, of: batch.kind, content: fetched.content,
                    headers: batch.traceHeaders(of: fetched.timeline))
            })
        for index in outcome.acknowledged { saved[indices[index]].isPublished = true }
        context.statistics.count { counts in
            counts.published += outcome.acknowledged.count
            counts.unpublished += outcome.failed.count + outcome.refused.count
        }
        context.statistics.count(kind: batch.kind.id) { $0.messagesPublished += outcome.acknowledged.count }
        let refused = outcome.refused.map { index, error in
            (saved[indices[index]].fetched.timeline, ProviderFailure(.storage, "\(error)"))
        }
        try await fail(refused, of: batch)
        try await release(outcome.failed.map { saved[indices[$0]] }, of: batch)
        return saved.filter { $0.isPublished || !$0.needsPublishing }
    }

    /// Gives back what is stored but not published: it is fetched again shortly, and published then.
    private func release(_ unpublished: [SavedTimeline], of batch: ReloadBatch) async throws {
        guard !unpublished.isEmpty else { return }
        context.logger.warning(
            "timelines could not be published",
            metadata: ["kind": "\(batch.kind.definition.name)", "count": "\(unpublished.count)"])
        let claims = unpublished.map { saved in
            EndedClaim(
                id: saved.fetched.timeline.id, claim: saved.fetched.timeline.claim,
                delay: context.configuration.publishRetryDelay, decision: .released, rule: .output,
                reason: saved.fetched.timeline.reason ?? .policy, cause: saved.fetched.timeline.cause)
        }
        context.statistics.count { $0.released += claims.count }
        context.statistics.count(.released, claims.count, of: batch)
        try await context.inParts(claims, until: batch.leaseEnds) { claims in
            _ = try await context.pool.execute(ReleaseTimelines(claims))
        }
        context.decisions?.record(claims, of: batch)
    }
}
