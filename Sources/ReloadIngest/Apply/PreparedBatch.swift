import KafkaClient
import WidgetEvents
import WidgetModel
import WidgetStore

/// A polled batch, decoded: every message is an event, or will be a dead letter.
struct PreparedBatch: Sendable {
    struct Item: Sendable {
        enum Content: Sendable {
            case event(BatchEvent)
            case rejected(RejectedEvent)
        }

        let partition: TopicPartition
        let offset: Int64
        var content: Content
    }

    let batch: KafkaBatch
    var items: [Item]

    init(_ batch: KafkaBatch, topics: IngestConfiguration.Topics, decoder: EventDecoder) {
        self.batch = batch
        let sorts = batch.topics.map { name in topics.all.firstIndex(of: name) }
        let partitions = PartitionNames(batch)
        items = (0..<batch.count).map { index in
            let record = batch.records[index]
            let sort = sorts[Int(record.topicIndex)]
            let content = Self.decode(index, record, sort: sort, batch, decoder)
            return Item(partition: partitions[record], offset: record.offset, content: content)
        }
    }

    private static func decode(
        _ index: Int, _ record: KafkaBatch.Record, sort: Int?, _ batch: KafkaBatch, _ decoder: EventDecoder
    ) -> Item.Content {
        let topics: [EventTopic] = [.pushes, .appChanges, .widgets]
        guard let sort else {
            return .rejected(
                RejectedEvent(record: index, app: nil, code: "wrongTopic", message: "no topic that ingest reads"))
        }
        let headers = batch.headers(index).lazy.map { (name: $0.name, value: $0.value) }
        switch decoder.decode(bytes: batch.bytes, value: batch.value(index), headers: headers, topic: topics[sort]) {
        case .success(let decoded):
            return .event(
                BatchEvent(
                    record: index,
                    position: EventPosition(
                        topic: Int16(sort), partition: record.partition, offset: record.offset),
                    time: time(of: decoded.envelope, record), event: decoded.event))
        case .failure(let error):
            return .rejected(
                RejectedEvent(
                    record: index, app: error.app, code: error.code.rawValue, message: error.description,
                    pointer: error.pointer))
        }
    }

    /// When the event happened: its own time, else the broker's. A time more than five minutes after the message's own
    /// timestamp is taken for a wrong clock: otherwise one event from next year would override all that follow it.
    private static func time(of envelope: EventEnvelope, _ record: KafkaBatch.Record) -> Timestamp? {
        guard record.timestampMilliseconds >= 0 else { return envelope.time }
        let broker = Timestamp(microseconds: record.timestampMilliseconds.multipliedClamping(by: 1000))
        guard let time = envelope.time else { return broker }
        return min(time, broker + .seconds(300))
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

/// The batch's partitions by record, each made once.
private struct PartitionNames {
    private let names: [Int64: TopicPartition]

    init(_ batch: KafkaBatch) {
        var names: [Int64: TopicPartition] = [:]
        for (index, record) in batch.records.enumerated() where names[Self.key(record)] == nil {
            names[Self.key(record)] = batch.topicPartition(index)
        }
        self.names = names
    }

    subscript(record: KafkaBatch.Record) -> TopicPartition {
        names[Self.key(record)] ?? TopicPartition(topic: "", partition: record.partition)
    }

    private static func key(_ record: KafkaBatch.Record) -> Int64 {
        Int64(record.topicIndex) << 32 | Int64(record.partition)
    }
}

extension Int64 {
    fileprivate func multipliedClamping(by factor: Int64) -> Int64 {
        let (product, overflow) = multipliedReportingOverflow(by: factor)
        return overflow ? .max : product
    }
}
