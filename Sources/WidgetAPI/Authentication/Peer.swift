import NIOCore

/// Address that refused tokens are counted for: an IPv4 address, or the network (64 bits) of an IPv6 address, since one
/// host usually has the whole network.
struct Peer: Hashable, Sendable {
    let bytes: [UInt8]
}

extension Peer {
    /// The peer at a network address; nil for a socket of the local machine.
    init?(_ address: SocketAddress) {
        let all = address.withSockAddr { address, size in Array(UnsafeRawBufferPointer(start: address, count: size)) }
        switch address {
        case .v4: self.init(bytes: Array(all[4..<8]))
        case .v6:
            let all = Array(all[8..<24])
            // A socket for both families sees an IPv4 peer as ::ffff:a.b.c.d.
            let isMapped = all.prefix(10).allSatisfy { $0 == 0 } && all[10] == 0xFF && all[11] == 0xFF
            self.init(bytes: isMapped ? Array(all.suffix(4)) : Array(all.prefix(8)))
        case .unixDomainSocket: return nil
        }
    }
}
