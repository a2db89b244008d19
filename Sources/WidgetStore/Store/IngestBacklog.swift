import Synchronization

/// Whether ingest in this process is applying a backlog, so that workers let it go first for a moment: of the events that
/// still wait, many are for timelines that are due already, and what is rendered before they are applied is rendered twice.
///
/// It holds the workers up once at the beginning of a backlog, and for a limited time: a backlog that lasts must not keep
/// everything from being rendered.
package final class IngestBacklog: Sendable {
    /// Events of a batch that say that there is a backlog: as they come in, batches are far smaller.
    package static let largeBatch = 1_000
    /// The longest that a backlog holds the workers up.
    package static let longestHold = Duration.seconds(2)
    /// The backlog is over when no large batch has come for so long.
    package static let quiet = Duration.milliseconds(200)

    private struct State {
        var began: ContinuousClock.Instant?
        var latest: ContinuousClock.Instant?
    }

    private let state = Mutex(State())

    package init() {}

    /// Ingest is about to apply so many events.
    package func applying(_ events: Int, at time: ContinuousClock.Instant = .now) {
        guard events >= Self.largeBatch else { return }
        state.withLock { state in
            let goesOn = state.latest.map { $0.duration(to: time) < Self.quiet } ?? false
            if !goesOn { state.began = time }
            state.latest = time
        }
    }

    /// Whether workers should wait.
    package func holds(at time: ContinuousClock.Instant = .now) -> Bool {
        state.withLock { state in
            guard let began = state.began, let latest = state.latest else { return false }
            return latest.duration(to: time) < Self.quiet && began.duration(to: time) < Self.longestHold
        }
    }
}
