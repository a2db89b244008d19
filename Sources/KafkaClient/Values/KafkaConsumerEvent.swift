/// An event of a consumer, in the order in which they happened.
package enum KafkaConsumerEvent: Sendable {
    case batch(KafkaBatch)
    /// ``KafkaConsumer/interrupt()`` was called.
    case interrupted
    /// The log does not have this offset: messages that were never read are gone, or the position is of another log.
    /// The partition stands still until ``KafkaConsumer/assign(_:)``.
    case offsetOutOfRange(TopicPartition, offset: Int64)
    /// Something failed that the client goes on from by itself; for information. A fatal error ends the sequence by
    /// throwing.
    case error(KafkaError)
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

    package init() {}
}
