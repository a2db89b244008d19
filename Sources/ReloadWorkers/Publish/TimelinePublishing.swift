package import KafkaClient

/// Where timelines are published.
package protocol TimelinePublishing: Sendable {
    /// How long ``publish(_:)`` can take at most. A batch is published only while at least this much is left of its
    /// lease.
    var longestPublish: Duration { get }

    /// Sends messages and waits for their acknowledgements.
    ///
    /// - Returns: the outcomes, in the order of the messages.
    func publish(_ messages: [KafkaMessage]) async -> [Result<KafkaDelivery, KafkaError>]
}

/// Publishes with a producer, which whoever made it shuts down.
package struct KafkaTimelinePublisher: TimelinePublishing {
    package let longestPublish: Duration
    private let producer: KafkaProducer

    /// - Parameter deliveryTimeout: the one that the producer was made with; a message may wait that long for room, and
    ///   that long for its acknowledgement.
    package init(producer: KafkaProducer, deliveryTimeout: Duration) {
        self.producer = producer
        longestPublish = deliveryTimeout * 2
    }

    package func publish(_ messages: [KafkaMessage]) async -> [Result<KafkaDelivery, KafkaError>] {
        await producer.send(messages)
    }
}
