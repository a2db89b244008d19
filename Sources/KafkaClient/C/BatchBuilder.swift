/// Fills the arena of a ``KafkaBatch``. Used on one thread; what it is lent is copied before the call returns.
struct BatchBuilder {
    let maximumMessages: Int
    let maximumBytes: Int

    private var bytes: [UInt8] = []
    private(set) var records: [KafkaBatch.Record] = []
    /// The sizes of the batch before, as the guess for the next one.
    private var expectedBytes = 0
    private var expectedRecords = 0

    init(maximumMessages: Int, maximumBytes: Int) {
        self.maximumMessages = maximumMessages
        self.maximumBytes = maximumBytes
    }

    var isEmpty: Bool { records.isEmpty }
    var isFull: Bool { records.count >= maximumMessages || bytes.count >= maximumBytes }

    /// Begins a record with its key and value; headers may follow.
    mutating func append(
        topicIndex: Int32, partition: Int32, offset: Int64, timestampMilliseconds: Int64,
        key: UnsafeRawBufferPointer?, value: UnsafeRawBufferPointer?
    ) {
        if records.isEmpty {
            bytes.reserveCapacity(expectedBytes)
            records.reserveCapacity(expectedRecords)
        }
        let record = KafkaBatch.Record(
            topicIndex: topicIndex, partition: partition, offset: offset, timestampMilliseconds: timestampMilliseconds,
            start: UInt32(bytes.count), keyLength: unsafe key.map { Int32($0.count) } ?? -1,
            valueLength: unsafe value.map { Int32($0.count) } ?? -1, headersLength: 0)
        if let key = unsafe key { unsafe bytes.append(contentsOf: key) }
        if let value = unsafe value { unsafe bytes.append(contentsOf: value) }
        records.append(record)
    }

    /// Adds a header to the record begun last.
    mutating func appendHeader(name: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer?) {
        let before = bytes.count
        appendLength(Int32(name.count))
        unsafe appendLength(value.map { Int32($0.count) } ?? -1)
        unsafe bytes.append(contentsOf: name)
        if let value = unsafe value { unsafe bytes.append(contentsOf: value) }
        records[records.count - 1].headersLength += UInt32(bytes.count - before)
    }

    private mutating func appendLength(_ length: Int32) {
        let pattern = UInt32(bitPattern: length)
        for byte in 0..<4 { bytes.append(UInt8(truncatingIfNeeded: pattern >> (8 * UInt32(byte)))) }
    }

    /// A record from values in hand.
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

    /// Gives away what was gathered and starts anew.
    mutating func take(topics: [String]) -> KafkaBatch {
        // Room for somewhat more than last time; a single huge batch does not make all later ones large.
        expectedBytes = min(bytes.count + bytes.count / 4, maximumBytes)
        expectedRecords = min(records.count + records.count / 4, maximumMessages)
        defer {
            bytes = []
            records = []
        }
        return KafkaBatch(bytes: bytes, topics: topics, records: records)
    }

    /// Forgets what was gathered of these partitions.
    mutating func remove(_ partitions: Set<TopicPartition>, topics: [String]) {
        var batch = KafkaBatch(bytes: [], topics: topics, records: records)
        batch.remove(partitions)
        records = batch.records
        if records.isEmpty { bytes = [] }
    }
}

/// Lends the bytes, or nil for null. An empty array is lent as an empty buffer, never as nil.
func withOptionalBytes<Result>(
    _ bytes: [UInt8]?, _ body: (UnsafeRawBufferPointer?) throws -> Result
) rethrows -> Result {
    guard let bytes else { return try body(nil) }
    return try unsafe bytes.withUnsafeBytes { try unsafe body($0) }
}
