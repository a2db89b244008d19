// SPDX-License-Identifier: Apache-2.0

import JSON
package import KafkaClient
package import WidgetEvents
import WidgetModel

/// An event acknowledged by the brokers.
struct PublishedEvent: Hashable, Sendable {
    let id: String
    let type: String
    let topic: String
    let partition: Int32
    let offset: Int64?

    /// `{"id", "type", "topic", "partition", "offset"}`
    var json: JSONValue {
        [
            "id": .string(id), "type": .string(type), "topic": .string(topic),
            "partition": .count(partition),
            "offset": .count(offset),
        ]
    }

    /// The position: `freshet.widgets/3@1742`.
    var position: String { "\(topic)/\(partition)" + (offset.map { "@\($0)" } ?? "") }
}

/// Publishes requested changes as events, like any other producer.
package struct EventOutlet: Sendable {
    package typealias Send = @Sendable ([KafkaMessage]) async -> [Result<KafkaDelivery, KafkaError>]

    /// An event to publish.
    struct Outgoing: Sendable {
        let event: FreshetEvent
        var id = String.randomID()
        var source = EventOutlet.source
        /// Time of the event; nil for now, which orders lifecycle events by their arrival.
        var time: Timestamp?
        var traceparent: String?
        /// Owner to whom changes are limited; nil for any.
        var user: String?

        /// The event without its id and source.
        var content: [UInt8] {
            JSONValue.array([.string(event.type.rawValue), .text(time?.rfc3339), .text(user)]).encoded
                + event.data
        }
    }

    private let topics: [EventTopic: String]
    private let send: Send

    /// The `source` of events without another one.
    static let source = "/freshet/api"

    /// - Parameters:
    ///   - topics: Kafka topic of each sort of event.
    ///   - send: sends messages in order, and returns once the brokers have acknowledged or refused each.
    package init(topics: [EventTopic: String], send: @escaping Send) {
        self.topics = topics
        self.send = send
    }

    /// Publishes events in order. Their outcomes are kept for callers.
    func publish(_ events: [Outgoing]) async -> [Result<PublishedEvent, KafkaError>] {
        let results = await send(events.map(message))
        return zip(events, results).map { outgoing, result in
            result.map { delivery in
                PublishedEvent(
                    id: outgoing.id, type: outgoing.event.type.rawValue, topic: topic(of: outgoing.event),
                    partition: delivery.partition, offset: delivery.offset)
            }
        }
    }

    private func topic(of event: FreshetEvent) -> String {
        topics[event.type.topic] ?? event.type.topic.defaultName
    }

    /// The partition key, which keeps the API's events of one widget in order. Only a placement names the widget's
    /// user.
    private static func key(of event: FreshetEvent) -> String {
        event.widget ?? event.partitionKey
    }

    private func message(_ outgoing: Outgoing) -> KafkaMessage {
        let event = outgoing.event
        var encoded = event.encode(
            id: outgoing.id, source: outgoing.source, time: outgoing.time ?? Timestamp.now(),
            traceparent: outgoing.traceparent, key: Self.key(of: event))
        let handling = EventHandling(
            isOrderedByArrival: outgoing.time == nil && [.widgets, .donations].contains(event.type.topic),
            user: outgoing.user, keepsOutcome: true)
        encoded.append(headers: handling.headers)
        return KafkaMessage(
            topic: topic(of: event), bytes: encoded.bytes, valueLength: encoded.valueLength,
            keyLength: encoded.keyLength, headerCount: encoded.headerCount)
    }
}
