import NIOCore
import NIOHTTP2

/// Combines the flushes of a connection's streams that come in one turn of its event loop.
///
/// AsyncHTTPClient flushes the head, the body and the end of each request. Without this handler, each flush is a system call.
final class FlushCoalescer: ChannelOutboundHandler {
    typealias OutboundIn = IOData
    typealias OutboundOut = IOData

    private var isScheduled = false

    /// Adds a coalescer between the TLS and HTTP/2 handlers of a connection, at once.
    ///
    /// AsyncHTTPClient calls this on the connection's event loop, before its pool knows that the connection is active. The future
    /// is complete on return, because the pool cannot handle a GOAWAY or a close before it knows.
    static func add(to connection: any Channel) -> EventLoopFuture<Void> {
        connection.eventLoop.makeCompletedFuture {
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
