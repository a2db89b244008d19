// SPDX-License-Identifier: Apache-2.0

import NIOCore
import Synchronization

/// Token buckets by bearer, app or address, in bounded memory: the least recently used ones are forgotten and become
/// full.
final class RateLimiter<Subject: Hashable & Sendable>: Sendable {
    private typealias Bucket = (tokens: Double, at: ContinuousClock.Instant)

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
        guard let bucket else { return (burst, now) }
        return (min(burst, bucket.tokens + rate * ((now - bucket.at) / .seconds(1))), now)
    }

    /// Number of buckets.
    var count: Int { buckets.withLock { $0.count } }
}

/// Values of recently used keys, in bounded memory: at least the last `limit` keys, and at most twice as many.
struct RecentlyUsed<Key: Hashable, Value> {
    let limit: Int
    private var young: [Key: Value] = [:]
    private var old: [Key: Value] = [:]

    init(limit: Int) { self.limit = limit }

    var count: Int { young.count + old.count }

    /// The value of a key, without a use of the key.
    func peek(_ key: Key) -> Value? { young[key] ?? old[key] }

    subscript(key: Key) -> Value? {
        mutating get {
            if let value = young[key] { return value }
            guard let value = old[key] else { return nil }
            self[key] = value
            return value
        }
        set {
            old[key] = nil
            if young.count >= limit, young[key] == nil {
                old = young
                young = [:]
            }
            young[key] = newValue
        }
    }
}

extension SocketAddress {
    /// Address that refused tokens are counted for: an IPv4 address, or the network (64 bits) of an IPv6 address, since
    /// one host usually has the whole network; nil for a socket of the local machine.
    var peer: [UInt8]? {
        let all = withSockAddr { address, size in Array(UnsafeRawBufferPointer(start: address, count: size)) }
        switch self {
        case .v4: return Array(all[4..<8])
        case .v6:
            let all = Array(all[8..<24])
            // A socket for both families sees an IPv4 peer as ::ffff:a.b.c.d.
            let isMapped = all.prefix(10).allSatisfy { $0 == 0 } && all[10] == 0xFF && all[11] == 0xFF
            return isMapped ? Array(all.suffix(4)) : Array(all.prefix(8))
        case .unixDomainSocket: return nil
        }
    }
}
