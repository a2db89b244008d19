// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// Share of a configured batch size: halves when a batch took too long, and grows again in small steps.
///
/// It keeps the work of a slow database within the leases, and statements within their time limits.
final class AdaptiveBatchSize: Sendable {
    private static let least = 1.0 / 4096
    private static let growth = 1.0 / 16

    private let state = Mutex((share: 1.0, halvedAt: Duration?.none))

    var share: Double { state.withLock { $0.share } }

    /// The share of a configured number, at least one.
    func share(of configured: Int) -> Int { max(1, Int(Double(configured) * share)) }

    /// Notes the end of a batch.
    ///
    /// - Parameters:
    ///   - begun: begin of the batch; batches from before the latest halving are ignored.
    ///   - isInTime: whether the batch kept its time limit.
    func recordEnd(begun: Duration, isInTime: Bool, at now: Duration) {
        state.withLock { state in
            if let halvedAt = state.halvedAt, begun < halvedAt { return }
            if isInTime {
                // Doubles while it is small, so that one slow batch has no lasting effect.
                state.share = min(1, state.share + min(state.share, Self.growth))
            } else {
                state = (max(Self.least, state.share / 2), now)
            }
        }
    }
}

/// Pauses claims while ingest in the same process applies a backlog, so that a timeline with several requests in the
/// backlog is fetched once. Claims resume when ingest has caught up, after ``limit``, or after ``gap`` without a
/// transaction.
final class IngestPrecedence: Sendable {
    /// Longest pause of claims.
    static let limit = Duration.seconds(10)
    /// Longest time between two transactions of ingest under a backlog.
    static let gap = Duration.seconds(2)
    /// Least time between two pauses.
    static let respite = Duration.seconds(1)

    /// Start of the present pause, earliest start of the next one, and time of the latest transaction.
    private let state = Mutex((since: Duration?.none, next: Duration.zero, lastTransaction: Duration.zero))

    /// Notes a transaction of ingest, and returns whether ingest has caught up with it.
    func ingestIsBehind(_ isBehind: Bool, at now: Duration) -> Bool {
        state.withLock { state in
            state.lastTransaction = now
            guard state.since == nil else {
                guard !isBehind else { return false }
                (state.since, state.next) = (nil, now + Self.respite)
                return true
            }
            if isBehind, now >= state.next { state.since = now }
            return false
        }
    }

    /// Whether claims are paused.
    func holdsClaims(at now: Duration) -> Bool {
        state.withLock { state in
            guard let since = state.since else { return false }
            return now < min(since + Self.limit, state.lastTransaction + Self.gap)
        }
    }
}
