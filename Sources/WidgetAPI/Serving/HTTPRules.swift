import HTTPTypes
import JSON
import NIOCore
import NIOHTTP1
import NIOHTTPTypesHTTP1
import WidgetModel

/// Rules of HTTP/1.1 (RFC 9110 and 9112) that the codec leaves to applications.
///
/// - A response to `HEAD` has the head of the response to `GET`, and never a body.
/// - A request without exactly one `Host` is refused, and so is one that cannot be parsed or has a transfer coding
///   other than `chunked`, with a problem document.
/// - `100 Continue` is sent once a route reads the body, so that refused requests need not send one.
/// - The connection closes after a request of HTTP/1.0, or with `Connection: close` among other options.
final class HTTPRules: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    /// Outbound event of a route that reads a request's body.
    struct BodyWanted: Sendable {}

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

    // MARK: Requests

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            guard !isClosing else { return }
            if let problem = Self.problem(of: head) { return refuse(problem, context) }
            context.fireChannelRead(wrapInboundOut(.head(begin(head))))
        case .body:
            guard isReceiving else { return }
            changeLast { $0.awaitsContinue = false }
            context.fireChannelRead(data)
        case .end:
            guard isReceiving else { return }
            isReceiving = false
            context.fireChannelRead(data)
        }
    }

    /// Notes a request and returns the head that the server sees.
    private func begin(_ head: HTTPRequestHead) -> HTTPRequestHead {
        var head = head
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
        return head
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
        guard event is BodyWanted else { return context.triggerUserOutboundEvent(event, promise: promise) }
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
        case .end: end(exchange, data, context, promise)
        }
    }

    private func end(
        _ exchange: Exchange, _ data: NIOAny, _ context: ChannelHandlerContext, _ promise: EventLoopPromise<Void>?
    ) {
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
