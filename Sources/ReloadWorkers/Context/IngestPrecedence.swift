import Synchronization

/// Limits claims while ingest of the same process applies a backlog of Kafka, so that a timeline with several requests in the
/// backlog is fetched once.
///
/// The limit holds for a few seconds: a backlog that does not shrink must not keep timelines from being fetched.
final class IngestPrecedence: Sendable {
    /// Timelines in work meanwhile: those of one request.
    static let room = 100
    /// Longest time for which claims are limited.
    static let limit = Duration.seconds(10)
    /// Time after a transaction of ingest until which the next one is expected.
    static let gap = Duration.seconds(2)

    private struct State {
        /// Time since which ingest has been behind.
        var since: Duration?
        var lastTransaction = Duration.zero
    }

    private let state = Mutex(State())

    /// Notes a transaction of ingest.
    ///
    /// - Returns: whether ingest has caught up by it.
    func ingestIsBehind(_ isBehind: Bool, at now: Duration) -> Bool {
        state.withLock { state in
            let wasBehind = state.since != nil
            state.since = isBehind ? state.since ?? now : nil
            state.lastTransaction = now
            return wasBehind && !isBehind
        }
    }

    /// Most timelines to hold; nil: no limit.
    func room(at now: Duration) -> Int? {
        state.withLock { state in
            guard let since = state.since, now < min(since + Self.limit, state.lastTransaction + Self.gap) else {
                return nil
            }
            return Self.room
        }
    }
}
