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

    /// Varies a duration by up to a fifth, so that processes do not work in step.
    static func jittered(_ duration: Duration) -> Duration {
        duration * Double.random(in: 0.8...1.2)
    }

    /// Runs `body`, and cancels it at the time limit; returns nil in that case.
    func withLimit<Result: Sendable>(
        _ limit: Duration, _ body: @escaping @Sendable () async throws -> Result
    ) async throws -> Result? {
        try await withThrowingTaskGroup(of: Result?.self) { group in
            group.addTask { try await body() }
            group.addTask {
                try await clock.sleep(for: limit)
                return nil
            }
            defer { group.cancelAll() }
            return try await group.next() ?? nil
        }
    }
}
