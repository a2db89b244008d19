package import KafkaClient
import Synchronization

package protocol TimelinePublishing: Sendable {
    /// Upper limit of the duration of ``publish(_:)``. A batch is published only if its lease lasts longer.
    var longestPublish: Duration { get }

    /// Sends messages, waits for their acknowledgements, and returns the outcomes in order.
    func publish(_ messages: [KafkaMessage]) async -> [Result<KafkaDelivery, KafkaError>]
}

/// Publishes with a producer, which its owner shuts down.
package struct KafkaTimelinePublisher: TimelinePublishing {
    package let longestPublish: Duration
    private let producer: KafkaProducer
    private let condition: OutputCondition?

    /// - Parameters:
    ///   - deliveryTimeout: the producer's, which limits the wait for room and the wait for the acknowledgement.
    ///   - condition: receives the outcomes.
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

/// Condition of publishing, for readiness.
package final class OutputCondition: Sendable {
    /// Time for which a failure counts: under load, a batch is tried at least as often.
    private static let memory = Duration.seconds(60)

    private let failure = Mutex<(error: KafkaError, at: ContinuousClock.Instant)?>(nil)

    package init() {}

    /// Error of the last batch; nil if a message was acknowledged, only sizes were refused, or it is long ago.
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
