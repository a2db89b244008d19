/// An event of a consumer. Events come in order.
package enum KafkaConsumerEvent: Sendable {
    case batch(KafkaBatch)
    /// Ends of logs behind offsets without messages: markers of transactions, or aborted or compacted messages. Reading goes
    /// on there. Reported within a second or two.
    case advanced([TopicPartition: Int64])
    /// ``KafkaConsumer/interrupt()`` was called.
    case interrupted
    /// The log does not have this offset: messages that were never read are gone, or the position is of another log.
    /// The partition is not fetched until ``KafkaConsumer/assign(_:)``.
    case offsetOutOfRange(TopicPartition, offset: Int64)
    /// The log has another message at this offset than the one that was read before (``KafkaOffset/behind(_:next:)``). The
    /// partition is not fetched until ``KafkaConsumer/assign(_:)``.
    case otherLog(TopicPartition, offset: Int64)
    /// The batch at this offset cannot be read. The partition is paused and tried again at intervals
    /// (``KafkaConsumerConfiguration/unreadableRetry``), and each failure is reported.
    case unreadable(TopicPartition, offset: Int64, reason: String)
    /// An error from which the client recovers itself. A fatal error is thrown instead.
    case error(KafkaError)
}

/// Counts over the life of a consumer.
package struct KafkaConsumerCounters: Hashable, Sendable {
    /// Messages handed over.
    package var messages: Int64 = 0
    package var batches: Int64 = 0
    /// Holes in the offsets (transaction markers, compaction).
    package var gaps: Int64 = 0
    /// Pauses of fetching because the receiver was slow.
    package var pauses: Int64 = 0
}
