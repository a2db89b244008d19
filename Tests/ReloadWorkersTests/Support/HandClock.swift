// SPDX-License-Identifier: Apache-2.0

import Synchronization
import TestSupport

/// A clock that only the test advances. Its sleeps last until the task is cancelled.
final class HandClock: Clock {
    typealias Duration = Swift.Duration
    typealias Instant = ContinuousClock.Instant

    private let time = Mutex(ContinuousClock.now)
    private let onSleep: @Sendable (Duration) -> Void
    let minimumResolution = Duration.nanoseconds(1)

    /// - Parameter onSleep: called with the length of each sleep when it begins.
    init(onSleep: @escaping @Sendable (Duration) -> Void = { _ in }) {
        self.onSleep = onSleep
    }

    var now: Instant { time.withLock { $0 } }

    func advance(by duration: Duration) { time.withLock { $0 += duration } }

    func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        onSleep(now.duration(to: deadline))
        try await Gate().pass()
    }
}
