// SPDX-License-Identifier: Apache-2.0

import NIOCore
import NIOEmbedded
import Testing

@testable import ReloadWorkers

@Suite("Resets of HTTP/2 streams")
struct StreamResetFilterTests {
    private static let ping: UInt64 = 0x0102_0304_0506_0708

    private static func frame(_ type: UInt8, flags: UInt8 = 0, stream: UInt8, _ payload: [UInt8]) -> [UInt8] {
        [0, 0, UInt8(payload.count), type, flags, 0, 0, 0, stream] + payload
    }

    private static func reset(_ stream: UInt8, _ code: UInt8) -> [UInt8] { frame(3, stream: stream, [0, 0, 0, code]) }

    /// Settings, their acknowledgement, and a frame whose content looks like the header of a very long one.
    private static let greeting =
        frame(4, stream: 0, [0, 3, 0, 0, 0, 100]) + frame(4, flags: 1, stream: 0, [])
        + frame(8, stream: 0, [0, 0x3f, 0xff, 0]) + frame(0, stream: 5, Array(repeating: 0x3f, count: 40))
    private static let answerToPing = frame(6, flags: 1, stream: 0, [1, 2, 3, 4, 5, 6, 7, 8])
    /// An answer of stream 1, and its reset without an error; a reset by the peer; an answer without its end.
    private static let answers =
        frame(1, flags: 5, stream: 1, [0x88]) + reset(1, 0) + reset(3, 8) + frame(1, flags: 4, stream: 7, [0x88])
    private static let filtered =
        frame(1, flags: 5, stream: 1, [0x88]) + reset(3, 2) + frame(1, flags: 4, stream: 7, [0x88])

    private static func passed(_ channel: EmbeddedChannel) throws -> [UInt8] {
        var bytes: [UInt8] = []
        while let buffer = try channel.readInbound(as: ByteBuffer.self) { bytes += buffer.readableBytesView }
        return bytes
    }

    @Test("A filter that joins within a frame passes each byte on, and filters from the answer to its PING on")
    func joins() throws {
        for start in 0...Self.greeting.count {
            let channel = EmbeddedChannel(handler: ByteToMessageHandler(StreamResetFilter(after: Self.ping)))
            for byte in Self.greeting[start...] + Self.answerToPing {
                try channel.writeInbound(ByteBuffer(bytes: [byte]))
                #expect(try Self.passed(channel) == [byte], "from byte \(start) on")
            }
            for byte in Self.answers { try channel.writeInbound(ByteBuffer(bytes: [byte])) }
            #expect(try Self.passed(channel) == Self.filtered, "from byte \(start) on")
            _ = try channel.finish()
        }
    }

    @Test("The bytes before, within and behind the answer to the PING may come at once")
    func together() throws {
        for start in 0...Self.greeting.count {
            let channel = EmbeddedChannel(handler: ByteToMessageHandler(StreamResetFilter(after: Self.ping)))
            let before = Self.greeting[start...] + Self.answerToPing
            try channel.writeInbound(ByteBuffer(bytes: before + Self.answers))
            #expect(try Self.passed(channel) == before + Self.filtered)
            _ = try channel.finish()
        }
    }
}
