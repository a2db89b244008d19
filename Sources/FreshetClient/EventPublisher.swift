// SPDX-License-Identifier: Apache-2.0

package import KafkaClient
package import Logging
package import WidgetEvents
package import WidgetModel

/// An event to publish, with its envelope.
package struct OutgoingEvent: Sendable {
    package var event: FreshetEvent
    /// Unique within the source.
    package var id: String
    /// The producer of the event, as a URI reference; nil for the publisher's.
    package var source: String?
    /// Time of the event.
    package var time: Timestamp
    /// The partition key; nil for the event's own. The user's id keeps a user's events in order.
    package var key: String?
    package var traceparent: String?
    package var handling = EventHandling()

    package init(
        _ event: FreshetEvent, id: String = String.randomID(), source: String? = nil, time: Timestamp,
        key: String? = nil, traceparent: String? = nil
    ) {
        self.event = event
        self.id = id
        self.source = source
        self.time = time
        self.key = key
        self.traceparent = traceparent
    }
}

/// Publishes Freshet's events as CloudEvents in binary mode, each to the topic of its type.
package struct EventPublisher: Sendable {
    let producer: KafkaProducer
    /// Names of the Kafka topics; others have their default names.
    var topics: [EventTopic: String] = [:]
    /// Source of events without one.
    let source: String

    /// Returns the results in the events' order once each event is acknowledged or has failed.
    package func publish(_ events: [OutgoingEvent]) async -> [Result<KafkaDelivery, KafkaError>] {
        await producer.send(events.map(message))
    }

    package func publish(_ event: OutgoingEvent) async throws(KafkaError) -> KafkaDelivery {
        try await producer.send(message(event))
    }

    /// Name of the Kafka topic of an event.
    package func topic(of event: FreshetEvent) -> String { topics[event.type.topic] ?? event.type.topic.defaultName }

    func message(_ outgoing: OutgoingEvent) -> KafkaMessage {
        var encoded = outgoing.event.encode(
            id: outgoing.id, source: outgoing.source ?? source, time: outgoing.time,
            traceparent: outgoing.traceparent, key: outgoing.key)
        encoded.append(headers: outgoing.handling.headers)
        return KafkaMessage(
            topic: topic(of: outgoing.event), bytes: encoded.bytes, valueLength: encoded.valueLength,
            keyLength: encoded.keyLength, headerCount: encoded.headerCount)
    }
}

extension EventPublisher {
    /// Lends a publisher, and awaits the outcome of its events.
    package static func withPublisher<Value: Sendable>(
        kafka: KafkaConfiguration, deliveryTimeout: Duration, topics: [EventTopic: String] = [:], source: String,
        logger: Logger, _ body: (EventPublisher) async throws -> Value
    ) async throws -> Value {
        let producer = try KafkaProducer(configuration: kafka, deliveryTimeout: deliveryTimeout, logger: logger)
        do {
            let value = try await body(EventPublisher(producer: producer, topics: topics, source: source))
            await producer.shutdown()
            return value
        } catch {
            await producer.shutdown()
            throw error
        }
    }
}
