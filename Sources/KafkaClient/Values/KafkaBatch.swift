// SPDX-License-Identifier: Apache-2.0

/// Messages that were read together.
///
/// One contiguous byte array owns a copy of all keys, values and headers, and the records point into it: a batch of
/// thousands of messages is two allocations, cheap to pass between tasks. Per partition the records are in offset
/// order.
package struct KafkaBatch: Sendable {
    /// Position of a message, and of its parts in ``KafkaBatch/bytes``.
    package struct Record: Sendable, BitwiseCopyable {
        /// Index into ``KafkaBatch/topics``.
        package var topicIndex: Int32
        package var partition: Int32
        package var offset: Int64
        /// Milliseconds since 1970, -1 if the message has none.
        package var timestampMilliseconds: Int64

        /// Key, value and headers lie behind one another from here on.
        @usableFromInline var start: UInt32
        /// -1 is null.
        @usableFromInline var keyLength: Int32
        /// -1 is null.
        @usableFromInline var valueLength: Int32
        @usableFromInline var headersLength: UInt32

        var keyRange: Range<Int>? {
            keyLength < 0 ? nil : Int(start)..<Int(start) + Int(keyLength)
        }

        /// The value's range in the batch's bytes; `nil` for a null value.
        @inlinable package var valueRange: Range<Int>? {
            guard valueLength >= 0 else { return nil }
            let lower = Int(start) + Int(max(keyLength, 0))
            return lower..<lower + Int(valueLength)
        }

        @inlinable package var headersRange: Range<Int> {
            let lower = Int(start) + Int(max(keyLength, 0)) + Int(max(valueLength, 0))
            return lower..<lower + Int(headersLength)
        }
    }

    package internal(set) var bytes: [UInt8]
    /// Names that the records' `topicIndex` refers to; some may have no record here.
    package internal(set) var topics: [String]
    package internal(set) var records: [Record]
    /// Number of messages behind the batch's first one in the logs of all assigned partitions, as of the latest
    /// fetches. Counted at most every 20 ms.
    package internal(set) var backlog: Int64 = 0

    /// Number of messages behind the batch's last one, likewise.
    package var waiting: Int64 { max(0, backlog + 1 - Int64(count)) }

    package var count: Int { records.count }
    package var isEmpty: Bool { records.isEmpty }

    package func topicPartition(_ index: Int) -> TopicPartition {
        let record = records[index]
        return TopicPartition(topic: topics[Int(record.topicIndex)], partition: record.partition)
    }

    package func topic(_ index: Int) -> String { topics[Int(records[index].topicIndex)] }

    /// The value's range in ``bytes``; `nil` for a null value (a tombstone), empty for an empty one.
    package func value(_ index: Int) -> Range<Int>? { records[index].valueRange }

    /// The key's range in ``bytes``; `nil` for a null key.
    package func key(_ index: Int) -> Range<Int>? { records[index].keyRange }

    /// The message's headers, in their order.
    package func headers(_ index: Int) -> [Header] {
        var headers: [Header] = []
        Self.forEachHeader(of: records[index], in: bytes) { headers.append((name: $0, value: $1)) }
        return headers
    }

    /// The range of the value of the last header of this name (Kafka's rule when a name is repeated); `nil` if there is
    /// none, or if its value is null.
    package func header(_ index: Int, named name: String) -> Range<Int>? {
        var found: Range<Int>?
        for header in headers(index) where bytes[header.name].elementsEqual(name.utf8) { found = header.value }
        return found
    }

    /// A copy of a message's headers as values.
    package func headerValues(_ index: Int) -> [KafkaHeader] {
        headers(index).map { header in
            KafkaHeader(
                name: String(decoding: bytes[header.name], as: UTF8.self), value: header.value.map { Array(bytes[$0]) })
        }
    }

    /// Without the records of these partitions. The bytes stay: this is for the rare seek.
    mutating func remove(_ partitions: Set<TopicPartition>) {
        let topics = topics
        records.removeAll {
            partitions.contains(TopicPartition(topic: topics[Int($0.topicIndex)], partition: $0.partition))
        }
    }
}

extension KafkaBatch {
    /// A header's name and value as ranges in ``KafkaBatch/bytes``; the value is `nil` if it is null.
    package typealias Header = (name: Range<Int>, value: Range<Int>?)

    /// Bytes before the name of each header in the arena: the lengths of name and value (-1 for null) as 32-bit
    /// little-endian integers.
    static let headerPrefixLength = 8

    /// Appends the lengths in front of a header's name. Kafka's protocol limits both to 32 bits.
    ///
    /// - Parameter value: `nil` for a null value.
    static func appendHeaderLengths(name: Int, value: Int?, to bytes: inout [UInt8]) {
        for length in [Int32(name), value.map { Int32($0) } ?? -1] {
            unsafe withUnsafeBytes(of: length.littleEndian) { unsafe bytes.append(contentsOf: $0) }
        }
    }

    /// Calls `body` with the name and the value of each header of a record, in their order; without copying anything.
    @inlinable
    package static func forEachHeader(
        of record: Record, in bytes: [UInt8], _ body: (_ name: Range<Int>, _ value: Range<Int>?) -> Void
    ) {
        forEachHeader(at: record.headersRange, in: bytes, body)
    }

    /// Calls `body` with the name and the value of each header in a range.
    @inlinable
    static func forEachHeader(
        at headers: Range<Int>, in bytes: [UInt8], _ body: (_ name: Range<Int>, _ value: Range<Int>?) -> Void
    ) {
        let raw = unsafe bytes.span.bytes
        var position = headers.lowerBound
        while position < headers.upperBound {
            // Any four bytes are an Int32, and the loads are checked against the array's bounds.
            let nameLength = unsafe Int32(
                littleEndian: raw.unsafeLoadUnaligned(fromByteOffset: position, as: Int32.self))
            let valueLength = unsafe Int32(
                littleEndian: raw.unsafeLoadUnaligned(fromByteOffset: position &+ 4, as: Int32.self))
            let name = position &+ 8..<position &+ 8 &+ Int(nameLength)
            position = name.upperBound &+ Int(max(valueLength, 0))
            body(name, valueLength < 0 ? nil : name.upperBound..<position)
        }
    }
}

/// An event of a consumer. Events come in order.
package enum KafkaConsumerEvent: Sendable {
    case batch(KafkaBatch)
    /// Ends of logs behind offsets without messages: markers of transactions, or aborted or compacted messages. Reading
    /// goes on there. Reported within a second or two.
    case advanced([TopicPartition: Int64])
    /// ``KafkaConsumer/interrupt()`` was called.
    case interrupted
    /// The log does not have this offset: messages that were never read are gone, or the position is of another log.
    /// The partition is not fetched until ``KafkaConsumer/assign(_:)``.
    case offsetOutOfRange(TopicPartition, offset: Int64)
    /// The log has another message at this offset than the one that was read before (``KafkaOffset/behind(_:next:)``).
    /// The partition is not fetched until ``KafkaConsumer/assign(_:)``.
    case otherLog(TopicPartition, offset: Int64)
    /// The batch at this offset cannot be read. The partition is paused and tried again at intervals
    /// (``KafkaConsumerConfiguration/unreadableRetry``), and each failure is reported.
    case unreadable(TopicPartition, offset: Int64, reason: String)
    /// An error from which the client recovers itself. A fatal error is thrown instead.
    case error(KafkaError)
}

/// Counts over the life of a consumer.
package struct KafkaConsumerCounters: Hashable, Sendable {
    /// Messages handed over.
    package var messages: Int64 = 0
    package var batches: Int64 = 0
    /// Holes in the offsets (transaction markers, compaction).
    package var gaps: Int64 = 0
    /// Pauses of fetching because the receiver was slow.
    package var pauses: Int64 = 0
}
