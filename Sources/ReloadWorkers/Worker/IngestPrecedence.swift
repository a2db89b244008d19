import Synchronization

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

    private struct State {
        /// Start of the present pause.
        var since: Duration?
        /// Earliest start of the next pause.
        var next = Duration.zero
        var lastTransaction = Duration.zero
    }

    private let state = Mutex(State())

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
