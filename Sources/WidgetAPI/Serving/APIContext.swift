import Hummingbird
import NIOCore

/// The context of a request: what Hummingbird keeps, and where it comes from.
struct APIContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    private let channel: any Channel

    init(source: ApplicationRequestContextSource) {
        coreContext = CoreRequestContextStorage(source: source)
        channel = source.channel
    }

    /// Who is at the other end of the connection: a proxy, where there is one. Nil for what is no network address.
    var peer: Peer? { channel.remoteAddress.flatMap(Peer.init) }
}

/// An address that failures are counted for: of IPv4 all of it, of IPv6 the network (64 bits), since whoever has one address
/// of it has all.
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
