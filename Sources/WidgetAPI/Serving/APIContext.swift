import Hummingbird
import NIOCore

/// The context of a request: Hummingbird's storage and the address of the client.
struct APIContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    private let channel: any Channel

    init(source: ApplicationRequestContextSource) {
        coreContext = CoreRequestContextStorage(source: source)
        channel = source.channel
    }

    /// Has a client that waits for 100 Continue send the body.
    func wantBody() {
        channel.triggerUserOutboundEvent(HTTPRules.BodyWanted(), promise: nil)
    }

    /// Address of the client or its proxy; nil if it is no network address.
    var peer: Peer? { channel.remoteAddress.flatMap(Peer.init) }
}
