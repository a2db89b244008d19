// SPDX-License-Identifier: Apache-2.0

import NIOCore
import NIOPosix
import NIOSSL
import Synchronization
import TestSupport

/// A server that answers every request with given bytes at a given pace.
final class RawServer: Sendable {
    enum Behaviour: Sendable {
        /// Accepts the connection and sends nothing.
        case hangs
        /// Sends these bytes, then nothing more; the connection stays open.
        case says(String)
        /// Sends these bytes, one at a time after the first part.
        case dribbles(String, every: Duration)
        /// Sends these bytes, then repeats a piece up to a gigabyte.
        case pours(String, piece: String)
        /// Sends these bytes and closes the connection.
        case answers(String)
    }

    static let gigabyte = 1 << 30

    private let behaviour: Behaviour
    /// Counts connections on which a request has arrived.
    let asked = Tally()
    private let sentBytes = Mutex(0)

    /// Number of bytes that `.pours` has sent.
    var sent: Int { sentBytes.withLock { $0 } }

    fileprivate init(_ behaviour: Behaviour) {
        self.behaviour = behaviour
    }

    fileprivate func start(_ channel: any Channel) {
        asked.add()
        switch behaviour {
        case .hangs: break
        case .says(let text): channel.writeAndFlush(ByteBuffer(string: text), promise: nil)
        case .dribbles(let text, let pause):
            channel.writeAndFlush(ByteBuffer(string: text), promise: nil)
            channel.eventLoop.scheduleRepeatedTask(
                initialDelay: TimeAmount(pause), delay: TimeAmount(pause)
            ) { task in
                guard channel.isActive else { return task.cancel() }
                channel.writeAndFlush(ByteBuffer(string: " "), promise: nil)
            }
        case .pours(let text, let piece):
            channel.writeAndFlush(ByteBuffer(string: text), promise: nil)
            pour(ByteBuffer(string: piece), into: channel)
        case .answers(let text):
            channel.writeAndFlush(ByteBuffer(string: text)).whenComplete { _ in channel.close(promise: nil) }
        }
    }

    /// Sends the pieces one after the other, as fast as the client reads them.
    private func pour(_ piece: ByteBuffer, into channel: any Channel) {
        guard channel.isActive, sent < Self.gigabyte else { return }
        channel.writeAndFlush(piece).whenSuccess { [self] in
            sentBytes.withLock { $0 += piece.readableBytes }
            pour(piece, into: channel)
        }
    }
}

private final class RawHandler: ChannelInboundHandler, Sendable {
    typealias InboundIn = ByteBuffer
    private let server: RawServer
    private let hasStarted = Mutex(false)

    init(_ server: RawServer) {
        self.server = server
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let isFirst = hasStarted.withLock { started in
            defer { started = true }
            return !started
        }
        if isFirst { server.start(context.channel) }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
    }
}

/// Starts a server on a free port and passes it to the closure.
///
/// - Parameters:
///   - certificate: PEM; the server uses TLS if it is set.
///   - newestTLS: Newest supported TLS version.
func withRawServer<Value: Sendable>(
    _ behaviour: RawServer.Behaviour, certificate: String? = nil, newestTLS: TLSVersion? = nil,
    _ body: (RawServer, _ port: Int) async throws -> Value
) async throws -> Value {
    let server = RawServer(behaviour)
    var tls: NIOSSLContext?
    if let certificate {
        let certificates = try NIOSSLCertificate.fromPEMBytes(Array(certificate.utf8))
        let key = try NIOSSLPrivateKey(bytes: Array(TestCertificates.key.utf8), format: .pem)
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: certificates.map { .certificate($0) }, privateKey: .privateKey(key))
        configuration.maximumTLSVersion = newestTLS
        tls = try NIOSSLContext(configuration: configuration)
    }
    let children = ChildChannels()
    let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
        .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
        .childChannelInitializer { [tls] channel in
            children.add(channel)
            return channel.eventLoop.makeCompletedFuture {
                if let tls { try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: tls)) }
                try channel.pipeline.syncOperations.addHandler(RawHandler(server))
            }
        }
        .bind(host: "127.0.0.1", port: 0).get()
    let result: Result<Value, any Error>
    do {
        result = .success(try await body(server, channel.localAddress?.port ?? 0))
    } catch {
        result = .failure(error)
    }
    try await channel.close()
    await children.close()
    return try result.get()
}

/// Open connections of a server, closed with it.
private final class ChildChannels: Sendable {
    private let channels = Mutex<[any Channel]>([])

    func add(_ channel: any Channel) {
        channels.withLock { $0.append(channel) }
    }

    func close() async {
        for channel in channels.withLock({ $0 }) { try? await channel.close() }
    }
}
