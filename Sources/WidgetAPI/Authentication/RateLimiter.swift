import Synchronization

/// Token buckets by bearer, app or address, in bounded memory: the least recently used ones are forgotten and become
/// full.
final class RateLimiter<Subject: Hashable & Sendable>: Sendable {
    private struct Bucket {
        var tokens: Double
        var at: ContinuousClock.Instant
    }

    /// Tokens per second in the long run, and at once.
    let rate: Double
    let burst: Double
    private let now: @Sendable () -> ContinuousClock.Instant
    private let buckets: Mutex<RecentlyUsed<Subject, Bucket>>

    /// - Parameter capacity: number of recent subjects to keep.
    init(
        rate: Double, burst: Int, capacity: Int = 10_000,
        now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }
    ) {
        self.rate = rate
        self.burst = Double(max(1, burst))
        self.now = now
        buckets = Mutex(RecentlyUsed(limit: max(1, capacity)))
    }

    /// Takes from the subject's bucket, or returns the time until the bucket holds `least`. More than the bucket holds
    /// may be taken, which later requests wait for.
    func take(_ subject: Subject, _ count: Int = 1, least: Int = 1) -> Duration? {
        let now = now()
        return buckets.withLock { buckets in
            var bucket = refilled(buckets[subject], now)
            let missing = Double(least) - bucket.tokens
            if missing <= 0 { bucket.tokens -= Double(count) }
            buckets[subject] = bucket
            return missing <= 0 ? nil : .seconds(missing / rate)
        }
    }

    /// Tokens in the subject's bucket, the time until it holds one, and the time until it is full.
    func state(_ subject: Subject) -> (remaining: Int, wait: Duration?, reset: Duration) {
        let now = now()
        let tokens = buckets.withLock { refilled($0.peek(subject), now).tokens }
        let wait = tokens < 1 ? Duration.seconds((1 - tokens) / rate) : nil
        return (max(0, Int(tokens)), wait, .seconds((burst - tokens) / rate))
    }

    private func refilled(_ bucket: Bucket?, _ now: ContinuousClock.Instant) -> Bucket {
        guard let bucket else { return Bucket(tokens: burst, at: now) }
        return Bucket(tokens: min(burst, bucket.tokens + rate * ((now - bucket.at) / .seconds(1))), at: now)
    }

    /// Number of buckets.
    var count: Int { buckets.withLock { $0.count } }
}
