import HTTPTypes
import Hummingbird
import HummingbirdCore
import NIOCore
import NIOHTTPTypes

/// How long connections may take.
package struct ConnectionTimes: Hashable, Sendable {
    /// Between requests; and for the head of a request, all of it, since the idle limit of the server counts no bytes that
    /// are not a head yet.
    package var idle: Duration
    /// For all of a request's body, however steadily it drips in.
    package var receive: Duration

    package init(idle: Duration = .seconds(75), receive: Duration = .seconds(30)) {
        self.idle = idle
        self.receive = receive
    }

    /// After this long the connection goes, whether somebody reads the body or not: a while after the answer 408.
    var close: Duration { receive + min(receive, .seconds(5)) }

    /// A server for HTTP/1.1 that keeps to them.
    var server: HTTPServerBuilder {
        let close = TimeAmount(close)
        return .http1(
            configuration: .init(
                additionalChannelHandlers: [ReceiveDeadline(after: close)], idleTimeout: TimeAmount(idle)))
    }
}

/// Closes a connection whose request has not arrived in time.
///
/// The routes answer a slow body with 408 by themselves. This is for bodies that nobody reads: of requests that were
/// answered before (401, say), and of those who do not go away after the answer. A timer is set only for a request of which
/// something is still missing when all that had come was read, so most never have one.
final class ReceiveDeadline: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart

    private let limit: TimeAmount
    private var isReceiving = false
    private var timer: Scheduled<Void>?

    init(after limit: TimeAmount) {
        self.limit = limit
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head: isReceiving = true
        case .body: break
        case .end:
            isReceiving = false
            timer?.cancel()
            timer = nil
        }
        context.fireChannelRead(data)
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if isReceiving, timer == nil {
            let channel = context.channel
            timer = context.eventLoop.scheduleTask(in: limit) { channel.close(promise: nil) }
        }
        context.fireChannelReadComplete()
    }

    func channelInactive(context: ChannelHandlerContext) {
        timer?.cancel()
        timer = nil
        context.fireChannelInactive()
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        timer?.cancel()
        timer = nil
    }
}
