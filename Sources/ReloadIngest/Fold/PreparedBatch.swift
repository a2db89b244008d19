import KafkaClient
import WidgetEvents
import WidgetModel
import WidgetStore

/// A decoded batch: every message is an event or becomes a dead letter.
struct PreparedBatch: Sendable {
    let batch: KafkaBatch
    private var read: ReadRecords
    /// Partitions of the batch's messages.
    let places: [TopicPartition]
    /// Indices into ``places`` by message.
    private let placeIndices: [Int32]
    private let topics: IngestTopics
    private let decoder: EventDecoder
    /// Indices of ingest's topics by the batch's topic index.
    private let sorts: [Int16]

    init(_ batch: KafkaBatch, topics: IngestTopics, decoder: EventDecoder) {
        self.batch = batch
        self.topics = topics
        self.decoder = decoder
        if let annotation = batch.annotation as? ReadRecords, annotation.records.count == batch.count {
            read = annotation
        } else {
            read = RecordReader.read(batch, topics: topics, decoder: decoder)
        }
        sorts = batch.topics.map { Int16(topics.all.firstIndex(of: $0) ?? 0) }
        (places, placeIndices) = Self.places(of: batch)
    }

    /// Partitions, and the index of each message's. Messages of one partition come in runs.
    private static func places(of batch: KafkaBatch) -> ([TopicPartition], [Int32]) {
        var places: [TopicPartition] = []
        var indices: [Int32] = []
        indices.reserveCapacity(batch.count)
        var numbers: [Int64: Int32] = [:]
        var last: (key: Int64, number: Int32) = (-1, 0)
        for (index, record) in batch.records.enumerated() {
            let key = Int64(record.topicIndex) << 32 | Int64(record.partition)
            if key != last.key {
                if let number = numbers[key] {
                    last = (key, number)
                } else {
                    last = (key, Int32(truncatingIfNeeded: places.count))
                    numbers[key] = last.number
                    places.append(batch.topicPartition(index))
                }
            }
            indices.append(last.number)
        }
        return (places, indices)
    }

    /// Indices of all messages.
    var items: [Int32] { (0..<Int32(truncatingIfNeeded: batch.count)).map { $0 } }

    /// The items that are still to be applied, in order.
    ///
    /// - Parameter next: first offset to apply by place; nil for none.
    func due(_ items: [Int32], from next: [Int64?]) -> [Int32] {
        let first = next.map { $0 ?? .max }
        return items.filter { batch.records[Int($0)].offset >= first[Int(placeIndices[Int($0)])] }
    }

    /// The offset after the last of these items by partition.
    func next(after items: ArraySlice<Int32>) -> [TopicPartition: Int64] {
        var next = places.map { _ in Int64(-1) }
        for item in items { next[Int(placeIndices[Int(item)])] = batch.records[Int(item)].offset + 1 }
        return Dictionary(
            zip(places, next).filter { $0.1 >= 0 }.map { ($0.0, $0.1) }, uniquingKeysWith: { $1 })
    }

    /// Folds the first of these items, as many as need at most `limit` rows of SQL input.
    ///
    /// - Parameter diverted: apps whose events are diverted.
    /// - Returns: the fold and the number of its items, at least one if there is any.
    func fold(
        _ items: [Int32], _ directory: KindDirectory, _ diverted: Set<Int32> = [], limit: Int = .max
    ) -> (fold: BatchFold, count: Int) {
        var fold = BatchFold(directory: directory, divertedApps: diverted)
        let bytes = batch.bytes.span.bytes
        for (count, item) in items.enumerated() {
            if count > 0, fold.markCount >= limit { return (fold, count) }
            let index = Int(item)
            switch read.records[index] {
            case .request(let request):
                let record = batch.records[index]
                let position = EventPosition(
                    topic: sorts[Int(record.topicIndex)], partition: record.partition, offset: record.offset)
                if !fold.add(request, in: bytes, at: position) { add(content(index), to: &fold) }
            case .content(let number):
                add(read.contents[Int(number)], to: &fold)
            }
        }
        return (fold, items.count)
    }

    private func add(_ content: ReadRecords.Content, to fold: inout BatchFold) {
        switch content {
        case .event(let event): fold.add(event)
        case .rejected(let event): fold.reject(event)
        case .repeated: break
        }
    }

    /// Content of a message.
    func content(_ index: Int) -> ReadRecords.Content {
        switch read.records[index] {
        case .request: RecordReader.content(index, of: batch, topics: topics, decoder: decoder)
        case .content(let number): read.contents[Int(number)]
        }
    }

    /// Place of a message as text: `freshet.pushes/3@1042`.
    func place(_ index: Int) -> String {
        let record = batch.records[index]
        return "\(batch.topic(index))/\(record.partition)@\(record.offset)"
    }

    /// Index of a message's type in ``EventType/allCases``, or their count for an unknown type.
    func typeIndex(_ index: Int) -> Int {
        switch read.records[index] {
        case .request(let request): return Self.typeIndices[Int(request.reason.rawValue)]
        case .content(let number):
            guard case .event(let event) = read.contents[Int(number)] else { return EventType.allCases.count }
            return EventType(event.event).index
        }
    }

    /// Indices of types by the reason's raw value.
    private static let typeIndices: [Int] = (0...(ReloadReason.allCases.map { Int($0.rawValue) }.max() ?? 0)).map {
        ReloadReason(rawValue: Int16($0)).map { EventType($0).index } ?? EventType.allCases.count
    }

    /// Event of a message; nil if it cannot be decoded.
    func event(_ index: Int) -> BatchEvent? {
        switch RecordReader.content(index, of: batch, topics: topics, decoder: decoder) {
        case .event(let event): event
        case .rejected, .repeated: nil
        }
    }

    /// Turns a message into a rejected one.
    mutating func reject(_ index: Int, code: String, message: String) {
        let rejected =
            switch content(index) {
            case .event(let event):
                RejectedEvent(
                    record: index, app: event.event.app, code: code, message: message,
                    keepsOutcome: event.handling.keepsOutcome)
            case .rejected(let event): RejectedEvent(record: index, app: event.app, code: code, message: message)
            case .repeated: RejectedEvent(record: index, app: nil, code: code, message: message)
            }
        read.replace(index, by: .rejected(rejected))
    }

    /// The events of these items whose publishers keep to their ids, such as the HTTP API's, which is asked again.
    func repeatable(_ items: [Int32]) -> [RepeatableEvent] {
        items.compactMap { item in
            guard case .content(let number) = read.records[Int(item)],
                case .event(let event) = read.contents[Int(number)],
                event.handling.keepsOutcome
            else { return nil }
            return (
                item, event.event.app, event.id, event.source, event.handling.user, batch.topic(event.record),
                event.position.partition, event.position.offset
            )
        }
    }

    /// Leaves messages out: these, and what repeats another one of these events.
    mutating func leaveOut(_ repeated: [Int32], of events: [RepeatableEvent]) {
        for record in repeated { read.replace(Int(record), by: .repeated) }
        var seen: Set<[[UInt8]]> = []
        for event in events {
            if !seen.insert(BatchEvent.identity(event.app, event.id, event.source, event.user)).inserted { read.replace(Int(event.record), by: .repeated) }
        }
    }

    /// The dead letter of a message.
    func deadLetter(_ event: RejectedEvent) -> DeadLetter {
        let record = batch.records[event.record]
        return DeadLetter(
            topic: batch.topic(event.record), partition: record.partition, offset: record.offset,
            app: event.app, code: event.code, error: event.message, pointer: event.pointer,
            messageTime: record.timestampMilliseconds < 0 ? nil : record.timestampMilliseconds,
            key: batch.key(event.record).map { Array(batch.bytes[$0]) },
            headers: batch.headerValues(event.record).map { (name: $0.name, value: $0.value) },
            payload: batch.value(event.record).map { Array(batch.bytes[$0]) })
    }
}
