import NIOCore
import NIOHTTP2

/// Combines the flushes of a connection's streams that come in one turn of its event loop.
///
/// AsyncHTTPClient flushes the head, the body and the end of each request. Without this handler, each flush is a TLS record
/// and a system call.
final class FlushCoalescer: ChannelOutboundHandler {
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private var isScheduled = false

    /// Adds a coalescer between the TLS and HTTP/2 handlers of a connection.
    static func add(to connection: any Channel) -> EventLoopFuture<Void> {
        connection.eventLoop.submit {
            let pipeline = connection.pipeline.syncOperations
            let http2 = try pipeline.handler(type: NIOHTTP2Handler.self)
            try pipeline.addHandler(FlushCoalescer(), position: .before(http2))
        }
    }

    func flush(context: ChannelHandlerContext) {
        guard !isScheduled else { return }
        isScheduled = true
        context.eventLoop.assumeIsolated().execute {
            self.isScheduled = false
            context.flush()
        }
    }

    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        // Closing discards all writes that have not been flushed.
        context.flush()
        context.close(mode: mode, promise: promise)
    }
}
