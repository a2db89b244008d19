package import KafkaClient
package import WidgetEvents
package import WidgetModel

/// An event that is to go out, with its envelope.
package struct OutgoingEvent: Sendable {
    package var event: FreshetEvent
    /// Unique within the source.
    package var id: String
    /// The producer of the event, as a URI reference; the publisher's own when nil.
    package var source: String?
    /// When it happened.
    package var time: Timestamp
    /// The partition key; the event's own when nil. Events of one person stay in order under that person's key.
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

/// The Kafka topics that events go to.
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

    /// - Parameter source: what events say that name no source of their own.
    package init(producer: KafkaProducer, topics: EventTopicNames = EventTopicNames(), source: String) {
        self.producer = producer
        self.topics = topics
        self.source = source
    }

    /// Returns when the brokers have acknowledged each event or it has failed; results are in the events' order.
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
