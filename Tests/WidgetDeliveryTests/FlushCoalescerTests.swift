import NIOCore
import NIOEmbedded
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

    @Test("What was written in the turn that closes the connection is sent first")
    func closing() throws {
        write("last")
        channel.close(promise: nil)
        channel.embeddedEventLoop.run()
        #expect(try sent() == ["last"])
    }
}
