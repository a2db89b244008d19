import KafkaClient
import WidgetEvents
import WidgetModel
import WidgetStore

/// A decoded batch: every message is an event or becomes a dead letter.
struct PreparedBatch: Sendable {
    let batch: KafkaBatch
    private var contents: [RecordContent]
    private let decoder: RecordDecoder

    init(_ batch: KafkaBatch, decoder: RecordDecoder) {
        self.batch = batch
        self.decoder = decoder
        let topics = batch.topics.map(decoder.topic)
        contents = batch.records.indices.map { index in
            let record = batch.records[index]
            return decoder.content(index, record, batch.bytes, topic: topics[Int(record.topicIndex)])
        }
    }

    /// Indices of all messages.
    var items: [Int] { Array(batch.records.indices) }

    /// The items that have not been applied yet, in order.
    ///
    /// - Parameter next: first offset to apply; nil for none.
    func due(_ items: [Int], from next: (TopicPartition) -> Int64?) -> [Int] {
        items.filter { item in
            next(batch.topicPartition(item)).map { batch.records[item].offset >= $0 } ?? false
        }
    }

    /// The last message of these items by partition.
    func last(of items: ArraySlice<Int>) -> [TopicPartition: KafkaFingerprint] {
        var last: [TopicPartition: Int] = [:]
        for item in items { last[batch.topicPartition(item)] = item }
        return last.mapValues(batch.fingerprint)
    }

    /// Folds the first of these items, as many as fit in `limit` rows of SQL input.
    ///
    /// - Parameters:
    ///   - diverted: apps whose events are diverted.
    ///   - full: diverted apps whose further events on shared topics are dropped.
    ///   - fullTopics: topics whose further events of no registered app are dropped.
    /// - Returns: the fold and the number of its items, at least one if there is any.
    func fold(
        _ items: [Int], _ directory: KindDirectory, _ diverted: Set<Int32> = [], full: Set<Int32> = [],
        fullTopics: Set<String> = [], limit: Int = .max
    ) -> (fold: BatchFold, count: Int) {
        var fold = BatchFold(directory: directory, divertedApps: diverted, fullApps: full)
        fold.reserve(min(items.count, limit))
        for (count, item) in items.enumerated() {
            if count > 0, fold.markCount >= limit { return (fold, count) }
            let isShared = full.isEmpty || decoder.isShared(batch.topic(item))
            let isFull = !fullTopics.isEmpty && fullTopics.contains(batch.topic(item))
            switch contents[item] {
            case .event(let event): fold.add(event, isTopicShared: isShared, isTopicFull: isFull)
            case .rejected(let event): fold.reject(event, isTopicShared: isShared, isTopicFull: isFull)
            case .repeated: break
            }
        }
        return (fold, items.count)
    }

    /// Content of a message.
    func content(_ index: Int) -> RecordContent { contents[index] }

    /// Type of a message's event; nil if it cannot be applied.
    func type(_ index: Int) -> EventType? {
        guard case .event(let event) = contents[index] else { return nil }
        return event.event.type
    }

    /// Place of a message as text, such as `freshet.pushes/3@1042`.
    func place(_ index: Int) -> String {
        let record = batch.records[index]
        return "\(batch.topic(index))/\(record.partition)@\(record.offset)"
    }

    /// Event of a message, including a message that was turned into a rejected one; nil if it cannot be decoded.
    func event(_ index: Int) -> BatchEvent? {
        guard case .event(let event) = decoder.content(index, of: batch) else { return nil }
        return event
    }

    /// Turns a message into a rejected one.
    mutating func reject(_ index: Int, code: String, message: String) {
        let rejected =
            switch contents[index] {
            case .event(let event):
                RejectedEvent(
                    record: index, app: event.event.app, code: code, message: message,
                    keepsOutcome: event.handling.keepsOutcome)
            case .rejected(let event): RejectedEvent(record: index, app: event.app, code: code, message: message)
            case .repeated: RejectedEvent(record: index, app: nil, code: code, message: message)
            }
        contents[index] = .rejected(rejected)
    }

    /// The events among these items whose publishers reuse the id when they repeat a request, such as the HTTP API's.
    func repeatable(_ items: [Int]) -> [RepeatableEvent] {
        items.compactMap { item in
            guard case .event(let event) = contents[item], event.handling.keepsOutcome else { return nil }
            return (
                Int32(item), event.event.app, event.id, event.source, event.handling.user, batch.topic(event.record),
                event.position.partition, event.position.offset
            )
        }
    }

    /// Leaves out the repeated messages, and those that repeat another one of these events.
    mutating func leaveOut(_ repeated: [Int32], of events: [RepeatableEvent]) {
        for record in repeated { contents[Int(record)] = .repeated }
        var seen: Set<[[UInt8]]> = []
        for event in events {
            let identity = BatchEvent.identity(event.app, event.id, event.source, event.user)
            if !seen.insert(identity).inserted { contents[Int(event.record)] = .repeated }
        }
    }

    /// The dead letter of a message, without the token of a device.
    func deadLetter(_ event: RejectedEvent) -> DeadLetter {
        let record = batch.records[event.record]
        var attributes = EventAttributes()
        KafkaBatch.forEachHeader(of: record, in: batch.bytes) { attributes.note(name: $0, value: $1, in: batch.bytes) }
        return DeadLetter(
            topic: batch.topic(event.record), partition: record.partition, offset: record.offset,
            app: event.app, code: event.code, error: event.message, pointer: event.pointer,
            messageTime: record.timestampMilliseconds < 0 ? nil : record.timestampMilliseconds,
            key: batch.key(event.record).map { Array(batch.bytes[$0]) },
            headers: batch.headerValues(event.record).map { (name: $0.name, value: $0.value) },
            payload: batch.value(event.record).flatMap {
                DeviceTokenRedaction.value(of: batch.bytes, $0, attributes: attributes)
            })
    }
}
