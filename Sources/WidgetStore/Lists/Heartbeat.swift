import Synchronization

/// Sign of life of a loop, to distinguish a hanging loop from an idle one.
///
/// A wait for another system is not a hang: each attempt and each back-off beats.
package final class Heartbeat: Sendable {
    private enum State {
        /// Waits for something to do, however long that takes. → `busy`
        case resting
        /// At work since it beat last. → `resting`
        case busy(since: ContinuousClock.Instant)
    }

    private let state = Mutex(State.resting)
    private let now: @Sendable () -> ContinuousClock.Instant

    package init(now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) {
        self.now = now
    }

    /// Notes progress of the loop.
    package func beat() {
        let now = now()
        state.withLock { $0 = .busy(since: now) }
    }

    /// Notes that the loop is idle or has ended.
    package func rest() {
        state.withLock { $0 = .resting }
    }

    /// Time at work since the last beat; nil while the loop rests.
    package var silence: Duration? {
        state.withLock { state in
            switch state {
            case .resting: nil
            case .busy(let since): since.duration(to: now())
            }
        }
    }
}
