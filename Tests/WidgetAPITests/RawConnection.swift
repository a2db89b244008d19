// SPDX-License-Identifier: Apache-2.0

import Logging
import NIOCore
import NIOPosix
import Synchronization
import TestSupport
import WidgetAPI

/// A connection to which the test writes raw bytes.
final class RawConnection: Sendable {
    private let channel: any Channel
    private let received: Received

    private final class Received: ChannelInboundHandler, Sendable {
        typealias InboundIn = ByteBuffer

        let bytes = Mutex<[UInt8]>([])

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            let new = Array(buffer: unwrapInboundIn(data))
            bytes.withLock { $0 += new }
        }
    }

    private init(_ channel: any Channel, _ received: Received) {
        self.channel = channel
        self.received = received
    }

    static func open(_ port: Int) async throws -> RawConnection {
        let received = Received()
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelInitializer { $0.pipeline.addHandler(received) }
            .connect(host: "127.0.0.1", port: port).get()
        return RawConnection(channel, received)
    }

    func send(_ text: String) async throws {
        try await channel.writeAndFlush(ByteBuffer(string: text))
    }

    /// Bytes received so far.
    var bytes: [UInt8] { received.bytes.withLock { $0 } }
    var text: String { String(decoding: bytes, as: UTF8.self) }
    var isOpen: Bool { channel.isActive }

    func close() async throws {
        try await channel.close()
    }

    /// Sends one request without a body and returns the received bytes.
    static func ask(_ port: Int, _ path: String, bearer: String?) async throws -> String {
        let connection = try await open(port)
        let token = bearer.map { "Authorization: Bearer \($0)\r\n" } ?? ""
        try await connection.send("GET \(path) HTTP/1.1\r\nHost: a\r\n\(token)Connection: close\r\n\r\n")
        try await eventually("the answer is complete") { !connection.isOpen }
        return connection.text
    }
}

/// Runs a service and passes the port that it reports to the closure.
func withPort(
    _ run: @escaping @Sendable (_ onListening: @escaping @Sendable (Int) -> Void) async throws -> Void,
    _ body: @Sendable (Int) async throws -> Void
) async throws {
    let (ports, continuation) = AsyncStream.makeStream(of: Int.self)
    try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { try? await run { continuation.yield($0) } }
        for await port in ports {
            try await body(port)
            break
        }
        group.cancelAll()
    }
}

/// Runs the complete API and passes it to the closure with a token for all scopes.
func withServedAPI(
    _ store: TestStore, configuration: APIConfiguration, changes: TimelineChanges = TimelineChanges(),
    _ body: @Sendable (_ port: Int, _ tokens: TestTokens) async throws -> Void
) async throws {
    let tokens = try await TestTokens.make()
    let keys = tokens.store()
    try await keys.load()
    try await withPort { onListening in
        try await APIService(
            configuration: configuration, store: store.store,
            resources: APIResources(
                keys: keys, events: PublishedMessages().outlet(), changes: changes),
            readiness: Readiness(checks: []), logger: quiet, onListening: onListening
        ).run()
    } _: { port in
        try await body(port, tokens)
    }
}
