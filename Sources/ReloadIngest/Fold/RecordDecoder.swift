import JSON
import KafkaClient
import WidgetEvents
import WidgetModel
import WidgetStore

/// A decoded message.
enum RecordContent: Sendable {
    case event(BatchEvent)
    case rejected(RejectedEvent)
    /// An event that has been applied already.
    case repeated
}

/// Decodes the messages of a batch.
struct RecordDecoder: Sendable {
    private let topics: [String: IngestTopics.Input]
    private var decoder: EventDecoder

    /// The decoder for which the attribute `time` of events counts as absent.
    var ignoringTimes: RecordDecoder {
        var copy = self
        copy.decoder.ignoresTimes = true
        return copy
    }

    init(_ topics: IngestTopics, maximumEventBytes: Int = EventDecoder.defaultMaximumEventBytes) {
        self.topics = topics.inputs
        decoder = EventDecoder(maximumEventBytes: maximumEventBytes)
    }

    /// Whether a topic may carry events of more than one app.
    func isShared(_ topic: String) -> Bool { topics[topic]?.apps?.count != 1 }

    /// The topic of this name; nil for one that ingest does not read.
    func topic(_ name: String) -> IngestTopics.Input? { topics[name] }

    func content(_ index: Int, of batch: KafkaBatch) -> RecordContent {
        content(index, batch.records[index], batch.bytes, topic: topic(batch.topic(index)))
    }

    /// - Parameter index: index of the message in its batch.
    func content(
        _ index: Int, _ record: KafkaBatch.Record, _ bytes: [UInt8], topic: IngestTopics.Input?
    ) -> RecordContent {
        guard let topic else {
            return .rejected(
                RejectedEvent(
                    record: index, app: nil, code: "wrongTopic", message: "no topic that ingest reads"))
        }
        var attributes = EventAttributes()
        KafkaBatch.forEachHeader(of: record, in: bytes) { name, value in
            attributes.note(name: name, value: value, in: bytes)
        }
        switch decoder.decode(bytes: bytes, value: record.valueRange, attributes: attributes, topic: topic.carries) {
        case .success(let decoded) where !topic.allows(decoded.event.app):
            return notAllowed(index, decoded.event.app)
        case .success(let decoded):
            do throws(EventError) {
                return .event(
                    BatchEvent(
                        record: index,
                        position: EventPosition(topic: topic.index, partition: record.partition, offset: record.offset),
                        time: time(of: decoded.envelope, record), event: decoded.event,
                        trace: decoded.envelope.traceparent.flatMap { TraceParent($0) }, id: decoded.envelope.id,
                        source: decoded.envelope.source, handling: try EventHandling(attributes, in: bytes)))
            } catch {
                return rejected(index, error, decoded.event.app)
            }
        case .failure(let error):
            // A broken event counts towards the limit of its app, unless the topic may not carry the app's events.
            if let app = error.app, !topic.allows(app) {
                return notAllowed(index, app, "; besides, \(error.description)")
            }
            return rejected(index, error, error.app)
        }
    }

    private func rejected(_ index: Int, _ error: EventError, _ app: String?) -> RecordContent {
        .rejected(
            RejectedEvent(
                record: index, app: app, code: error.code.rawValue, message: error.placedMessage,
                pointer: error.pointer))
    }

    private func notAllowed(_ index: Int, _ app: String, _ more: String = "") -> RecordContent {
        .rejected(
            RejectedEvent(
                record: index, app: app, code: DeadLetterCause.notAllowed.rawValue,
                message: "/app: the topic may not carry events of app \(Text.quoted(app))\(more)", pointer: "/app"))
    }

    /// Time of the event: its own time, which cannot be after the message's timestamp, or else the timestamp. An unusable
    /// timestamp counts as none. The timestamp may come from the same wrong clock, so that the time is limited again by
    /// the database's clock when the event is applied.
    private func time(of envelope: EventEnvelope, _ record: KafkaBatch.Record) -> Timestamp? {
        guard let sent = Timestamp(milliseconds: record.timestampMilliseconds) else { return envelope.time }
        return envelope.time.map { min($0, sent) } ?? sent
    }
}
