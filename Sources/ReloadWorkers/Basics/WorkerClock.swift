/// Time as a worker measures it: only spans, never a time of day, which is the database's to tell.
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

    /// `duration` give or take up to a fifth, so that processes do not do the same at the same time.
    static func jittered(_ duration: Duration) -> Duration {
        duration * Double.random(in: 0.8...1.2)
    }

    /// Runs `body`, but not longer than `limit`; answers nil when the time was up first. `body` is cancelled then, and
    /// waited for.
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
