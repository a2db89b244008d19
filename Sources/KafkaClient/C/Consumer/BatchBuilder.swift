/// Fills the arena of a ``KafkaBatch``. Used on one thread; lent bytes are copied before the call returns.
struct BatchBuilder {
    let maximumMessages: Int
    let maximumBytes: Int

    /// The arena: the first `used` bytes hold messages, the rest is room.
    private var bytes: [UInt8] = []
    private var used = 0
    private(set) var records: [KafkaBatch.Record] = []
    /// The sizes of the batch before, as the guess for the next one.
    private var expectedBytes = 0
    private var expectedRecords = 0

    private static let leastRoom = 4096
    private static let mostRoom = 262_144

    init(maximumMessages: Int, maximumBytes: Int) {
        self.maximumMessages = maximumMessages
        self.maximumBytes = maximumBytes
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

    /// Adds a header to the record begun last.
    mutating func appendHeader(name: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer?) {
        let before = used
        makeRoom(unsafe KafkaBatch.headerPrefixLength + name.count + (value?.count ?? 0))
        write(Int32(name.count))
        unsafe write(value.map { Int32($0.count) } ?? -1)
        unsafe write(name)
        if let value = unsafe value { unsafe write(value) }
        records[records.count - 1].headersLength += UInt32(used - before)
    }

    /// Grows the arena in large steps, so that little is to be done for each message.
    private mutating func makeRoom(_ count: Int) {
        guard used + count > bytes.count else { return }
        let room = max(count, min(max(bytes.count, Self.leastRoom), Self.mostRoom))
        bytes.append(contentsOf: repeatElement(0, count: used + room - bytes.count))
    }

    /// Into room that was made.
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

    /// Shows a reader the record begun last, once its headers are there.
    func readLast(with reader: any KafkaMessageReader, topics: [String]) {
        reader.read(records[records.count - 1], in: bytes, topics: topics)
    }

    /// Shows a reader all records.
    func readAll(with reader: any KafkaMessageReader, topics: [String]) {
        for record in records { reader.read(record, in: bytes, topics: topics) }
    }

    /// Gives away what was gathered and starts anew.
    mutating func take(topics: [String]) -> KafkaBatch {
        // Room for somewhat more than last time; a single huge batch does not make all later ones large.
        expectedBytes = min(used + used / 4, maximumBytes)
        expectedRecords = min(records.count + records.count / 4, maximumMessages)
        bytes.removeLast(bytes.count - used)
        defer {
            bytes = []
            used = 0
            records = []
        }
        return KafkaBatch(bytes: bytes, topics: topics, records: records)
    }

    /// Forgets what was gathered of these partitions.
    mutating func remove(_ partitions: Set<TopicPartition>, topics: [String]) {
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
