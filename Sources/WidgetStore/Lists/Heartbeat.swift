import Synchronization

/// Sign of life of a loop, to distinguish a hanging loop from an idle one.
///
/// A wait for another system is not a hang: each attempt and each back-off beats.
package final class Heartbeat: Sendable {
    /// Last beat of a loop that is at work; nil while it waits for something to do, however long that takes.
    private let busySince = Mutex<ContinuousClock.Instant?>(nil)
    private let now: @Sendable () -> ContinuousClock.Instant

    package init(now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) {
        self.now = now
    }

    /// Notes progress of the loop.
    package func beat() {
        let now = now()
        busySince.withLock { $0 = now }
    }

    /// Notes that the loop is idle or has ended.
    package func rest() {
        busySince.withLock { $0 = nil }
    }

    /// Time at work since the last beat; nil while the loop rests.
    package var silence: Duration? {
        busySince.withLock { $0 }?.duration(to: now())
    }
}
