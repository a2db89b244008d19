// SPDX-License-Identifier: Apache-2.0

import Foundation
import Glibc
package import KafkaClient

/// A hand-made record batch (format 2) with one record. The embedded cluster stores batches as they are, so that it can
/// hold what librdkafka's producer never writes: markers of transactions, and batches that cannot be read.
package struct RawRecordBatch: Sendable {
    package enum Content: Sendable {
        /// A message without key and headers.
        case message(value: [UInt8])
        /// The control record at the end of a committed transaction.
        case commitMarker
        /// The control record at the end of an aborted transaction.
        case abortMarker
        /// The record at the end of a committed transaction, of about this size, so that a few of them fill a log.
        case largeMarker(bytes: Int)
        /// A batch that claims to be compressed with zstd, and is not.
        case unreadableZstd
        /// A batch that claims to be compressed with LZ4, and is not.
        case unreadableLZ4
        /// A batch whose record claims to be longer than the batch.
        case unreadableRecord
    }

    package struct Failure: Error, CustomStringConvertible {
        package let description: String
        /// Whether the batch may have been stored nevertheless.
        package let isUncertain: Bool
    }

    package let bytes: [UInt8]

    /// - Parameter timestampMilliseconds: the record's timestamp; the present by default.
    package init(_ content: Content, timestampMilliseconds: Int64? = nil) {
        let time = timestampMilliseconds ?? Int64(Date().timeIntervalSince1970 * 1_000)
        switch content {
        case .message(let value): bytes = Self.batch(attributes: 0, Self.record(key: nil, value: value), time)
        case .commitMarker: bytes = Self.batch(attributes: 0x30, Self.marker(kind: 1), time)
        case .abortMarker: bytes = Self.batch(attributes: 0x30, Self.marker(kind: 0), time)
        case .largeMarker(let size): bytes = Self.batch(attributes: 0x30, Self.marker(kind: 1, size: size), time)
        case .unreadableZstd: bytes = Self.batch(attributes: 4, Array("not a zstd frame".utf8), time)
        case .unreadableLZ4: bytes = Self.batch(attributes: 3, Array("not an lz4 frame".utf8), time)
        case .unreadableRecord:
            bytes = Self.batch(attributes: 0, Self.varint(5_000) + Array(repeating: 0, count: 15), time)
        }
    }

    /// Appends the batch to a partition through its leader.
    ///
    /// - Parameter bootstrapServers: `host:port` of all brokers, separated by commas.
    /// - Returns: The batch's offset.
    package func produce(
        to bootstrapServers: String, topic: String, partition: Int32
    ) async throws(Failure) -> Int64 {
        let result = await withCheckedContinuation { continuation in
            let thread = Thread {
                continuation.resume(returning: produceBlocking(to: bootstrapServers, topic, partition))
            }
            thread.start()
        }
        return try result.get()
    }

    @discardableResult
    package func produce(to kafka: EmbeddedKafka, _ partition: TopicPartition) async throws(Failure) -> Int64 {
        try await produce(to: kafka.bootstrapServers, topic: partition.topic, partition: partition.partition)
    }

    private func produceBlocking(
        to bootstrapServers: String, _ topic: String, _ partition: Int32
    ) -> Result<Int64, Failure> {
        let notLeader: Int16 = 6
        var last = Failure(description: "no broker in \(bootstrapServers)", isUncertain: false)
        for address in bootstrapServers.split(separator: ",") {
            guard let port = address.split(separator: ":").last.flatMap({ UInt16($0) }) else { continue }
            switch Self.exchange(port: port, request: request(topic, partition)) {
            case .failure(let failure):
                if failure.isUncertain { return .failure(failure) }
                last = failure
            case .success(let answer):
                // Correlation id, topics, name, partitions, index, error, base offset.
                let place = 4 + 4 + 2 + topic.utf8.count + 4 + 4
                guard answer.count >= place + 10 else {
                    return .failure(Failure(description: "an answer of \(answer.count) bytes", isUncertain: true))
                }
                let code = Int16(truncatingIfNeeded: Self.integer(answer[place..<(place + 2)]))
                if code == 0 { return .success(Self.integer(answer[(place + 2)..<(place + 10)])) }
                last = Failure(description: "broker at \(port) answered with error \(code)", isUncertain: false)
                if code != notLeader { return .failure(last) }
            }
        }
        return .failure(last)
    }

    // MARK: Protocol

    /// A Produce request, version 7.
    private func request(_ topic: String, _ partition: Int32) -> [UInt8] {
        func text(_ text: String) -> [UInt8] { Self.big(Int16(text.utf8.count)) + Array(text.utf8) }
        var body = Self.big(Int16(0)) + Self.big(Int16(7)) + Self.big(Int32(1)) + text("raw")
        // No transaction; all replicas; a time limit of ten seconds.
        body += Self.big(Int16(-1)) + Self.big(Int16(-1)) + Self.big(Int32(10_000))
        body += Self.big(Int32(1)) + text(topic) + Self.big(Int32(1)) + Self.big(partition)
        body += Self.big(Int32(bytes.count)) + bytes
        return Self.big(Int32(body.count)) + body
    }

    private static func exchange(port: UInt16, request: [UInt8]) -> Result<[UInt8], Failure> {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        defer { close(descriptor) }
        var limit = timeval(tv_sec: 10, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        let connected = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard connected == 0 else {
            return .failure(Failure(description: "no connection to port \(port)", isUncertain: false))
        }
        guard send(descriptor, request, request.count, Int32(MSG_NOSIGNAL)) == request.count,
            let head = read(4, from: descriptor), let answer = read(Int(integer(head[...])), from: descriptor)
        else { return .failure(Failure(description: "the broker at port \(port) broke off", isUncertain: true)) }
        return .success(answer)
    }

    private static func read(_ count: Int, from descriptor: Int32) -> [UInt8]? {
        guard (0...1_048_576).contains(count) else { return nil }
        var bytes = [UInt8](repeating: 0, count: count)
        guard recv(descriptor, &bytes, count, Int32(MSG_WAITALL)) == count else { return nil }
        return bytes
    }

    // MARK: Encoding

    private static func batch(attributes: Int16, _ payload: [UInt8], _ time: Int64) -> [UInt8] {
        // Last offset delta, first and last timestamp, no producer, no sequence, one record.
        var covered = big(attributes) + big(Int32(0)) + big(time) + big(time)
        covered += big(Int64(-1)) + big(Int16(-1)) + big(Int32(-1)) + big(Int32(1)) + payload
        // Leader epoch, format 2, checksum.
        let rest = big(Int32(-1)) + [2] + big(checksum(covered)) + covered
        return big(Int64(0)) + big(Int32(rest.count)) + rest
    }

    private static func record(key: [UInt8]?, value: [UInt8]) -> [UInt8] {
        var body: [UInt8] = [0] + varint(0) + varint(0)
        body += key.map { varint($0.count) + $0 } ?? varint(-1)
        body += varint(value.count) + value + varint(0)
        return varint(body.count) + body
    }

    /// The record of a marker: its version and kind are the key, a version and the coordinator's epoch the value.
    private static func marker(kind: UInt8, size: Int = 6) -> [UInt8] {
        record(key: [0, 0, 0, kind], value: Array(repeating: 0, count: size))
    }

    private static func varint(_ number: Int) -> [UInt8] {
        var rest = UInt64(bitPattern: Int64(number << 1 ^ number >> 63))
        var bytes: [UInt8] = []
        while rest > 0x7f {
            bytes.append(UInt8(rest & 0x7f) | 0x80)
            rest >>= 7
        }
        return bytes + [UInt8(rest)]
    }

    private static func big(_ number: some FixedWidthInteger) -> [UInt8] {
        withUnsafeBytes(of: number.bigEndian) { Array($0) }
    }

    private static func integer(_ bytes: ArraySlice<UInt8>) -> Int64 {
        bytes.reduce(0) { $0 << 8 | Int64($1) }
    }

    /// CRC-32C.
    private static func checksum(_ bytes: [UInt8]) -> UInt32 {
        var sum: UInt32 = .max
        for byte in bytes {
            sum ^= UInt32(byte)
            for _ in 0..<8 { sum = sum >> 1 ^ (sum & 1 == 1 ? 0x82f6_3b78 : 0) }
        }
        return ~sum
    }
}
