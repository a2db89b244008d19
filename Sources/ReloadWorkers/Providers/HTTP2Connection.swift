package import NIOCore
import NIOHTTP2

/// Additions to the connections of the HTTP client that speak HTTP/2.
package enum HTTP2Connection {
    /// Has a connection closed after an error of the whole connection, such as too many resets of streams by the peer.
    ///
    /// SwiftNIO answers such an error with GOAWAY and leaves the connection open. The HTTP client would send further
    /// requests on it, whose answers can get lost.
    package static func closeAfterErrors(_ channel: any Channel) -> EventLoopFuture<Void> {
        channel.eventLoop.flatSubmit {
            channel.eventLoop.makeCompletedFuture {
                try channel.pipeline.syncOperations.addHandler(ErrorHandler())
            }
        }
    }
}

private final class ErrorHandler: ChannelInboundHandler {
    typealias InboundIn = HTTP2Frame

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        switch error {
        case is NIOHTTP2Errors.ExcessiveRSTFrames, is NIOHTTP2Errors.ExcessiveControlFrames,
            is NIOHTTP2Errors.ExcessiveEmptyDataFrames, is NIOHTTP2Errors.ExcessiveContinuationFrames,
            is NIOHTTP2Errors.ExcessiveStreamErrors, is NIOHTTP2Errors.ExcessiveNumberOfGlitches,
            is NIOHTTP2Errors.ExcessivelyLargeHeaderBlock, is NIOHTTP2Errors.UnableToParseFrame,
            is NIOHTTP2Errors.IOOnClosedConnection:
            context.close(promise: nil)
        default: context.fireErrorCaught(error)
        }
    }
}
