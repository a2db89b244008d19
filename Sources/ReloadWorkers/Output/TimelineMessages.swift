import KafkaClient
import WidgetEvents
import WidgetModel
import WidgetStore

struct TimelineMessages: Sendable {
    /// `ce_source` of what the workers publish.
    static let source = "/freshet/workers"

    let topic: String

    typealias Message = KafkaMessage

    /// A timeline's content.
    func updated(
        _ timeline: ClaimedTimeline, of kind: RegisteredKind, revision: Int64, content: [UInt8],
        headers: [String: String] = [:]
    ) -> KafkaMessage {
        var message = message(
            TimelineUpdatedEvent(
                timeline: timeline.id, identity: timeline.identity(of: kind), revision: revision, storedAt: nil,
                content: content
            ).encode(source: Self.source))
        for (name, value) in headers.sorted(by: { $0.key < $1.key }) {
            message.headers.append(KafkaHeader(name: name, value: Array(value.utf8)))
        }
        return message
    }

    /// A tombstone: no widget shows the timeline any more.
    func removed(_ id: TimelineID, revision: Int64) -> KafkaMessage {
        message(TimelineRemovedEvent(timeline: id, revision: revision, time: nil).encode(source: Self.source))
    }

    private func message(_ event: EncodedEvent) -> KafkaMessage {
        KafkaMessage(
            topic: topic, key: event.key, value: event.value,
            headers: event.headers.map { KafkaHeader(name: $0.name, value: $0.value) })
    }
}
