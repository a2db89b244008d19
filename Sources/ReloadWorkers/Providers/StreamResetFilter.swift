import NIOCore
import NIOHTTP2

/// Changes the frames RST_STREAM of a peer where SwiftNIO would misunderstand them.
///
/// A reset with NO_ERROR of an answered stream is left out. RFC 9113, 8.1 allows it, where a server does not read the rest
/// of a request. SwiftNIO counts such resets as an attack, and gives the connection up after 200 of them in 30 s, with the
/// answers to all requests that are under way.
///
/// A reset with CANCEL becomes one with INTERNAL_ERROR. SwiftNIO reports the streams that a GOAWAY leaves out as cancelled.
/// These have not been processed and are sent again, but a request that the peer itself cancels may have been.
///
/// The filter joins a connection that has received bytes already, maybe the first part of a frame. It passes bytes on as
/// they are until the answer to a PING, behind which a frame begins.
struct StreamResetFilter: ByteToMessageDecoder {
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
    private static let noError: UInt32 = 0
    private static let internalError: UInt32 = 2
    private static let cancel: UInt32 = 8
    /// Longest frame that a server may send, since the client does not ask for longer ones.
    private static let longestFrame = 16_384
    /// Most answered streams that are remembered; beyond them all are forgotten.
    private static let remembered = 4_096

    /// Answer to the PING.
    private let answerToPing: [UInt8]
    /// Whether the next byte begins a frame.
    private var isAligned = false
    /// Latest bytes before alignment, which may be the first part of the answer.
    private var latest: [UInt8] = []

    private var answered: Set<UInt32> = []
    /// Whether the bytes have the form of frames. Otherwise the HTTP/2 handler is to find the error.
    private var areFrames = true

    /// - Parameter ping: content of the PING, which no other frame has by chance.
    init(after ping: UInt64) {
        let content = stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: ping >> $0) }
        // A frame of 8 bytes, PING, ACK, of the connection.
        answerToPing = [0, 0, 8, 6, 1, 0, 0, 0, 0] + content
    }

    mutating func decode(context: ChannelHandlerContext, buffer: inout ByteBuffer) throws -> DecodingState {
        guard isAligned else {
            if let passed = passToAnswer(&buffer) { context.fireChannelRead(wrapInboundOut(passed)) }
            return isAligned ? .continue : .needMoreData
        }
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
        guard var frame = buffer.readSlice(length: Header.bytes + header.length) else { return .needMoreData }
        switch header.type {
        case Self.data, Self.headers:
            if header.flags & Self.endStream != 0 { noteAnswer(header.stream) }
        case Self.reset where header.length == 4:
            let place = frame.readerIndex + Header.bytes
            let code = frame.getInteger(at: place, as: UInt32.self)
            let isAnswered = answered.remove(header.stream) != nil
            if isAnswered, code == Self.noError { return .continue }
            if code == Self.cancel { frame.setInteger(Self.internalError, at: place) }
        default: break
        }
        context.fireChannelRead(wrapInboundOut(frame))
        return .continue
    }

    /// Takes the bytes up to the end of the answer to the PING; all of them without it.
    private mutating func passToAnswer(_ buffer: inout ByteBuffer) -> ByteBuffer? {
        let bytes = latest + buffer.readableBytesView
        guard let place = bytes.firstRange(of: answerToPing) else {
            latest = bytes.suffix(answerToPing.count - 1)
            return buffer.readSlice(length: buffer.readableBytes)
        }
        isAligned = true
        return buffer.readSlice(length: place.upperBound - latest.count)
    }

    private mutating func noteAnswer(_ stream: UInt32) {
        if answered.count >= Self.remembered { answered = [] }
        answered.insert(stream)
    }
}

extension StreamResetFilter {
    /// Adds the filter in front of the HTTP/2 handler of a connection that is ready for requests, and sends the PING: a
    /// server answers it before requests that come later.
    static func add(to channel: any Channel) -> EventLoopFuture<Void> {
        channel.eventLoop.flatSubmit {
            channel.eventLoop.makeCompletedFuture {
                let pipeline = channel.pipeline.syncOperations
                let http2 = try pipeline.handler(type: NIOHTTP2Handler.self)
                let ping = UInt64.random(in: 0 ... .max)
                let filter = ByteToMessageHandler(StreamResetFilter(after: ping))
                try pipeline.addHandler(filter, position: .before(http2))
                let payload = HTTP2Frame.FramePayload.ping(HTTP2PingData(withInteger: ping), ack: false)
                channel.writeAndFlush(HTTP2Frame(streamID: .rootStream, payload: payload), promise: nil)
            }
        }
    }
}
