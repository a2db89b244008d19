// SPDX-License-Identifier: Apache-2.0

import Synchronization
import TestSupport

/// A clock that only the test advances. Its sleeps last until the task is cancelled.
final class HandClock: Clock {
    typealias Instant = ContinuousClock.Instant

    private let time = Mutex(ContinuousClock.now)
    let minimumResolution = Duration.nanoseconds(1)

    var now: Instant { time.withLock { $0 } }

    func advance(by duration: Duration) { time.withLock { $0 += duration } }

    func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        try await Gate().pass()
    }
}
