import KafkaClient
import WidgetEvents
import WidgetModel
import WidgetStore

/// Decoded messages of a batch, by their index.
struct ReadRecords: Sendable {
    enum Content: Sendable {
        case event(BatchEvent)
        case rejected(RejectedEvent)
        /// An event that has been applied already.
        case repeated
    }

    enum Record: Sendable {
        /// A request in its bytes, as nearly every message is.
        case request(QuickRequest)
        /// Index into ``ReadRecords/contents``.
        case content(Int32)
    }

    fileprivate(set) var records: [Record] = []
    private(set) var contents: [Content] = []

    fileprivate mutating func append(_ content: Content) {
        records.append(.content(Int32(truncatingIfNeeded: contents.count)))
        contents.append(content)
    }

    /// Replaces the content of a message.
    mutating func replace(_ index: Int, by content: Content) {
        records[index] = .content(Int32(truncatingIfNeeded: contents.count))
        contents.append(content)
    }
}

/// Decodes messages on the consumer's poll thread, while the transaction of the previous batch runs.
final class RecordReader: KafkaMessageReader {
    private let topics: IngestTopics
    private let decoder: EventDecoder
    private var read = ReadRecords()
    /// Topics of ingest by the batch's topic index.
    private var sorts: [Sort?] = []
    private var expected = 0

    /// A topic that ingest reads.
    private struct Sort {
        /// Index among ingest's topics.
        let index: Int16
        let topic: EventTopic
        /// Names of the apps whose events it may carry; nil for any.
        let apps: [[UInt8]]?

        init(_ index: Int, of topics: IngestTopics) {
            self.index = Int16(index)
            topic = topics.carries(index)
            apps = topics.allowedApps[topics.all[index]].map { $0.map { Array($0.utf8) } }
        }

        func allows(_ name: some Sequence<UInt8>) -> Bool {
            apps.map { $0.contains { name.elementsEqual($0) } } ?? true
        }
    }

    init(topics: IngestTopics, decoder: EventDecoder) {
        self.topics = topics
        self.decoder = decoder
    }

    /// All messages of a batch.
    static func read(
        _ batch: KafkaBatch, topics: IngestTopics, decoder: EventDecoder
    ) -> ReadRecords {
        let reader = RecordReader(topics: topics, decoder: decoder)
        for record in batch.records { reader.read(record, in: batch.bytes, topics: batch.topics) }
        return reader.read
    }

    func read(_ record: KafkaBatch.Record, in bytes: [UInt8], topics names: [String]) {
        if read.records.isEmpty { read.records.reserveCapacity(expected) }
        let topicIndex = Int(record.topicIndex)
        while sorts.count <= topicIndex {
            let index = topics.all.firstIndex(of: names[sorts.count])
            sorts.append(index.map { Sort($0, of: topics) })
        }
        guard let sort = sorts[topicIndex] else {
            read.append(
                .rejected(
                    RejectedEvent(
                        record: read.records.count, app: nil, code: "wrongTopic",
                        message: "no topic that ingest reads")))
            return
        }
        var attributes = EventAttributes()
        KafkaBatch.forEachHeader(of: record, in: bytes) { name, value in
            attributes.note(name: name, value: value, in: bytes)
        }
        // Traced events and those of the API are rare and fully decoded.
        if !attributes.isSpecial,
            let request = QuickRequest(
                bytes: bytes, value: record.valueRange, attributes: attributes, topic: sort.topic,
                maximumBytes: decoder.maximumEventBytes), sort.allows(bytes[request.app.range])
        {
            read.records.append(.request(request))
            return
        }
        read.append(Self.content(read.records.count, record, bytes, attributes, sort, decoder))
    }

    func take() -> (any Sendable)? {
        defer {
            expected = read.records.count
            read = ReadRecords()
        }
        return read
    }

    /// Content of a message of any type.
    static func content(
        _ index: Int, of batch: KafkaBatch, topics: IngestTopics, decoder: EventDecoder
    ) -> ReadRecords.Content {
        let record = batch.records[index]
        var attributes = EventAttributes()
        KafkaBatch.forEachHeader(of: record, in: batch.bytes) { name, value in
            attributes.note(name: name, value: value, in: batch.bytes)
        }
        let topic = topics.all.firstIndex(of: batch.topic(index)) ?? 0
        return content(
            index, record, batch.bytes, attributes, Sort(topic, of: topics), decoder)
    }

    private static func content(
        _ index: Int, _ record: KafkaBatch.Record, _ bytes: [UInt8], _ attributes: EventAttributes,
        _ sort: Sort, _ decoder: EventDecoder
    ) -> ReadRecords.Content {
        switch decoder.decode(bytes: bytes, value: record.valueRange, attributes: attributes, topic: sort.topic) {
        case .success(let decoded) where !sort.allows(decoded.event.app.utf8):
            return notAllowed(index, decoded.event.app)
        case .success(let decoded):
            do throws(EventError) {
                return .event(
                    BatchEvent(
                        record: index,
                        position: EventPosition(topic: sort.index, partition: record.partition, offset: record.offset),
                        time: time(of: decoded.envelope, record), event: decoded.event,
                        trace: decoded.envelope.traceparent.flatMap { TraceParent($0) }, id: decoded.envelope.id,
                        source: decoded.envelope.source, handling: try EventHandling(attributes, in: bytes)))
            } catch {
                return rejected(index, error, decoded.event.app)
            }
        case .failure(let error):
            // A broken event counts towards the limit of its app, unless the topic may not carry the app's events.
            if let app = error.app, !sort.allows(app.utf8) {
                return notAllowed(index, app, "; besides, \(error.description)")
            }
            return rejected(index, error, error.app)
        }
    }

    private static func rejected(_ index: Int, _ error: EventError, _ app: String?) -> ReadRecords.Content {
        .rejected(
            RejectedEvent(
                record: index, app: app, code: error.code.rawValue, message: error.placedMessage,
                pointer: error.pointer))
    }

    private static func notAllowed(_ index: Int, _ app: String, _ more: String = "") -> ReadRecords.Content {
        .rejected(
            RejectedEvent(
                record: index, app: app, code: DeadLetterCause.notAllowed.rawValue,
                message: "/app: the topic may not carry events of app \(Text.quoted(app))\(more)", pointer: "/app"))
    }

    /// Time of the event: its own, else the broker's. It is at most five minutes after the message's timestamp, so that an
    /// event from a wrong clock does not override all later ones.
    private static func time(of envelope: EventEnvelope, _ record: KafkaBatch.Record) -> Timestamp? {
        guard record.timestampMilliseconds >= 0 else { return envelope.time }
        let broker = Timestamp(microseconds: record.timestampMilliseconds.multipliedClamping(by: 1000))
        guard let time = envelope.time else { return broker }
        return min(time, broker + .seconds(300))
    }
}

extension Int64 {
    fileprivate func multipliedClamping(by factor: Int64) -> Int64 {
        let (product, overflow) = multipliedReportingOverflow(by: factor)
        return overflow ? .max : product
    }
}
