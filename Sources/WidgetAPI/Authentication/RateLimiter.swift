import Synchronization
package import WidgetModel

/// A token bucket for each bearer, in a table of bounded size.
///
/// When the table is full, full buckets are dropped, which changes nothing; if there are none, the least recently used one
/// is dropped.
package final class RateLimiter: Sendable {
    private struct Bucket {
        var tokens: Double
        var at: Duration
    }

    private let rate: Double
    private let burst: Double
    private let capacity: Int
    private let now: @Sendable () -> Duration
    private let buckets = Mutex<[ContentHash: Bucket]>([:])

    /// - Parameters:
    ///   - rate: requests per second in the long run.
    ///   - burst: requests at once.
    ///   - now: a monotonic clock.
    package init(
        rate: Int, burst: Int, capacity: Int = 10_000,
        now: @escaping @Sendable () -> Duration = RateLimiter.uptime()
    ) {
        self.rate = Double(max(1, rate))
        self.burst = Double(max(1, burst))
        self.capacity = max(1, capacity)
        self.now = now
    }

    /// A clock that begins now.
    package static func uptime() -> @Sendable () -> Duration {
        let start = ContinuousClock.now
        return { start.duration(to: .now) }
    }

    /// Takes one request from the bearer's bucket, or returns the time until it holds one.
    package func take(_ bearer: ContentHash) -> Duration? { take(bearer, 1, least: 1) }

    /// Takes more for a request that was let in, or returns the time until the bearer owes nothing. The bucket may hold less
    /// than is taken, however large it is: later requests wait until that has been made up for.
    package func takeMore(_ bearer: ContentHash, _ count: Int) -> Duration? { take(bearer, Double(count), least: 0) }

    private func take(_ bearer: ContentHash, _ count: Double, least: Double) -> Duration? {
        let now = now()
        return buckets.withLock { buckets in
            var bucket = buckets[bearer] ?? Bucket(tokens: burst, at: now)
            bucket.tokens = min(burst, bucket.tokens + rate * ((now - bucket.at) / .seconds(1)))
            bucket.at = now
            let wait: Duration? = bucket.tokens >= least ? nil : .seconds((least - bucket.tokens) / rate)
            if wait == nil { bucket.tokens -= count }
            if buckets.count >= capacity, buckets[bearer] == nil { makeRoom(&buckets, now) }
            buckets[bearer] = bucket
            return wait
        }
    }

    /// Number of buckets.
    package var count: Int { buckets.withLock { $0.count } }

    private func makeRoom(_ buckets: inout [ContentHash: Bucket], _ now: Duration) {
        buckets = buckets.filter { $0.value.tokens + rate * ((now - $0.value.at) / .seconds(1)) < burst }
        guard buckets.count >= capacity, let oldest = buckets.min(by: { $0.value.at < $1.value.at }) else { return }
        buckets[oldest.key] = nil
    }
}
