import Synchronization

/// Says that a loop of this process comes round, so that one that hangs can be told from one that has nothing to do.
///
/// What it waits for outside of the process must not count against it: each attempt and each back-off beats.
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

    /// The loop is at work, and has come this far.
    package func beat() {
        let now = now()
        state.withLock { $0 = .busy(since: now) }
    }

    /// The loop waits for something to do, or has ended.
    package func rest() {
        state.withLock { $0 = .resting }
    }

    /// How long it has been at work without a beat; nil while it rests.
    package var silence: Duration? {
        state.withLock { state in
            switch state {
            case .resting: nil
            case .busy(let since): since.duration(to: now())
            }
        }
    }
}
