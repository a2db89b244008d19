import NIOCore
import Synchronization

/// Limits failed authentications per peer, in constant memory and time.
///
/// Each peer has a place in each of two tables, by hashes with a secret seed. A failure fills both places, time empties
/// them, and a peer waits while both are full. So peers hold each other up only if they share both places.
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

    /// Failures forgotten per second.
    private let rate: Double
    private let burst: Double
    private let now: @Sendable () -> Duration
    private let tables: Mutex<Tables>

    /// - Parameters:
    ///   - perMinute: failures of one peer per minute, and at once.
    ///   - width: places in a table.
    ///   - now: a monotonic clock.
    package init(perMinute: Int, width: Int = 8_192, now: @escaping @Sendable () -> Duration = RateLimiter.uptime()) {
        burst = Double(max(1, perMinute))
        rate = burst / 60
        self.now = now
        let width = max(1, width)
        tables = Mutex(Tables(places: Array(repeating: Place(), count: width * Self.count), width: width))
    }

    /// Time until a token of the peer is verified again; nil for none.
    func wait(_ peer: Peer) -> Duration? {
        let now = now()
        let level = tables.withLock { tables in
            hashes(of: peer, tables.width).map { remaining(tables.places[$0], now) }.min() ?? 0
        }
        let over = level + 1 - burst
        return over > 0 ? .seconds(over / rate) : nil
    }

    /// Counts a refused token of the peer.
    func failed(_ peer: Peer) {
        let now = now()
        tables.withLock { tables in
            let indices = hashes(of: peer, tables.width)
            // A place shared with others is not raised above the peer's own level.
            let new = min(burst, (indices.map { remaining(tables.places[$0], now) }.min() ?? 0) + 1)
            for index in indices {
                tables.places[index] = Place(level: max(new, remaining(tables.places[index], now)), at: now)
            }
        }
    }

    private func remaining(_ place: Place, _ now: Duration) -> Double {
        max(0, place.level - rate * ((now - place.at) / .seconds(1)))
    }

    /// Indices of the peer's places. `Hasher` has a new seed in every process.
    private func hashes(of peer: Peer, _ width: Int) -> [Int] {
        (0..<Self.count).map { table in
            var hasher = Hasher()
            hasher.combine(table)
            hasher.combine(peer)
            return table * width + Int(UInt(bitPattern: hasher.finalize()) % UInt(width))
        }
    }
}

/// Address that refused tokens are counted for: all of an IPv4 address, the network (64 bits) of an IPv6 address, since one
/// host usually has the whole network.
struct Peer: Hashable, Sendable {
    let bytes: [UInt8]

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
    }

    init?(_ address: SocketAddress) {
        let all = address.withSockAddr { address, size in Array(UnsafeRawBufferPointer(start: address, count: size)) }
        switch address {
        case .v4: bytes = Array(all[4..<8])
        case .v6:
            let all = Array(all[8..<24])
            // ::ffff:a.b.c.d is what an IPv4 peer of a socket for both looks like.
            let isMapped = all.prefix(10).allSatisfy { $0 == 0 } && all[10] == 0xFF && all[11] == 0xFF
            bytes = isMapped ? Array(all.suffix(4)) : Array(all.prefix(8))
        case .unixDomainSocket: return nil
        }
    }
}
