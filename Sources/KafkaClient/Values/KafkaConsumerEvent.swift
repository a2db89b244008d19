/// An event of a consumer, in the order in which they happened.
package enum KafkaConsumerEvent: Sendable {
    /// Partitions were given to this consumer. Nothing of them is fetched until ``KafkaAssignment/start(at:)``.
    case assigned(KafkaAssignment)
    case batch(KafkaBatch)
    /// Partitions are taken away. All their batches have come before.
    case revoked(KafkaRevocation)
    /// The log does not have this offset: messages that were never read are gone, or the position is of another log.
    /// The partition stands still until ``KafkaConsumer/seek(_:)``.
    case offsetOutOfRange(TopicPartition, offset: Int64)
    /// Something failed that the client goes on from by itself; for information. A fatal error ends the sequence by
    /// throwing.
    case error(KafkaError)
}

/// Partitions that were newly given to this consumer.
package struct KafkaAssignment: Sendable {
    package let partitions: [TopicPartition]
    private let onStart: @Sendable ([TopicPartition: KafkaOffset]) -> Void
    private let onFailure: @Sendable () -> Void

    package init(
        partitions: [TopicPartition], onStart: @escaping @Sendable ([TopicPartition: KafkaOffset]) -> Void,
        onFailure: @escaping @Sendable () -> Void
    ) {
        self.partitions = partitions
        self.onStart = onStart
        self.onFailure = onFailure
    }

    /// Starts fetching at these offsets; a partition that is not named starts at the earliest. Starting those again
    /// that already run, or that have been revoked meanwhile, does nothing.
    package func start(at offsets: [TopicPartition: KafkaOffset]) {
        onStart(offsets)
    }

    /// The receiver cannot take these partitions (now). They are not fetched and stay silent; the group keeps them with
    /// this consumer until the next rebalance. `start` is still possible later.
    package func fail() {
        onFailure()
    }
}

/// Partitions that are about to go to another consumer, or have gone (``lost``).
package struct KafkaRevocation: Sendable {
    package let partitions: [TopicPartition]
    /// The group has already moved on without this consumer: others may be reading these partitions by now.
    package let lost: Bool
    private let onAcknowledge: @Sendable () -> Void

    package init(partitions: [TopicPartition], lost: Bool, onAcknowledge: @escaping @Sendable () -> Void) {
        self.partitions = partitions
        self.lost = lost
        self.onAcknowledge = onAcknowledge
    }

    /// Everything of these partitions is handled. Unless they are lost, the consumer waits for it (bounded by
    /// ``KafkaConsumerConfiguration/revocationTimeout``) before it lets go of them.
    package func acknowledge() {
        onAcknowledge()
    }
}

/// Counts over the life of a consumer.
package struct KafkaConsumerCounters: Hashable, Sendable {
    /// Messages handed over.
    package var messages: Int64 = 0
    package var batches: Int64 = 0
    /// Places where offsets do not follow on because the log does not have them (transaction markers, compaction).
    package var gaps: Int64 = 0
    /// Messages that librdkafka delivered again or too late; they were dropped.
    package var stale: Int64 = 0
    /// Holes behind a moved position that were read a second time.
    package var verifications: Int64 = 0
    /// Times that fetching was paused because the receiver was slow.
    package var pauses: Int64 = 0
    /// Revocations that were not acknowledged in time.
    package var unacknowledgedRevocations: Int64 = 0

    package init() {}
}
