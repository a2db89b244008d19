// SPDX-License-Identifier: Apache-2.0

import Foundation
import HTTPTypes
import Hummingbird
import HummingbirdCore
import JSON
import Logging
import NIOCore
import NIOHTTP1
import NIOHTTPCompression
import NIOHTTPTypes
import NIOHTTPTypesHTTP1
import WidgetModel

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
                additionalChannelHandlers: [HTTPHandlers(closingAfter: close)],
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
                address: .hostname(bindableHost(host), port: port), serverName: "freshet"),
            onServerRunning: { channel in
                if let port = channel.localAddress?.port { onListening(port) }
            },
            logger: requestLogger)
    }
}

/// Adds ``HTTPRules``, and compression of responses of a known length from ``leastLength`` bytes on for clients that
/// accept it. Streams have no known length, so they are sent as they are.
final class HTTPHandlers: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart

    /// Shortest body that is compressed, in bytes.
    static let leastLength = 1_024

    private let rules: HTTPRules
    private let compressor = HTTPResponseCompressor { head, isSupported in
        guard isSupported, let length = head.headers.first(name: "content-length").flatMap({ Int($0) }),
            length >= leastLength
        else { return .doNotCompress }
        // The compressor would keep it if the head is flushed before the body.
        head.headers.remove(name: "content-length")
        return .compressIfPossible
    }

    init(closingAfter limit: TimeAmount) { rules = HTTPRules(closingAfter: limit) }

    func handlerAdded(context: ChannelHandlerContext) {
        // They handle NIOHTTP1's parts, so they are on the network's side of the codec.
        let pipeline = context.pipeline.syncOperations
        do {
            let codec = try pipeline.handler(type: HTTP1ToHTTPServerCodec.self)
            try pipeline.addHandlers([rules, compressor], position: .before(codec))
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

/// Outbound event: a route reads the body of the first unanswered request, whose client may wait for 100 Continue.
struct BodyWanted: Sendable {}

/// Rules of HTTP/1.1 (RFC 9110 and 9112) that the codec leaves to applications.
///
/// - A response to `HEAD` has the head of the response to `GET`, and never a body.
/// - A request without exactly one `Host` is refused, and so is one that cannot be parsed or has a transfer coding
///   other than `chunked`, with a problem document.
/// - `100 Continue` is sent once a route reads the body, so that refused requests need not send one.
/// - The connection closes after a request of HTTP/1.0, or with `Connection: close` among other options.
/// - The connection closes if a request has not arrived in time. Routes answer a slow body with 408 before; this is for
///   unread bodies, such as those of refused requests. Only a request that is incomplete after a read gets a timer.
final class HTTPRules: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    /// A request that is not answered completely.
    private struct Exchange {
        let isHead: Bool
        /// Whether the request is of HTTP/1.0, so that the connection closes after the response.
        let isOld: Bool
        /// Whether the connection ends with the response.
        var isLast: Bool
        /// Whether the client waits for 100 Continue before it sends the body.
        var awaitsContinue: Bool
    }

    private var exchanges = CircularBuffer<Exchange>()
    /// Whether a request is arriving.
    private var isReceiving = false
    /// Whether no further request is accepted.
    private var isClosing = false
    /// Response to the request that ends the connection, to be sent after those of earlier requests.
    private var refusal: Problem?
    /// Limit for the arrival of a request.
    private let limit: TimeAmount
    private var timer: Scheduled<Void>?

    init(closingAfter limit: TimeAmount) { self.limit = limit }

    // MARK: Requests

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(var head):
            guard !isClosing else { return }
            if let problem = Self.problem(of: head) { return refuse(problem, context) }
            let isOld = head.version != .http1_1
            // The parser reads nothing after a request for an upgrade.
            let isLast = isOld || !head.isKeepAlive || head.headers.contains(name: "upgrade")
            exchanges.append(
                Exchange(
                    isHead: head.method == .HEAD, isOld: isOld, isLast: isLast,
                    awaitsContinue: !isOld && head.headers.contains(name: "expect")))
            isReceiving = true
            isClosing = isLast
            // The server compares the whole field.
            if isLast { head.headers.replaceOrAdd(name: "connection", value: "close") }
            // A compressed body would be chunked, which HTTP/1.0 does not support.
            if head.method == .HEAD || isOld { head.headers.remove(name: "accept-encoding") }
            context.fireChannelRead(wrapInboundOut(.head(head)))
        case .body:
            guard isReceiving else { return }
            changeLast { $0.awaitsContinue = false }
            context.fireChannelRead(data)
        case .end:
            guard isReceiving else { return }
            isReceiving = false
            cancelTimer()
            context.fireChannelRead(data)
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if isReceiving, timer == nil {
            let channel = context.channel
            timer = context.eventLoop.scheduleTask(in: limit) { channel.close(promise: nil) }
        }
        context.fireChannelReadComplete()
    }

    func channelInactive(context: ChannelHandlerContext) {
        cancelTimer()
        context.fireChannelInactive()
    }

    func handlerRemoved(context: ChannelHandlerContext) { cancelTimer() }

    private func cancelTimer() {
        timer?.cancel()
        timer = nil
    }

    private func changeLast(_ change: (inout Exchange) -> Void) {
        guard !exchanges.isEmpty else { return }
        change(&exchanges[exchanges.index(before: exchanges.endIndex)])
    }

    private static func problem(of head: HTTPRequestHead) -> Problem? {
        if head.version == .http1_1, head.headers["host"].count != 1 {
            return .badRequest("expected one Host header, found \(head.headers["host"].count)")
        }
        if head.method == .CONNECT { return .notImplemented("CONNECT") }
        // The parser accepts other codings before chunked; a proxy in front may find another end of the body.
        let codings = head.headers["transfer-encoding"]
        guard codings.isEmpty || head.version == .http1_1 && codings.map({ $0.lowercased() }) == ["chunked"] else {
            return .notImplemented("a transfer coding other than chunked in HTTP/1.1")
        }
        let expectations = head.headers[canonicalForm: "expect"]
        guard expectations.allSatisfy({ $0.lowercased() == "100-continue" }) else { return .expectationFailed }
        return nil
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        switch error {
        case let error as HTTPParserError:
            // A route that reads the body gets the error. If none does, the connection closes without a response.
            guard !isReceiving else {
                isClosing = true
                changeLast { $0.isLast = true }
                return context.fireErrorCaught(error)
            }
            // Nothing after the last request is read; its refusal may still wait for earlier responses.
            guard !isClosing else { return }
            refuse(Problem(error), context)
        case is ByteToMessageDecoderError where isClosing: break
        default: context.fireErrorCaught(error)
        }
    }

    private func refuse(_ problem: Problem, _ context: ChannelHandlerContext) {
        isClosing = true
        refusal = problem
        answerRefused(context)
    }

    /// Answers the refused request once all earlier ones are answered.
    private func answerRefused(_ context: ChannelHandlerContext) {
        guard exchanges.isEmpty, let problem = refusal else { return }
        refusal = nil
        let document = problem.document.encoded
        var headers = HTTPHeaders(problem.headers)
        headers.add(name: "content-type", value: Problem.contentType)
        headers.add(name: "content-length", value: "\(document.count)")
        headers.add(name: "connection", value: "close")
        let status = HTTPResponseStatus(statusCode: problem.status.code, reasonPhrase: problem.status.reasonPhrase)
        let head = HTTPResponseHead(version: .http1_1, status: status, headers: headers)
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: document)))), promise: nil)
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
        // The client closes its side when it has read the response; the idle limit does otherwise.
        context.close(mode: .output, promise: nil)
    }

    // MARK: Responses

    func triggerUserOutboundEvent(context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?) {
        guard event is BodyWanted else {
            return context.triggerUserOutboundEvent(event, promise: promise)
        }
        promise?.succeed()
        guard let exchange = exchanges.first, exchange.awaitsContinue else { return }
        exchanges[exchanges.startIndex].awaitsContinue = false
        context.writeAndFlush(
            wrapOutboundOut(.head(HTTPResponseHead(version: .http1_1, status: .continue))), promise: nil)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        // The server also answers a request that it could not read to its end.
        guard var exchange = exchanges.first else {
            promise?.succeed()
            return
        }
        switch unwrapOutboundIn(data) {
        case .head(var head):
            // An unread body may still follow.
            if exchange.awaitsContinue { exchange.isLast = true }
            exchanges[exchanges.startIndex] = exchange
            if exchange.isLast { head.headers.replaceOrAdd(name: "connection", value: "close") }
            if exchange.isOld { head.version = .http1_0 }
            context.write(wrapOutboundOut(.head(head)), promise: promise)
        case .body where exchange.isHead: promise?.succeed()
        case .body: context.write(data, promise: promise)
        case .end:
            // The end of a chunked body has bytes too.
            let last = exchange.isHead ? wrapOutboundOut(.body(.byteBuffer(ByteBuffer()))) : data
            exchanges.removeFirst()
            guard exchange.isLast else {
                context.write(last, promise: promise)
                return answerRefused(context)
            }
            isClosing = true
            context.writeAndFlush(last, promise: promise)
            context.close(mode: .output, promise: nil)
        }
    }
}

extension Problem {
    /// The response to a request that is not HTTP/1.1.
    fileprivate init(_ error: HTTPParserError) {
        switch error {
        case .headerOverflow: self = .headerTooLarge("the request line or the header fields are too long")
        case .invalidMethod: self = .notImplemented("this method")
        case .invalidVersion:
            self = Problem(
                .init(code: 505, reasonPhrase: "HTTP Version Not Supported"), "expected HTTP/1.1", title: "HTTP version"
            )
        default: self = .badRequest("the request is not HTTP/1.1: \(error)")
        }
    }
}

/// Whether this system has IPv6.
private var systemHasIPv6: Bool {
    #if os(Linux)
    FileManager.default.fileExists(atPath: "/proc/net/if_inet6")
    #else
    true
    #endif
}

/// The address to bind for a configured one. `::`, all addresses of IPv6 and IPv4, is `0.0.0.0` on a system without
/// IPv6, so that one configuration fits every system.
func bindableHost(_ host: String, hasIPv6: Bool? = nil) -> String {
    host == "::" && !(hasIPv6 ?? systemHasIPv6) ? "0.0.0.0" : host
}
