package import KafkaClient
import Synchronization

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
    private let condition: OutputCondition?

    /// - Parameters:
    ///   - deliveryTimeout: the one that the producer was made with; a message may wait that long for room, and
    ///     that long for its acknowledgement.
    ///   - condition: told whether publishing works.
    package init(producer: KafkaProducer, deliveryTimeout: Duration, condition: OutputCondition? = nil) {
        self.producer = producer
        self.condition = condition
        longestPublish = deliveryTimeout * 2
    }

    package func publish(_ messages: [KafkaMessage]) async -> [Result<KafkaDelivery, KafkaError>] {
        let results = await producer.send(messages)
        condition?.published(results)
        return results
    }
}

/// Whether Kafka takes what is published, for readiness.
package final class OutputCondition: Sendable {
    /// A failure counts for so long: while there is work, a batch is tried at least as often.
    private static let memory = Duration.seconds(60)

    private let failure = Mutex<(error: KafkaError, at: ContinuousClock.Instant)?>(nil)

    package init() {}

    /// Why nothing of the last batch was taken; nil when something was, only sizes were refused, or it is long ago.
    package var problem: String? {
        failure.withLock { failure in
            guard let failure, failure.at.duration(to: .now) < Self.memory else { return nil }
            return failure.error.description
        }
    }

    func published(_ results: [Result<KafkaDelivery, KafkaError>]) {
        var failed: KafkaError?
        for result in results {
            guard case .failure(let error) = result, error.code != .messageTooLarge, error.code != .cancelled else {
                return failure.withLock { $0 = nil }
            }
            failed = error
        }
        if let failed { failure.withLock { $0 = (failed, .now) } }
    }
}
