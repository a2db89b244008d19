// SPDX-License-Identifier: Apache-2.0

import NIOCore
import NIOPosix

/// Passes the URL of a server whose answer never ends to the closure.
func withStallingServer(_ body: (String) async throws -> Void) async throws {
    let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
        .childChannelInitializer { channel in
            channel.eventLoop.makeCompletedFuture {
                try channel.pipeline.syncOperations.addHandler(StallingHandler())
            }
        }
        .bind(host: "127.0.0.1", port: 0).get()
    do {
        try await body("http://127.0.0.1:\(server.localAddress?.port ?? 0)/hook")
    } catch {
        try? await server.close()
        throw error
    }
    try await server.close()
}

private final class StallingHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private var hasAnswered = false

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        // A request that arrives in two parts must not get a second head: the client would read it as the body.
        guard !hasAnswered else { return }
        hasAnswered = true
        let head = ByteBuffer(string: "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n")
        context.writeAndFlush(wrapOutboundOut(head), promise: nil)
    }
}
