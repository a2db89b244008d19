/// A topic to create.
package struct KafkaTopicSpecification: Hashable, Sendable {
    package var name: String
    package var partitions: Int
    /// `nil`: the brokers' default.
    package var replicationFactor: Int?
    /// The topic's configuration by Kafka's names, such as `cleanup.policy`.
    package var configuration: [String: String]

    package init(
        name: String, partitions: Int, replicationFactor: Int? = nil, configuration: [String: String] = [:]
    ) {
        (self.name, self.partitions) = (name, partitions)
        (self.replicationFactor, self.configuration) = (replicationFactor, configuration)
    }

    /// The configuration of a topic that keeps the latest message of each key.
    package static let compacted = ["cleanup.policy": "compact"]
}

/// Result of creating a topic.
package enum KafkaTopicOutcome: Sendable {
    case created
    /// It existed before; its partitions and configuration may differ.
    case alreadyExists
    case failed(KafkaError)
}

/// A topic with its partitions.
package struct KafkaTopicDescription: Hashable, Sendable {
    package struct Partition: Hashable, Sendable {
        package var id: Int32
        /// `nil` while there is none.
        package var leader: Int32?
        package var replicas: [Int32]
        package var inSyncReplicas: [Int32]
    }

    package var name: String
    /// By number.
    package var partitions: [Partition]

    package var places: [TopicPartition] { partitions.map { TopicPartition(topic: name, partition: $0.id) } }
}

/// The offsets that a partition's log spans.
package struct KafkaLogBounds: Hashable, Sendable {
    /// Offset of the oldest message; ``end`` when there is none.
    package var earliest: Int64
    /// The offset that the next message will have.
    package var end: Int64

    package init(earliest: Int64, end: Int64) {
        self.earliest = earliest
        self.end = end
    }
}
