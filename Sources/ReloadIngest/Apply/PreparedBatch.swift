import KafkaClient
import WidgetEvents
import WidgetModel
import WidgetStore

/// A polled batch, decoded: every message is an event, or will be a dead letter.
struct PreparedBatch: Sendable {
    let batch: KafkaBatch
    private var read: ReadRecords
    /// The partitions that the batch has messages of.
    let places: [TopicPartition]
    /// By the message's index: index into ``places``.
    private let placeIndices: [Int32]
    private let topics: IngestConfiguration.Topics
    private let decoder: EventDecoder
    /// By the batch's topic index: index among the topics that ingest reads.
    private let sorts: [Int16]

    init(_ batch: KafkaBatch, topics: IngestConfiguration.Topics, decoder: EventDecoder) {
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

    /// Messages of one partition come in runs.
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

    /// All messages, by their indices.
    var items: [Int32] { (0..<Int32(truncatingIfNeeded: batch.count)).map { $0 } }

    /// Of the items, in order, those that are still to be applied.
    ///
    /// - Parameter next: by place: the first offset that is, or nil when none is.
    func due(_ items: [Int32], from next: [Int64?]) -> [Int32] {
        let first = next.map { $0 ?? .max }
        return items.filter { batch.records[Int($0)].offset >= first[Int(placeIndices[Int($0)])] }
    }

    /// By partition: the offset that follows the last of these items.
    func next(after items: ArraySlice<Int32>) -> [TopicPartition: Int64] {
        var next = places.map { _ in Int64(-1) }
        for item in items { next[Int(placeIndices[Int(item)])] = batch.records[Int(item)].offset + 1 }
        return Dictionary(
            zip(places, next).filter { $0.1 >= 0 }.map { ($0.0, $0.1) }, uniquingKeysWith: { $1 })
    }

    /// Folds the first of these items: all of them, unless they come to more rows of SQL input than `limit`.
    ///
    /// - Parameter diverted: apps whose events wait.
    /// - Returns: the fold, and how many items are in it; at least one if there is one.
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
        }
    }

    /// What one of the messages says.
    func content(_ index: Int) -> ReadRecords.Content {
        switch read.records[index] {
        case .request: RecordReader.content(index, of: batch, topics: topics, decoder: decoder)
        case .content(let number): read.contents[Int(number)]
        }
    }

    /// Where a message stands, for people: `freshet.pushes/3@1042`.
    func place(_ index: Int) -> String {
        let record = batch.records[index]
        return "\(batch.topic(index))/\(record.partition)@\(record.offset)"
    }

    /// The index of a message's type among ``EventType/allCases``; one past them when its type is not known.
    func typeIndex(_ index: Int) -> Int {
        switch read.records[index] {
        case .request(let request): return Self.typeIndices[Int(request.reason.rawValue)]
        case .content(let number):
            guard case .event(let event) = read.contents[Int(number)] else { return EventType.allCases.count }
            return EventType(event.event).index
        }
    }

    /// By the reason's raw value.
    private static let typeIndices: [Int] = (0...(ReloadReason.allCases.map { Int($0.rawValue) }.max() ?? 0)).map {
        ReloadReason(rawValue: Int16($0)).map { EventType($0).index } ?? EventType.allCases.count
    }

    /// From now on the message is one that becomes a dead letter.
    mutating func reject(_ index: Int, code: String, message: String) {
        let app =
            switch content(index) {
            case .event(let event): Optional(event.event.app)
            case .rejected(let event): event.app
            }
        read.replace(
            index, by: .rejected(RejectedEvent(record: index, app: app, code: code, message: message)))
    }

    /// The dead letter of one of the batch's messages, with the whole message.
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
