import Synchronization
package import WidgetModel

/// A token bucket for each bearer or app, in a table of bounded size.
///
/// When the table is full, full buckets are dropped, which changes nothing; if there are none, the least recently used one
/// is dropped.
package final class RateLimiter: Sendable {
    private struct Bucket {
        var tokens: Double
        var at: Duration
    }

    /// Requests per second in the long run, and at once.
    let rate: Double
    let burst: Double
    private let capacity: Int
    private let now: @Sendable () -> Duration
    private let buckets = Mutex<[ContentHash: Bucket]>([:])

    /// - Parameters:
    ///   - rate: requests per second in the long run.
    ///   - burst: requests at once.
    ///   - now: a monotonic clock.
    package init(
        rate: Double, burst: Int, capacity: Int = 10_000,
        now: @escaping @Sendable () -> Duration = RateLimiter.uptime()
    ) {
        self.rate = rate
        self.burst = Double(max(1, burst))
        self.capacity = max(1, capacity)
        self.now = now
    }

    /// A clock that begins now.
    package static func uptime() -> @Sendable () -> Duration {
        let start = ContinuousClock.now
        return { start.duration(to: .now) }
    }

    /// Takes from the subject's bucket, or returns the time until it holds the least. It may hold less than is taken, however
    /// large it is: later requests wait until that has been made up for.
    package func take(_ subject: ContentHash, _ count: Int = 1, least: Int = 1) -> Duration? {
        let now = now()
        return buckets.withLock { buckets in
            var bucket = bucket(of: subject, buckets, now)
            let missing = Double(least) - bucket.tokens
            if missing <= 0 { bucket.tokens -= Double(count) }
            if buckets.count >= capacity, buckets[subject] == nil { makeRoom(&buckets, now) }
            buckets[subject] = bucket
            return missing <= 0 ? nil : .seconds(missing / rate)
        }
    }

    /// Tokens in the subject's bucket, and the time until it is full.
    func state(_ subject: ContentHash) -> (remaining: Int, reset: Duration) {
        let now = now()
        let tokens = buckets.withLock { bucket(of: subject, $0, now).tokens }
        return (max(0, Int(tokens)), .seconds((burst - tokens) / rate))
    }

    private func bucket(of subject: ContentHash, _ buckets: [ContentHash: Bucket], _ now: Duration) -> Bucket {
        guard let bucket = buckets[subject] else { return Bucket(tokens: burst, at: now) }
        return Bucket(tokens: min(burst, bucket.tokens + rate * ((now - bucket.at) / .seconds(1))), at: now)
    }

    /// Number of buckets.
    package var count: Int { buckets.withLock { $0.count } }

    private func makeRoom(_ buckets: inout [ContentHash: Bucket], _ now: Duration) {
        buckets = buckets.filter { $0.value.tokens + rate * ((now - $0.value.at) / .seconds(1)) < burst }
        guard buckets.count >= capacity, let oldest = buckets.min(by: { $0.value.at < $1.value.at }) else { return }
        buckets[oldest.key] = nil
    }
}
