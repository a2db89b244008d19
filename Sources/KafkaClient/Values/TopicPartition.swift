/// One partition of a topic.
package struct TopicPartition: Hashable, Comparable, Sendable, CustomStringConvertible {
    package var topic: String
    package var partition: Int32

    package init(topic: String, partition: Int32) {
        self.topic = topic
        self.partition = partition
    }

    package var description: String { "\(topic)[\(partition)]" }

    /// By topic name, then by partition number.
    package static func < (left: Self, right: Self) -> Bool {
        (left.topic, left.partition) < (right.topic, right.partition)
    }
}

/// Where to start reading a partition.
package enum KafkaOffset: Hashable, Sendable {
    /// The oldest message that the log still has.
    case earliest
    /// Behind the newest message: only what is produced from now on.
    case latest
    /// Exactly this offset. If the log does not have it any more (or not yet), the consumer says so with
    /// ``KafkaConsumerEvent/offsetOutOfRange(_:offset:)`` and moves nowhere.
    case at(Int64)
}
