import Logging
import PostgresClient
import WidgetModel
import WidgetStore

/// Fetches one entry for newly placed widgets, quickly, before the timeline.
///
/// The lease on the list makes one worker request it once. A failed snapshot is counted and delays the timeline by at
/// most ``WidgetModel/KindDefinition/snapshotLimit(_:)``.
struct SnapshotRunner: Sendable {
    /// Pause for a provider without the endpoint.
    static let absence = Duration.seconds(600)

    let context: WorkerContext

    /// Timelines without a render at their first attempt, in the interactive lane of new placements.
    static func wanted(of batch: TimelineBatch) -> [TimelineJob] {
        batch.jobs.filter { job in
            job.claim.kind.definition.hasSnapshots && job.lane == .interactive && job.timeline.renderedAt == nil
                && job.timeline.attempts == 0
        }
    }

    func takeSnapshots(of batch: TimelineBatch) async {
        let wanted = Self.wanted(of: batch)
        let limit =
            wanted.lazy.map { $0.claim.kind.definition.snapshotLimit(context.configuration.snapshotLimit) }.max()
            ?? .zero
        // The lease must still hold the timelines' own request.
        let left = batch.leaseEnds - context.clock.elapsed - context.output.longestPublish - batch.jobs.timeout
        guard !wanted.isEmpty, left >= limit,
            !context.restingEndpoints.isResting(.snapshot, of: batch.provider, at: context.clock.elapsed),
            context.protection.isAvailable(batch.provider, at: context.clock.elapsed)
        else { return }
        context.statistics.count { $0.snapshotRequests += 1 }
        let call = ProviderCall(
            url: batch.provider.url, endpoint: .snapshot, secrets: batch.app.signingSecrets,
            body: wanted.requestBody, timeout: limit,
            maximumResponseBytes: context.configuration.maximumResponseBytes)
        do {
            let writes = try await context.askFallback(
                call, of: batch.provider, app: batch.app, absence: Self.absence
            ) { try snapshots(in: $0, of: wanted, batch) }
            guard !writes.isEmpty else { return }
            let stored = try await context.pool.query(Statements.saveSnapshots(writes)).first ?? 0
            context.statistics.count { $0.snapshots += Int(stored) }
        } catch {
            guard !Task.isCancelled else { return }
            count(error as? ProviderFailure ?? ProviderFailure(.storage, "\(error)"), wanted.count, batch)
        }
    }

    /// Snapshots of an answer. Failed ones are counted.
    private func snapshots(
        in answer: [UInt8], of wanted: [TimelineJob], _ batch: TimelineBatch
    ) throws(ProviderFailure) -> [SnapshotWrite] {
        let response = try FallbackResponse.parse { () throws(JSONError) in
            try FallbackResponse.snapshots(answer, requested: wanted.map(\.timeline.id))
        }
        context.statistics.count { $0.foreign += response.foreignCount }
        var writes: [SnapshotWrite] = []
        for (job, outcome) in zip(wanted, response.outcomes) {
            if case .value(let entry) = outcome {
                writes.append(
                    (
                        row: job.timeline.row, token: job.claim.token, entry: String(decoding: entry, as: UTF8.self)
                    ))
            } else if let failure = ProviderFailure(outcome) {
                count(failure, 1, batch)
            }
        }
        return writes
    }

    private func count(_ failure: ProviderFailure, _ timelines: Int, _ batch: TimelineBatch) {
        context.statistics.count { $0.snapshotFailures[failure.reason, default: 0] += timelines }
        context.logger.debug(
            "no snapshots",
            metadata: [
                "app": "\(batch.app.name)", "count": "\(timelines)", "reason": "\(failure.reason)",
                "message": "\(failure.message)",
            ])
    }
}
