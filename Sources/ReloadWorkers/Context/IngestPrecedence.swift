import Synchronization

/// Stops claims while ingest in the same process applies a backlog of Kafka, so that a timeline with several requests in the
/// backlog is fetched once. Claims go on after a few seconds, even if the backlog does not shrink.
final class IngestPrecedence: Sendable {
    /// Longest time without claims.
    static let limit = Duration.seconds(10)
    /// Longest time between two transactions of ingest under a backlog.
    static let gap = Duration.seconds(2)

    private struct State {
        /// Time since which ingest has been behind.
        var since: Duration?
        var lastTransaction = Duration.zero
    }

    private let state = Mutex(State())

    /// Notes a transaction of ingest, and returns whether ingest has caught up with it.
    func ingestIsBehind(_ isBehind: Bool, at now: Duration) -> Bool {
        state.withLock { state in
            let wasBehind = state.since != nil
            state.since = isBehind ? state.since ?? now : nil
            state.lastTransaction = now
            return wasBehind && !isBehind
        }
    }

    /// Whether claims wait for ingest.
    func holdsClaims(at now: Duration) -> Bool {
        state.withLock { state in
            guard let since = state.since else { return false }
            return now < min(since + Self.limit, state.lastTransaction + Self.gap)
        }
    }
}
