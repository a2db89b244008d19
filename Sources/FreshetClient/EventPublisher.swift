package import KafkaClient
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

    package init(
        _ event: FreshetEvent, id: String = RandomID.make(), source: String? = nil, time: Timestamp,
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

/// Names of the Kafka topics of events.
package struct EventTopicNames: Hashable, Sendable {
    package var pushes: String
    package var appChanges: String
    package var widgets: String

    package init(
        pushes: String = EventTopic.pushes.defaultName, appChanges: String = EventTopic.appChanges.defaultName,
        widgets: String = EventTopic.widgets.defaultName
    ) {
        self.pushes = pushes
        self.appChanges = appChanges
        self.widgets = widgets
    }

    package func name(of topic: EventTopic) -> String {
        switch topic {
        case .pushes: pushes
        case .appChanges: appChanges
        case .widgets: widgets
        }
    }
}

/// Publishes Freshet's events as CloudEvents in binary mode, each to the topic of its type.
package struct EventPublisher: Sendable {
    private let producer: KafkaProducer
    private let topics: EventTopicNames
    private let source: String

    /// - Parameter source: source of events without one.
    package init(producer: KafkaProducer, topics: EventTopicNames = EventTopicNames(), source: String) {
        self.producer = producer
        self.topics = topics
        self.source = source
    }

    /// Returns the results in the events' order once each event is acknowledged or has failed.
    package func publish(_ events: [OutgoingEvent]) async -> [Result<KafkaDelivery, KafkaError>] {
        await producer.send(events.map(message))
    }

    package func publish(_ event: OutgoingEvent) async throws(KafkaError) -> KafkaDelivery {
        try await producer.send(message(event))
    }

    func topic(of outgoing: OutgoingEvent) -> String { topics.name(of: outgoing.event.type.topic) }

    func message(_ outgoing: OutgoingEvent) -> KafkaMessage {
        let encoded = EventEncoder.encode(
            outgoing.event, id: outgoing.id, source: outgoing.source ?? source, time: outgoing.time,
            traceparent: outgoing.traceparent, key: outgoing.key)
        return KafkaMessage(
            topic: topic(of: outgoing), key: encoded.key, value: encoded.value,
            headers: encoded.headers.map { KafkaHeader(name: $0.name, value: $0.value) })
    }
}
