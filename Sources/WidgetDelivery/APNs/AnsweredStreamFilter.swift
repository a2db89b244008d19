import NIOCore
import NIOHTTP2

/// Leaves out the frames with which a server ends a stream that it has answered: RST_STREAM with NO_ERROR.
///
/// RFC 9113, 8.1 allows them, where a server does not read the rest of a request. They mean nothing for a push, which is
/// sent at once. But SwiftNIO counts them as an attack, and gives the connection up after 200 of them in 30 s, with the
/// answers to all pushes that are under way.
struct AnsweredStreamFilter: ByteToMessageDecoder {
    typealias InboundOut = ByteBuffer

    private struct Header {
        static let bytes = 9

        let length: Int
        let type: UInt8
        let flags: UInt8
        let stream: UInt32

        /// Reads the header at the beginning of the buffer, and leaves it there.
        init?(_ buffer: ByteBuffer) {
            let start = buffer.readerIndex
            guard let word = buffer.getInteger(at: start, as: UInt32.self),
                let flags = buffer.getInteger(at: start + 4, as: UInt8.self),
                let stream = buffer.getInteger(at: start + 5, as: UInt32.self)
            else { return nil }
            (length, type) = (Int(word >> 8), UInt8(truncatingIfNeeded: word))
            (self.flags, self.stream) = (flags, stream & 0x7fff_ffff)
        }
    }

    private static let data: UInt8 = 0
    private static let headers: UInt8 = 1
    private static let reset: UInt8 = 3
    private static let endStream: UInt8 = 1
    /// Longest frame that a server may send, since the client does not ask for longer ones.
    private static let longestFrame = 16_384
    /// Most answered streams that are remembered; beyond them all are forgotten.
    private static let remembered = 4_096

    private var answered: Set<UInt32> = []
    /// Whether the bytes have the form of frames. Otherwise the HTTP/2 handler is to find the error.
    private var areFrames = true

    mutating func decode(context: ChannelHandlerContext, buffer: inout ByteBuffer) throws -> DecodingState {
        guard areFrames else {
            if let rest = buffer.readSlice(length: buffer.readableBytes) {
                context.fireChannelRead(wrapInboundOut(rest))
            }
            return .needMoreData
        }
        guard let header = Header(buffer) else { return .needMoreData }
        guard header.length <= Self.longestFrame else {
            areFrames = false
            return .continue
        }
        guard let frame = buffer.readSlice(length: Header.bytes + header.length) else { return .needMoreData }
        if !isMeaningless(frame, header) { context.fireChannelRead(wrapInboundOut(frame)) }
        return .continue
    }

    private mutating func isMeaningless(_ frame: ByteBuffer, _ header: Header) -> Bool {
        switch header.type {
        case Self.data, Self.headers:
            guard header.flags & Self.endStream != 0 else { return false }
            if answered.count >= Self.remembered { answered = [] }
            answered.insert(header.stream)
            return false
        case Self.reset:
            let code = frame.getInteger(at: frame.readerIndex + Header.bytes, as: UInt32.self)
            return answered.remove(header.stream) != nil && header.length == 4 && code == 0
        default: return false
        }
    }
}

extension AnsweredStreamFilter {
    /// Adds the filter in front of the HTTP/2 handler of a connection that is ready for requests. The server's frames so
    /// far are complete: it has sent its settings.
    static func add(to channel: any Channel) -> EventLoopFuture<Void> {
        channel.eventLoop.flatSubmit {
            channel.eventLoop.makeCompletedFuture {
                let pipeline = channel.pipeline.syncOperations
                let http2 = try pipeline.handler(type: NIOHTTP2Handler.self)
                try pipeline.addHandler(ByteToMessageHandler(AnsweredStreamFilter()), position: .before(http2))
            }
        }
    }
}
