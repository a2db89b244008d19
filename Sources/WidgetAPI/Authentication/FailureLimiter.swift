import Synchronization

/// Bounds failed authentications by peer: memory is fixed and the work constant, whoever and however many they are.
///
/// Each peer has a place in each of two tables, by hashes that nobody outside knows. A failure fills both, time empties
/// them, and a peer is held up while both are full. So a peer among many cannot push its own count out, and who shares a
/// place with somebody who guesses is held up only if both of his are shared.
package final class FailureLimiter: Sendable {
    private struct Place {
        var level = 0.0
        var at = Duration.zero
    }

    private struct Tables {
        var places: [Place]
        let width: Int
    }

    private static let count = 2

    /// Failures a second that time forgets.
    private let rate: Double
    private let burst: Double
    private let now: @Sendable () -> Duration
    private let tables: Mutex<Tables>

    /// - Parameters:
    ///   - perMinute: failures of one peer, in the long run and at once.
    ///   - width: places in a table.
    ///   - now: a clock that never goes back.
    package init(
        perMinute: Int, width: Int = 8_192, now: @escaping @Sendable () -> Duration = RateLimiter.uptime()
    ) {
        burst = Double(max(1, perMinute))
        rate = burst / 60
        self.now = now
        let width = max(1, width)
        tables = Mutex(Tables(places: Array(repeating: Place(), count: width * Self.count), width: width))
    }

    /// How long a peer has to wait before a token of his is looked at; nil: not at all.
    func wait(_ peer: Peer) -> Duration? {
        let now = now()
        let level = tables.withLock { tables in
            hashes(of: peer, tables.width).map { remaining(tables.places[$0], now) }.min() ?? 0
        }
        let over = level + 1 - burst
        return over > 0 ? .seconds(over / rate) : nil
    }

    /// Notes that a token of the peer was refused.
    func failed(_ peer: Peer) {
        let now = now()
        tables.withLock { tables in
            let indices = hashes(of: peer, tables.width)
            // What is shared with others is not raised above what this peer can have done himself.
            let new = min(burst, (indices.map { remaining(tables.places[$0], now) }.min() ?? 0) + 1)
            for index in indices {
                tables.places[index] = Place(level: max(new, remaining(tables.places[index], now)), at: now)
            }
        }
    }

    private func remaining(_ place: Place, _ now: Duration) -> Double {
        max(0, place.level - rate * ((now - place.at) / .seconds(1)))
    }

    /// `Hasher` is seeded anew in every process.
    private func hashes(of peer: Peer, _ width: Int) -> [Int] {
        (0..<Self.count).map { table in
            var hasher = Hasher()
            hasher.combine(table)
            hasher.combine(peer)
            return table * width + Int(UInt(bitPattern: hasher.finalize()) % UInt(width))
        }
    }
}
