import Logging
import PostgresClient
import WidgetModel
import WidgetStore

/// Gives people who have just placed a widget something to look at: one entry, fast, while the timeline is made.
///
/// The list is the single flight: however many widgets show the timeline, one worker asks once. A snapshot that fails is
/// counted and costs the timeline no more than ``SnapshotStep/limit(for:)``.
struct SnapshotRunner: Sendable {
    let context: WorkerContext

    func takeSnapshots(of batch: FetchBatch) async {
        let wanted = SnapshotStep.wanted(of: batch)
        let limit = wanted.lazy.map { SnapshotStep.limit(for: $0.kind) }.max() ?? .zero
        // The lease must still hold the timelines' own request.
        let left = batch.leaseEnds - context.clock.elapsed - context.output.longestPublish - batch.timeout
        guard !wanted.isEmpty, left >= limit,
            !context.restingEndpoints.isResting(.snapshot, of: batch.provider, at: context.clock.elapsed),
            context.protection.isWell(batch.provider, at: context.clock.elapsed)
        else { return }
        let began = context.clock.elapsed
        context.statistics.count { $0.snapshotRequests += 1 }
        do {
            let answer = try await context.fetcher.fetch(
                ProviderCall(
                    url: batch.provider.url, endpoint: .snapshot, secrets: batch.app.signingSecrets,
                    body: batch.requestBody(for: wanted), timeout: limit,
                    maximumResponseBytes: context.configuration.maximumResponseBytes))
            let writes = try snapshots(in: answer, of: wanted, batch)
            context.restingEndpoints.succeeded(.snapshot, of: batch.provider)
            guard !writes.isEmpty else { return }
            let stored = try await context.pool.query(SaveSnapshots(writes)).first ?? 0
            context.statistics.count { $0.snapshots += Int(stored) }
        } catch let failure as ProviderFailure {
            guard !Task.isCancelled else { return }
            context.restingEndpoints.failed(
                failure, .snapshot, of: batch.provider, at: context.clock.elapsed, absence: SnapshotStep.absence)
            context.protection.fallbackFailed(
                failure, of: batch.provider, app: batch.app.name, startedAt: began, at: context.clock.elapsed)
            count(failure, wanted.count, batch)
        } catch {
            guard !Task.isCancelled else { return }
            count(ProviderFailure(.storage, "\(error)"), wanted.count, batch)
        }
    }

    /// Snapshots of an answer; timelines without one are counted.
    ///
    /// - Throws: ``ProviderFailure`` for an answer that is wrong as a whole.
    private func snapshots(
        in answer: [UInt8], of wanted: [FetchItem], _ batch: FetchBatch
    ) throws(ProviderFailure) -> [SnapshotWrite] {
        let response: FallbackResponse
        do throws(JSONError) {
            response = try FallbackResponse.snapshots(answer, requested: wanted.map(\.timeline.id))
        } catch {
            throw ProviderFailure(.invalid, "the answer is not what the contract says: \(error)")
        }
        context.statistics.count { $0.foreign += response.foreignCount }
        var writes: [SnapshotWrite] = []
        for (item, outcome) in zip(wanted, response.outcomes) {
            if case .value(let entry) = outcome {
                writes.append(
                    SnapshotWrite(
                        row: item.timeline.row, token: item.token, entry: String(decoding: entry, as: UTF8.self)))
            } else if let failure = ProviderFailure(outcome) {
                count(failure, 1, batch)
            }
        }
        return writes
    }

    private func count(_ failure: ProviderFailure, _ timelines: Int, _ batch: FetchBatch) {
        context.statistics.count { $0.snapshotFailures[failure.reason, default: 0] += timelines }
        context.logger.debug(
            "no snapshots",
            metadata: [
                "app": "\(batch.app.name)", "count": "\(timelines)", "reason": "\(failure.reason)",
                "message": "\(failure.message)",
            ])
    }
}

extension ProviderFailure {
    /// The fault of one snapshot or placeholder of an answer; nil when it has none.
    init?(_ outcome: FallbackOutcome) {
        switch outcome {
        case .value: return nil
        case .failed(let code, let message): self.init(.provider, "\(code): \(message)")
        case .missing: self.init(.missing, "the answer leaves it out")
        case .duplicate: self.init(.duplicate, "the answer has it more than once")
        case .invalid(let error): self.init(.invalid, "\(error)")
        }
    }
}
