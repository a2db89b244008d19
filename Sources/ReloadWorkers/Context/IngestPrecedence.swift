import Synchronization

/// Stops claims while ingest in the same process applies a backlog of Kafka, so that a timeline with several requests in the
/// backlog is fetched once. Claims go on when ingest has caught up, after ``limit``, or when ingest stands still for ``gap``.
final class IngestPrecedence: Sendable {
    /// Longest stop.
    static let limit = Duration.seconds(10)
    /// Longest time between two transactions of ingest under a backlog.
    static let gap = Duration.seconds(2)

    /// Least time for claims between two stops.
    static let pause = Duration.seconds(1)

    private struct State {
        /// Beginning of the stop.
        var since: Duration?
        /// Earliest beginning of the next stop.
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
                (state.since, state.next) = (nil, now + Self.pause)
                return true
            }
            if isBehind, now >= state.next { state.since = now }
            return false
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
