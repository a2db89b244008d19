import HTTPTypes
import Hummingbird
import HummingbirdCore
import Logging
import NIOCore
import NIOHTTPTypes

/// Time limits of connections.
package struct ConnectionTimes: Hashable, Sendable {
    /// Limit between requests, and for the whole head of a request.
    package var idle = Duration.seconds(75)
    /// Limit for the whole body of a request, however steadily it arrives.
    package var receive = Duration.seconds(30)

    /// Time after which a connection with an unread body is closed, later than the response 408.
    var close: Duration { receive + min(receive, .seconds(5)) }

    /// An HTTP/1.1 server with these limits.
    fileprivate var server: HTTPServerBuilder {
        let close = TimeAmount(close)
        return .http1(
            configuration: .init(
                additionalChannelHandlers: [HTTPHandlers(), ReceiveDeadline(after: close)],
                idleTimeout: TimeAmount(idle)))
    }
}

extension Application where Responder == RouterResponder<APIContext> {
    /// - Parameter onListening: called with the port once the server listens.
    init(
        serving router: Router<APIContext>, host: String, port: Int, times: ConnectionTimes, logger: Logger,
        onListening: @escaping @Sendable (Int) -> Void
    ) {
        // Hummingbird logs every request at info.
        var requestLogger = logger
        if requestLogger.logLevel < .notice { requestLogger.logLevel = .notice }
        self.init(
            router: router, server: times.server,
            configuration: ApplicationConfiguration(
                address: .hostname(ListeningHost.bindable(host), port: port), serverName: "freshet"),
            onServerRunning: { channel in
                if let port = channel.localAddress?.port { onListening(port) }
            },
            logger: requestLogger)
    }
}

/// Closes a connection whose request has not arrived in time.
///
/// Routes answer a slow body with 408. The deadline is for unread bodies, such as those of refused requests. Only a
/// request that is incomplete after a read gets a timer.
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
            cancel()
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
        cancel()
        context.fireChannelInactive()
    }

    func handlerRemoved(context: ChannelHandlerContext) { cancel() }

    private func cancel() {
        timer?.cancel()
        timer = nil
    }
}
