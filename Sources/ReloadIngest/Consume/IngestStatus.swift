import KafkaClient
import Synchronization

/// Obstacles that keep ingest from reading all its partitions. Other parts can add reasons with ``set(_:for:)``.
package final class IngestStatus: Sendable {
    private enum Subject: Hashable {
        case consumer
        case topic(String)
        case partition(TopicPartition)
        case named(String)

        /// Sort key of the obstacle.
        var order: (Int, String, Int32) {
            switch self {
            case .named(let name): (0, name, 0)
            case .consumer: (1, "", 0)
            case .topic(let topic): (2, topic, 0)
            case .partition(let place): (3, place.topic, place.partition)
            }
        }
    }

    private struct Obstacle {
        var reason: String
        /// Partition to read to see whether the obstacle is gone; nil if something else shows it.
        var probe: TopicPartition?
    }

    private let obstacles = Mutex<[Subject: Obstacle]>([:])
    private let databaseError = Mutex<String?>(nil)

    package init() {}

    /// Descriptions of the obstacles.
    package var reasons: [String] {
        obstacles.withLock { $0 }.sorted { $0.key.order < $1.key.order }.map(\.value.reason)
    }

    /// Sets a reason of another part, such as a halt; nil removes it.
    package func set(_ reason: String?, for name: String) {
        obstacles.withLock { $0[.named(name)] = reason.map { Obstacle(reason: $0) } }
    }

    /// Database error of the current batch; nil for none.
    package var blockedBy: String? {
        get { databaseError.withLock { $0 } }
        set { databaseError.withLock { $0 = newValue } }
    }

    // MARK: Events

    /// Records that the consumer has failed and will be replaced.
    func recordConsumerFailure(_ error: any Error) {
        obstacles.withLock { obstacles in
            obstacles = obstacles.filter { if case .named = $0.key { true } else { false } }
            obstacles[.consumer] = Obstacle(reason: Self.reason(error))
        }
    }

    /// Records an error from which librdkafka recovers once its cause is fixed.
    func record(_ error: KafkaError) {
        guard let subject = Self.subject(error) else { return }
        var obstacle = Obstacle(reason: Self.reason(error))
        if case .topic(let topic) = subject, let partition = error.context.partition {
            obstacle.probe = TopicPartition(topic: topic, partition: partition)
        }
        obstacles.withLock { $0[subject] = obstacle }
    }

    /// Records that these partitions are no longer stopped, or no longer this process's.
    func clearStandstill(of partitions: some Sequence<TopicPartition>) {
        obstacles.withLock { obstacles in
            for partition in partitions { obstacles[.partition(partition)] = nil }
        }
    }

    /// Records that the brokers answer this process.
    func clearConsumerObstacle() {
        obstacles.withLock { $0[.consumer] = nil }
    }

    /// Records that these partitions have been assigned, or that events from them have been applied.
    func clearObstacles(of partitions: some Sequence<TopicPartition>) {
        obstacles.withLock { obstacles in
            guard !obstacles.isEmpty else { return }
            obstacles[.consumer] = nil
            for partition in partitions {
                obstacles[.topic(partition.topic)] = nil
                obstacles[.partition(partition)] = nil
            }
        }
    }

    /// Records that a partition is stopped, and returns whether the reason is new.
    func recordStandstill(of partition: TopicPartition, reason: String) -> Bool {
        obstacles.withLock { $0.updateValue(Obstacle(reason: reason), forKey: .partition(partition)) }?.reason != reason
    }

    /// Number of partitions that stay stopped until their position is set.
    package var standingPartitions: Int {
        obstacles.withLock { obstacles in
            obstacles.keys.count { if case .partition = $0 { true } else { false } }
        }
    }

    /// Topics that could not be read, each represented by a partition to try.
    var probes: [TopicPartition] { obstacles.withLock { $0.values.compactMap(\.probe) } }

    func clearObstacle(ofTopic topic: String) {
        obstacles.withLock { $0[.topic(topic)] = nil }
    }

    // MARK: Descriptions

    private static func subject(_ error: KafkaError) -> Subject? {
        switch error.code {
        case .clusterAuthorizationFailed, .authenticationFailed:
            .consumer
        case .topicAuthorizationFailed, .unknownTopicOrPartition:
            error.context.topic.map { .topic($0) }
        default:
            // Transient, or covered by the readiness check of the brokers.
            nil
        }
    }

    private static func reason(_ error: any Error) -> String {
        guard let error = error as? KafkaError else { return "the Kafka consumer failed: \(error)" }
        let topic = error.context.topic ?? "?"
        return switch error.code {
        case .topicAuthorizationFailed:
            "the brokers do not let these credentials read the topic \(topic) (READ on the topic is needed)"
        case .unknownTopicOrPartition:
            "the topic \(topic) is not there: create it"
        default:
            error.description
        }
    }
}
