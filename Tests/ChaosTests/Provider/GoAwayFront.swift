// SPDX-License-Identifier: Apache-2.0

import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import NIOHTTP2
import NIOPosix
import NIOSSL
import SampleProvider
import Synchronization

/// A server of HTTP/2 over TLS in front of a provider, as many companies have one. It can end a connection with GOAWAY
/// after a number of requests, as nginx does with `keepalive_requests`: requests that arrive later on the connection
/// are not processed, and the earlier ones are answered.
final class GoAwayFront: Sendable {
    fileprivate struct Rules {
        var target = 0
        /// Requests of a connection before GOAWAY; nil for no limit.
        var limit: Int?
        var ended = 0
        var ignored = 0
    }

    private let channel: any Channel
    private let shared: Shared
    /// Certificate of the authority that clients must trust.
    let certificatePEM: String

    /// State that the connections share.
    fileprivate final class Shared: Sendable {
        let rules = Mutex(Rules())
    }

    var port: Int { channel.localAddress?.port ?? 0 }
    /// Numbers of connections that ended with GOAWAY, and of requests on them that were not processed.
    var counts: (ended: Int, ignored: Int) { shared.rules.withLock { ($0.ended, $0.ignored) } }

    private init(channel: any Channel, shared: Shared, certificatePEM: String) {
        (self.channel, self.shared, self.certificatePEM) = (channel, shared, certificatePEM)
    }

    static func start() async throws -> GoAwayFront {
        let certificate = try StandInCertificate()
        var tls = TLSConfiguration.makeServerConfiguration(
            certificateChain: [.certificate(certificate.certificate)], privateKey: .privateKey(certificate.key))
        tls.applicationProtocols = ["h2"]
        let context = try NIOSSLContext(configuration: tls)
        let shared = Shared()
        let client = HTTPClient.shared
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.backlog, value: 256)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    try pipeline.addHandler(NIOSSLServerHandler(context: context))
                    let connection = Connection()
                    _ = try pipeline.configureHTTP2Pipeline(
                        mode: .server, connectionConfiguration: .init(), streamConfiguration: .init()
                    ) { stream in
                        stream.eventLoop.makeCompletedFuture {
                            try stream.pipeline.syncOperations.addHandlers([
                                HTTP2FramePayloadToHTTP1ServerCodec(),
                                StreamForwarder(shared, connection, client),
                            ])
                        }
                    }
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        return GoAwayFront(channel: channel, shared: shared, certificatePEM: certificate.pem)
    }

    /// Sets the port on 127.0.0.1 that requests are forwarded to.
    func forward(to port: Int) { shared.rules.withLock { $0.target = port } }

    /// Ends connections after a number of requests; nil for never.
    func set(requestsPerConnection limit: Int?) { shared.rules.withLock { $0.limit = limit } }

    func stop() async throws { try await channel.close() }

    /// State of a connection, used on its event loop only.
    fileprivate final class Connection: @unchecked Sendable {
        var received = 0
        var open = 0
        /// Whether GOAWAY was sent.
        var isEnding = false
    }
}

/// Forwards the request of a stream, and sends GOAWAY if it is the connection's last.
private final class StreamForwarder: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    /// Time for which a connection without open requests stays after GOAWAY.
    private static let linger = TimeAmount.milliseconds(50)

    private let shared: GoAwayFront.Shared
    private let connection: GoAwayFront.Connection
    private let client: HTTPClient
    private var head: HTTPRequestHead?
    private var body = ByteBuffer()
    private var isIgnored = false

    init(_ shared: GoAwayFront.Shared, _ connection: GoAwayFront.Connection, _ client: HTTPClient) {
        (self.shared, self.connection, self.client) = (shared, connection, client)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            self.head = head
            begin(context)
        case .body(var part): body.writeBuffer(&part)
        case .end: if let head, !isIgnored { forward(head, context) }
        }
    }

    /// Counts the request, and ends the connection with it if its limit is reached.
    private func begin(_ context: ChannelHandlerContext) {
        guard !connection.isEnding else {
            isIgnored = true
            return shared.rules.withLock { $0.ignored += 1 }
        }
        connection.received += 1
        connection.open += 1
        guard let limit = shared.rules.withLock({ $0.limit }), connection.received >= limit,
            let stream = try? context.channel.syncOptions?.getOption(HTTP2StreamChannelOptions.streamID),
            let parent = context.channel.parent
        else { return }
        connection.isEnding = true
        shared.rules.withLock { $0.ended += 1 }
        let frame = HTTP2Frame(
            streamID: .rootStream, payload: .goAway(lastStreamID: stream, errorCode: .noError, opaqueData: nil))
        parent.writeAndFlush(frame, promise: nil)
    }

    private func forward(_ head: HTTPRequestHead, _ context: ChannelHandlerContext) {
        let port = shared.rules.withLock { $0.target }
        do {
            var headers = head.headers
            for name in ["host", "content-length", "transfer-encoding"] { headers.remove(name: name) }
            let request = try HTTPClient.Request(
                url: "http://127.0.0.1:\(port)\(head.uri)", method: head.method, headers: headers,
                body: .byteBuffer(body))
            let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
            client.execute(
                request: request, eventLoop: .delegate(on: context.eventLoop), deadline: .now() + .seconds(30)
            )
            .hop(to: context.eventLoop)
            .whenComplete { result in
                let (handler, context) = bound.value
                handler.finish(result, context)
            }
        } catch {
            finish(.failure(error), context)
        }
    }

    /// Answers as the provider did; a provider that broke off resets the stream.
    private func finish(_ result: Result<HTTPClient.Response, any Error>, _ context: ChannelHandlerContext) {
        defer { end(context) }
        guard context.channel.isActive else { return }
        switch result {
        case .failure: context.close(promise: nil)
        case .success(let response):
            var headers = response.headers
            for name in ["connection", "transfer-encoding", "keep-alive"] { headers.remove(name: name) }
            context.write(
                wrapOutboundOut(.head(HTTPResponseHead(version: .http2, status: response.status, headers: headers))),
                promise: nil)
            if let body = response.body { context.write(wrapOutboundOut(.body(.byteBuffer(body))), promise: nil) }
            context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
        }
    }

    private func end(_ context: ChannelHandlerContext) {
        connection.open -= 1
        guard connection.isEnding, connection.open == 0, let parent = context.channel.parent else { return }
        parent.eventLoop.scheduleTask(in: Self.linger) { parent.close(promise: nil) }
    }
}
