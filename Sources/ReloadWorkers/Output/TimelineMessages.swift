import KafkaClient
import WidgetEvents
import WidgetModel
import WidgetStore

/// Kafka messages of timelines.
struct TimelineMessages: Sendable {
    /// `ce_source` of the workers' messages.
    static let source = "/freshet/workers"

    let topic: String

    /// Message with a timeline's content.
    func updated(
        _ timeline: ClaimedTimeline, of kind: RegisteredKind, revision: Int64, content: [UInt8],
        headers: [String: String] = [:]
    ) -> KafkaMessage {
        let event = TimelineUpdatedEvent(
            timeline: timeline.id, identity: timeline.identity(of: kind), revision: revision, storedAt: nil,
            content: content)
        var message = KafkaMessage(event.encode(source: Self.source), topic: topic)
        for (name, value) in headers.sorted(by: { $0.key < $1.key }) {
            message.headers.append(KafkaHeader(name: name, value: Array(value.utf8)))
        }
        return message
    }

    /// Tombstone of a timeline that no widget shows.
    func removed(_ id: TimelineID, revision: Int64) -> KafkaMessage {
        KafkaMessage(TimelineRemovedEvent.encode(id, revision: revision, source: Self.source), topic: topic)
    }
}

extension KafkaMessage {
    init(_ event: EncodedEvent, topic: String) {
        self.init(topic: topic, key: event.key, value: event.value, headers: event.headers)
    }
}
