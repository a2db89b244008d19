import NIOCore
import NIOEmbedded
import NIOHTTP2
import Testing

@testable import WidgetDelivery

@Suite("Combined flushes of a connection")
struct FlushCoalescerTests {
    private final class FlushCounter: ChannelOutboundHandler {
        typealias OutboundIn = ByteBuffer

        var count = 0

        func flush(context: ChannelHandlerContext) {
            count += 1
            context.flush()
        }
    }

    private let counter = FlushCounter()
    private let channel: EmbeddedChannel

    init() throws {
        channel = EmbeddedChannel()
        try channel.pipeline.syncOperations.addHandlers([counter, FlushCoalescer()])
    }

    private func write(_ texts: String...) {
        for text in texts { channel.writeAndFlush(ByteBuffer(string: text), promise: nil) }
    }

    private func sent() throws -> [String] {
        var texts: [String] = []
        while let bytes = try channel.readOutbound(as: ByteBuffer.self) { texts.append(String(buffer: bytes)) }
        return texts
    }

    @Test("The writes of one turn of the event loop are flushed once, those of the next turn again")
    func turns() throws {
        write("head", "body", "end")
        #expect(counter.count == 0)
        channel.embeddedEventLoop.run()
        #expect(counter.count == 1)
        #expect(try sent() == ["head", "body", "end"])
        write("next")
        channel.embeddedEventLoop.run()
        #expect(counter.count == 2)
        #expect(try sent() == ["next"])
    }

    @Test("It is added in front of HTTP/2 before the call returns, so that the pool learns of the connection at once")
    func adding() throws {
        let connection = EmbeddedChannel()
        let pipeline = connection.pipeline.syncOperations
        let http2 = NIOHTTP2Handler(mode: .client)
        try pipeline.addHandlers([counter, http2])
        var isAdded = false
        FlushCoalescer.add(to: connection).assumeIsolated().whenSuccess { isAdded = true }
        #expect(isAdded)
        let before = counter.count
        try pipeline.context(handler: http2).flush()
        #expect(counter.count == before)
        connection.embeddedEventLoop.run()
        #expect(counter.count == before + 1)
    }

    @Test("What was written in the turn that closes the connection is sent first")
    func closing() throws {
        write("last")
        channel.close(promise: nil)
        channel.embeddedEventLoop.run()
        #expect(try sent() == ["last"])
    }
}
