// SPDX-License-Identifier: Apache-2.0

internal import CRdKafka
internal import Glibc

/// Fills the arena of a ``KafkaBatch``, by one thread at a time. Lent bytes are copied before the call returns.
struct BatchBuilder {
    let maximumMessages: Int
    let maximumBytes: Int
    /// Names for the messages' topic indices.
    var topics: [String]
    /// ``KafkaBatch/backlog`` of the next batch.
    var backlog: Int64 = 0
    /// Numbers of messages and batches that were taken.
    private(set) var messages: Int64 = 0
    private(set) var batches: Int64 = 0

    /// The arena. The first `used` bytes hold messages, the rest is free.
    private var bytes: [UInt8] = []
    private var used = 0
    private(set) var records: [KafkaBatch.Record] = []
    /// Expected sizes of the next batch, derived from the previous batch.
    private var expectedBytes = 0
    private var expectedRecords = 0

    private static let leastRoom = 4096
    private static let mostRoom = 262_144

    init(maximumMessages: Int, maximumBytes: Int, topics: [String] = []) {
        (self.maximumMessages, self.maximumBytes, self.topics) = (maximumMessages, maximumBytes, topics)
    }

    var isEmpty: Bool { records.isEmpty }
    var isFull: Bool { records.count >= maximumMessages || used >= maximumBytes }

    /// Begins a record with its key and value; headers may follow.
    mutating func append(
        topicIndex: Int32, partition: Int32, offset: Int64, timestampMilliseconds: Int64,
        key: UnsafeRawBufferPointer?, value: UnsafeRawBufferPointer?
    ) {
        if records.isEmpty {
            bytes.reserveCapacity(expectedBytes)
            records.reserveCapacity(expectedRecords)
        }
        let start = used
        makeRoom(unsafe (key?.count ?? 0) + (value?.count ?? 0))
        if let key = unsafe key { unsafe write(key) }
        if let value = unsafe value { unsafe write(value) }
        records.append(
            KafkaBatch.Record(
                topicIndex: topicIndex, partition: partition, offset: offset,
                timestampMilliseconds: timestampMilliseconds, start: UInt32(start),
                keyLength: unsafe key.map { Int32($0.count) } ?? -1,
                valueLength: unsafe value.map { Int32($0.count) } ?? -1, headersLength: 0))
    }

    /// Adds a header to the latest record.
    mutating func appendHeader(name: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer?) {
        let before = used
        makeRoom(unsafe KafkaBatch.headerPrefixLength + name.count + (value?.count ?? 0))
        write(Int32(name.count))
        unsafe write(value.map { Int32($0.count) } ?? -1)
        unsafe write(name)
        if let value = unsafe value { unsafe write(value) }
        records[records.count - 1].headersLength += UInt32(used - before)
    }

    /// Grows the arena in large steps, so that most messages need no allocation.
    private mutating func makeRoom(_ count: Int) {
        guard used + count > bytes.count else { return }
        let room = max(count, min(max(bytes.count, Self.leastRoom), Self.mostRoom))
        bytes.append(contentsOf: repeatElement(0, count: used + room - bytes.count))
    }

    /// Copies bytes into space that `makeRoom` has provided.
    private mutating func write(_ source: UnsafeRawBufferPointer) {
        guard source.count > 0 else { return }
        unsafe bytes.withUnsafeMutableBytes { target in
            unsafe UnsafeMutableRawBufferPointer(rebasing: target[used..<(used + source.count)])
                .copyMemory(from: source)
        }
        used += source.count
    }

    private mutating func write(_ length: Int32) {
        unsafe bytes.withUnsafeMutableBytes { target in
            unsafe target.storeBytes(of: length.littleEndian, toByteOffset: used, as: Int32.self)
        }
        used += MemoryLayout<Int32>.size
    }

    /// Appends a record from values.
    mutating func append(
        topicIndex: Int32, partition: Int32, offset: Int64, timestampMilliseconds: Int64, key: [UInt8]?,
        value: [UInt8]?, headers: [KafkaHeader]
    ) {
        unsafe withOptionalBytes(key) { key in
            unsafe withOptionalBytes(value) { value in
                unsafe append(
                    topicIndex: topicIndex, partition: partition, offset: offset,
                    timestampMilliseconds: timestampMilliseconds, key: key, value: value)
            }
        }
        for header in headers {
            unsafe withOptionalBytes(Array(header.name.utf8)) { name in
                unsafe withOptionalBytes(header.value) { value in
                    if let name = unsafe name { unsafe appendHeader(name: name, value: value) }
                }
            }
        }
    }

    /// Returns the gathered messages as a batch and starts a new one; nil without messages.
    mutating func take() -> KafkaBatch? {
        guard !isEmpty else { return nil }
        // Reserves a quarter more than the last batch used, so that a single huge batch does not make all later ones
        // large.
        expectedBytes = min(used + used / 4, maximumBytes)
        expectedRecords = min(records.count + records.count / 4, maximumMessages)
        bytes.removeLast(bytes.count - used)
        defer {
            bytes = []
            used = 0
            records = []
        }
        batches += 1
        messages += Int64(records.count)
        return KafkaBatch(bytes: bytes, topics: topics, records: records, backlog: backlog)
    }

    /// Drops the gathered messages of these partitions.
    mutating func remove(_ partitions: Set<TopicPartition>) {
        var batch = KafkaBatch(bytes: [], topics: topics, records: records)
        batch.remove(partitions)
        records = batch.records
        if records.isEmpty {
            bytes = []
            used = 0
        }
    }
}

/// Lends the bytes, or nil for null. An empty array is lent as an empty buffer, never as nil.
func withOptionalBytes<Result>(
    _ bytes: [UInt8]?, _ body: (UnsafeRawBufferPointer?) throws -> Result
) rethrows -> Result {
    guard let bytes else { return try body(nil) }
    return try unsafe bytes.withUnsafeBytes { try unsafe body($0) }
}

extension BatchBuilder {
    /// Copies a message. The caller keeps the message, which needs to be valid only during the call.
    mutating func append(_ message: UnsafeMutablePointer<rd_kafka_message_t>, topicIndex: Int32) {
        var kind = RD_KAFKA_TIMESTAMP_NOT_AVAILABLE
        let timestamp = unsafe rd_kafka_message_timestamp(message, &kind)
        unsafe append(
            topicIndex: topicIndex, partition: message.pointee.partition, offset: message.pointee.offset,
            timestampMilliseconds: kind == RD_KAFKA_TIMESTAMP_NOT_AVAILABLE ? -1 : timestamp,
            key: Self.bytes(message.pointee.key, message.pointee.key_len),
            value: Self.bytes(message.pointee.payload, message.pointee.len))

        var headers: OpaquePointer?
        guard unsafe rd_kafka_message_headers(message, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR else { return }
        var index = 0
        var name: UnsafePointer<CChar>?
        var value: UnsafeRawPointer?
        var size = 0
        while unsafe rd_kafka_header_get_all(headers, index, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR {
            index += 1
            guard let name = unsafe name else { continue }
            unsafe appendHeader(
                name: UnsafeRawBufferPointer(start: name, count: strlen(name)), value: Self.bytes(value, size))
        }
    }

    /// The bytes at a pointer; nil for a null pointer. librdkafka gives an empty value a pointer.
    private static func bytes(_ start: UnsafeRawPointer?, _ count: Int) -> UnsafeRawBufferPointer? {
        unsafe start.map { unsafe UnsafeRawBufferPointer(start: $0, count: count) }
    }
}

extension KafkaBatch {
    /// Makes the batch that a consumer would deliver with messages of these offsets, for tests and replays. A message
    /// without a partition is of the first one.
    package init(_ messages: [(offset: Int64, message: KafkaMessage)]) {
        var builder = BatchBuilder(maximumMessages: max(messages.count, 1), maximumBytes: .max)
        for (offset, message) in messages {
            let topicIndex = builder.topics.firstIndex(of: message.topic) ?? builder.topics.endIndex
            if topicIndex == builder.topics.endIndex { builder.topics.append(message.topic) }
            builder.append(
                topicIndex: Int32(topicIndex), partition: message.partition ?? 0, offset: offset,
                timestampMilliseconds: message.timestampMilliseconds ?? -1, key: message.key, value: message.value,
                headers: message.headers)
        }
        self = builder.take() ?? KafkaBatch(bytes: [], topics: [], records: [])
    }
}
