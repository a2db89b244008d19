// SPDX-License-Identifier: Apache-2.0

/// Clock for a worker's time spans. Times of day come only from the database.
struct WorkerClock: Sendable {
    let clock: any Clock<Duration>
    private let stopwatch: @Sendable () -> Duration

    init(_ clock: any Clock<Duration> = ContinuousClock()) {
        self.clock = clock
        stopwatch = Self.stopwatch(of: clock)
    }

    private static func stopwatch(of clock: some Clock<Duration>) -> @Sendable () -> Duration {
        let start = clock.now
        return { start.duration(to: clock.now) }
    }

    /// Time since the clock was made.
    var elapsed: Duration { stopwatch() }

    func sleep(for duration: Duration) async throws {
        try await clock.sleep(for: duration)
    }
}
