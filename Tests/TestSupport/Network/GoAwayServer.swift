// SPDX-License-Identifier: Apache-2.0

import NIOCore
import NIOHTTP1
import NIOHTTP2
import NIOPosix
import NIOSSL
import Synchronization

/// An HTTP/2 server that ends each connection after a number of requests, as proxies do.
///
/// It answers the first requests of a connection. The next one makes it send GOAWAY, which names the last request that
/// it has taken; that one and later ones get no answer. `TestCertificates.authority` signed its certificate.
package final class GoAwayServer: Sendable {
    /// Answers the body of a request with status 200 and a JSON body.
    package typealias Script = @Sendable (_ body: [UInt8]) -> [UInt8]

    private let requestsPerConnection: Int
    private let answer: Script
    private let port = Mutex(0)
    /// Answered requests, and those that were not taken.
    package let answered = Tally()
    package let refused = Tally()

    package var url: String { "https://localhost:\(port.withLock { $0 })" }

    fileprivate init(requestsPerConnection: Int, answer: @escaping Script) {
        self.requestsPerConnection = requestsPerConnection
        self.answer = answer
    }

    fileprivate func listen() async throws -> any Channel {
        let certificates = try NIOSSLCertificate.fromPEMBytes(Array(TestCertificates.localhost.utf8))
        let key = try NIOSSLPrivateKey(bytes: Array(TestCertificates.key.utf8), format: .pem)
        var tls = TLSConfiguration.makeServerConfiguration(
            certificateChain: certificates.map { .certificate($0) }, privateKey: .privateKey(key))
        tls.applicationProtocols = ["h2"]
        let context = try NIOSSLContext(configuration: tls)
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { [self] channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    try pipeline.addHandler(NIOSSLServerHandler(context: context))
                    let connection = ConnectionRequests(limit: requestsPerConnection)
                    _ = try pipeline.configureHTTP2Pipeline(
                        mode: .server, connectionConfiguration: .init(), streamConfiguration: .init()
                    ) { [self] stream in
                        stream.eventLoop.makeCompletedFuture {
                            try stream.pipeline.syncOperations.addHandlers([
                                HTTP2FramePayloadToHTTP1ServerCodec(), RequestHandler(self, connection),
                            ])
                        }
                    }
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        port.withLock { $0 = channel.localAddress?.port ?? 0 }
        return channel
    }

    fileprivate func respond(to body: [UInt8]) -> [UInt8] {
        answered.add()
        return answer(body)
    }
}

/// Requests that a connection has taken.
private final class ConnectionRequests: Sendable {
    private struct State {
        var taken = 0
        var last = HTTP2StreamID.rootStream
        var isEnding = false
    }

    private let state = Mutex(State())
    private let limit: Int

    init(limit: Int) {
        self.limit = limit
    }

    /// Whether the connection takes a request; with the first one that it does not take, also the last that it has
    /// taken.
    func take(_ stream: HTTP2StreamID) -> (isTaken: Bool, lastBeforeEnd: HTTP2StreamID?) {
        state.withLock { state in
            guard state.taken >= limit else {
                state.taken += 1
                state.last = stream
                return (true, nil)
            }
            defer { state.isEnding = true }
            return (false, state.isEnding ? nil : state.last)
        }
    }
}

private final class RequestHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private let server: GoAwayServer
    private let connection: ConnectionRequests
    private var isTaken = false
    private var body: [UInt8] = []

    init(_ server: GoAwayServer, _ connection: ConnectionRequests) {
        (self.server, self.connection) = (server, connection)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head: take(context)
        case .body(let part): body += Array(part.readableBytesView)
        case .end: if isTaken { answer(context) }
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
    }

    private func take(_ context: ChannelHandlerContext) {
        guard let stream = try? context.channel.syncOptions?.getOption(HTTP2StreamChannelOptions.streamID) else {
            return
        }
        let (isTaken, last) = connection.take(stream)
        self.isTaken = isTaken
        if !isTaken { server.refused.add() }
        guard let last else { return }
        let frame = HTTP2Frame(
            streamID: .rootStream, payload: .goAway(lastStreamID: last, errorCode: .noError, opaqueData: nil))
        context.channel.parent?.writeAndFlush(frame, promise: nil)
    }

    private func answer(_ context: ChannelHandlerContext) {
        let bytes = server.respond(to: body)
        let head = HTTPResponseHead(version: .http2, status: .ok, headers: ["content-type": "application/json"])
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: bytes)))), promise: nil)
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    }
}

/// Starts a server that ends connections, and passes it to the closure.
package func withGoAwayServer<Value: Sendable>(
    requestsPerConnection: Int, answer: @escaping GoAwayServer.Script, _ body: (GoAwayServer) async throws -> Value
) async throws -> Value {
    let server = GoAwayServer(requestsPerConnection: requestsPerConnection, answer: answer)
    let channel = try await server.listen()
    let result: Result<Value, any Error>
    do {
        result = .success(try await body(server))
    } catch {
        result = .failure(error)
    }
    try await channel.close()
    return try result.get()
}
