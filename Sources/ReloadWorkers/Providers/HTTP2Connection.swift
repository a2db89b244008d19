package import NIOCore
import NIOHTTP2

/// Additions to the connections of the HTTP client that speak HTTP/2.
package enum HTTP2Connection {
    /// Prepares a new connection: interprets the peer's resets of streams, and closes the connection after an error of the
    /// whole connection, such as too many resets.
    ///
    /// SwiftNIO answers such an error with GOAWAY and leaves the connection open. The HTTP client would send further
    /// requests on it, whose answers can get lost.
    package static func prepare(_ channel: any Channel) -> EventLoopFuture<Void> {
        StreamResetFilter.add(to: channel).flatMap {
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
