import HTTPTypes
import NIOCore
import NIOHTTP1
import NIOHTTPCompression
import NIOHTTPTypes
import NIOHTTPTypesHTTP1

/// Adds ``HTTPRules``, and compression of responses of a known length from ``leastLength`` bytes on for clients that
/// accept it. Streams have no known length, so they are sent as they are.
final class HTTPHandlers: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart

    /// Shortest body that is compressed, in bytes.
    static let leastLength = 1_024

    private let compressor = HTTPResponseCompressor { head, isSupported in
        guard isSupported, let length = head.headers.first(name: "content-length").flatMap({ Int($0) }),
            length >= leastLength
        else { return .doNotCompress }
        // The compressor would keep it if the head is flushed before the body.
        head.headers.remove(name: "content-length")
        return .compressIfPossible
    }

    func handlerAdded(context: ChannelHandlerContext) {
        // They handle NIOHTTP1's parts, so they are on the network's side of the codec.
        let pipeline = context.pipeline.syncOperations
        do {
            let codec = try pipeline.handler(type: HTTP1ToHTTPServerCodec.self)
            try pipeline.addHandlers([HTTPRules(), compressor], position: .before(codec))
        } catch {
            context.fireErrorCaught(error)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // The server answers a request that cannot be parsed. The compressor has not seen that request, and traps on a
        // response without one.
        context.pipeline.syncOperations.removeHandler(compressor, promise: nil)
        context.fireErrorCaught(error)
    }
}
