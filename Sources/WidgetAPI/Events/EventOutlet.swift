package import KafkaClient
package import WidgetEvents
import WidgetModel

/// An event acknowledged by the brokers.
struct PublishedEvent: Hashable, Sendable {
    let id: String
    let type: EventType
    let topic: String
    let delivery: KafkaDelivery

    /// `{"event": {"id", "type", "topic", "partition", "offset"}}`
    var json: JSONValue {
        [
            "event": [
                "id": .string(id), "type": .string(type.rawValue), "topic": .string(topic),
                "partition": .number(JSONNumber(Int(delivery.partition))),
                "offset": delivery.offset.map { .number(JSONNumber(Int($0))) } ?? .null,
            ]
        ]
    }
}

/// Publishes the changes that the API is asked for as events, like any other producer.
package struct EventOutlet: Sendable {
    package typealias Send = @Sendable (KafkaMessage) async throws(KafkaError) -> KafkaDelivery

    private let topics: [EventTopic: String]
    private let send: Send

    /// The `source` of the events.
    static let source = "/freshet/api"

    /// - Parameters:
    ///   - topics: Kafka topic of each sort of event.
    ///   - send: sends a message and returns once the brokers have acknowledged it.
    package init(topics: [EventTopic: String], send: @escaping Send) {
        self.topics = topics
        self.send = send
    }

    /// - Parameters:
    ///   - user: the user whose key keeps the events of its widgets in order; nil for the event's own key.
    ///   - time: time of the event; nil for now.
    func publish(
        _ event: FreshetEvent, of user: String? = nil, traceparent: String? = nil, time: Timestamp? = nil
    ) async throws(KafkaError) -> PublishedEvent {
        let id = RandomID.make()
        let topic = topics[event.type.topic] ?? event.type.topic.defaultName
        let encoded = EventEncoder.encode(
            event, id: id, source: Self.source, time: time ?? WallClock.now(), traceparent: traceparent, key: user)
        let delivery = try await send(
            KafkaMessage(
                topic: topic, key: encoded.key, value: encoded.value,
                headers: encoded.headers.map { KafkaHeader(name: $0.name, value: $0.value) }))
        return PublishedEvent(id: id, type: event.type, topic: topic, delivery: delivery)
    }
}
