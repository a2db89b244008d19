// SPDX-License-Identifier: Apache-2.0

package import AsyncHTTPClient
package import NIOCore
import NIOHTTP2
package import NIOSSL
import Waiting
package import WidgetModel

/// Time limits and trusted certificates of connections to providers.
package struct ConnectionLimits: Sendable {
    /// Limit of making a connection, TLS included.
    package var connectTimeout: Duration
    /// Limit of the wait for the next bytes of an answer.
    package var readTimeout: Duration
    /// Verifies certificates and host names.
    package private(set) var tls: TLSConfiguration

    package init(connectTimeout: Duration = .seconds(3), readTimeout: Duration = .seconds(30)) {
        self.connectTimeout = connectTimeout
        self.readTimeout = readTimeout
        tls = TLSConfiguration.makeClientConfiguration()
        tls.minimumTLSVersion = .tlsv12
    }

    /// Trusts the authorities of a file with PEM certificates, besides the system's.
    package mutating func trust(roots file: String) throws(ModelError) {
        let certificates: [NIOSSLCertificate]
        do {
            certificates = try NIOSSLCertificate.fromPEMFile(file)
        } catch {
            throw ModelError(message: "\(file): cannot be read as PEM certificates")
        }
        guard !certificates.isEmpty else { throw ModelError(message: "\(file): holds no certificate") }
        tls.additionalTrustRoots = [.certificates(certificates)]
    }
}

extension ConnectionLimits {
    /// Prepares a new connection of the HTTP client that speaks HTTP/2: interprets the peer's resets of streams, and
    /// closes the connection after an error of the whole connection, such as too many resets.
    ///
    /// SwiftNIO answers such an error with GOAWAY and leaves the connection open. The HTTP client would send further
    /// requests on it, whose answers can get lost.
    package static func prepareHTTP2(_ channel: any Channel) -> EventLoopFuture<Void> {
        StreamResetFilter.add(to: channel).flatMap {
            channel.eventLoop.makeCompletedFuture {
                try channel.pipeline.syncOperations.addHandler(ErrorHandler())
            }
        }
    }
}

private final class ErrorHandler: ChannelInboundHandler {
    typealias InboundIn = HTTP2Frame

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        switch error {
        case is NIOHTTP2Errors.ExcessiveRSTFrames, is NIOHTTP2Errors.ExcessiveControlFrames,
            is NIOHTTP2Errors.ExcessiveEmptyDataFrames, is NIOHTTP2Errors.ExcessiveContinuationFrames,
            is NIOHTTP2Errors.ExcessiveStreamErrors, is NIOHTTP2Errors.ExcessiveNumberOfGlitches,
            is NIOHTTP2Errors.ExcessivelyLargeHeaderBlock, is NIOHTTP2Errors.UnableToParseFrame,
            is NIOHTTP2Errors.IOOnClosedConnection:
            context.close(promise: nil)
        default: context.fireErrorCaught(error)
        }
    }
}

/// Changes the frames RST_STREAM of a peer where SwiftNIO would misunderstand them.
///
/// A reset with NO_ERROR of an answered stream is left out. RFC 9113, 8.1 allows it, where a server does not read the
/// rest of a request. SwiftNIO counts such resets as an attack, and gives the connection up after 200 of them in 30 s,
/// with the answers to all requests that are under way.
///
/// A reset with CANCEL becomes one with INTERNAL_ERROR. SwiftNIO reports the streams that a GOAWAY leaves out as
/// cancelled. These have not been processed and are sent again, but a request that the peer itself cancels may have
/// been.
///
/// The filter joins a connection that has received bytes already, maybe the first part of a frame. It passes bytes on
/// as they are until the answer to a PING, behind which a frame begins.
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
    /// Whether all bytes so far have the form of HTTP/2 frames. Otherwise the filter passes them on, and the HTTP/2
    /// handler reports the error.
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

/// The task of Swift's concurrency, which the client's own type hides.
private typealias CurrentTask = Task<Never, Never>

extension HTTPClient {
    /// Most attempts to send a request. A connection that its peer closes after a number of requests serves at least
    /// one of those that wait for it.
    private static let unprocessedAttempts = 12
    private static let unprocessedBackoff = Backoff(base: .milliseconds(2), cap: .milliseconds(500))

    /// Executes a request, and sends it again on another connection if the peer states that it has not processed it.
    ///
    /// A proxy that closes an HTTP/2 connection after a number of requests names the last request that it has taken
    /// (GOAWAY), and a server may refuse a stream (RST_STREAM with REFUSED_STREAM). Such requests may be repeated
    /// whatever they do (RFC 9113, 8.7), and say nothing about the health of the peer.
    ///
    /// - Throws: the client's errors; that of the last attempt if the peer processed none.
    package func executeAgainIfUnprocessed(
        _ request: HTTPClientRequest, deadline: NIODeadline
    ) async throws -> HTTPClientResponse {
        var attempt = 1
        while true {
            do {
                return try await execute(request, deadline: deadline)
            } catch let error where attempt < Self.unprocessedAttempts && Self.isUnprocessed(error) {
                try CurrentTask.checkCancellation()
                try await CurrentTask.sleep(for: Self.unprocessedBackoff.delay(attempt: attempt))
                attempt += 1
            }
        }
    }

    /// Sends a request and reads its answer to the end, so that the connection can be used again. A request that the
    /// peer has not processed is sent again.
    ///
    /// The client's own deadline ends with the answer's head. After it, the exchange fails at the first part of the
    /// body that arrives after `timeout`, or when no part arrives for the read timeout of the client's configuration,
    /// which must be set. So it takes at most both times together, and adds no task or timer to the client's own.
    ///
    /// - Throws: the client's errors; `HTTPClientError.deadlineExceeded` after `timeout`; `NIOTooManyBytesError` for a
    ///   longer body.
    package func exchange(
        _ request: HTTPClientRequest, timeout: Duration, upTo maximumBytes: Int
    ) async throws -> (response: HTTPClientResponse, body: ByteBuffer) {
        let deadline = NIODeadline.now() + TimeAmount(timeout)
        let response = try await executeAgainIfUnprocessed(request, deadline: deadline)
        var body = ByteBuffer()
        for try await part in response.body {
            guard NIODeadline.now() < deadline else { throw HTTPClientError.deadlineExceeded }
            guard body.readableBytes + part.readableBytes <= maximumBytes else {
                throw NIOTooManyBytesError(maxBytes: maximumBytes)
            }
            body.writeImmutableBuffer(part)
        }
        return (response, body)
    }

    /// Whether an error states that the peer has not processed the request.
    private static func isUnprocessed(_ error: any Error) -> Bool {
        switch error {
        // SwiftNIO reports the streams that a GOAWAY leaves out as cancelled. `StreamResetFilter` gives the peer's own
        // cancellations another code.
        case let error as NIOHTTP2Errors.StreamClosed: error.errorCode == .refusedStream || error.errorCode == .cancel
        case let error as NIOHTTP2Errors.StreamError: isUnprocessed(error.baseError)
        case is NIOHTTP2Errors.CreatedStreamAfterGoaway: true
        // The connection was closing before the request was sent. A cancelled task ends before the next attempt.
        case let error as HTTPClientError: error == .cancelled
        default: false
        }
    }
}
