import NIOCore

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
