/// Reads messages on the consumer's poll thread, as they are copied into a batch: so what is made of one batch overlaps
/// with the receiver's work on the one before. Used under a lock, by that thread and by a receiver that takes the batch. It
/// must not block.
package protocol KafkaMessageReader: AnyObject {
    /// A message was appended to the batch.
    ///
    /// - Parameters:
    ///   - bytes: what the record's ranges are of; borrowed for the call.
    ///   - topics: names that the record's `topicIndex` refers to; it only ever grows.
    func read(_ record: KafkaBatch.Record, in bytes: [UInt8], topics: [String])

    /// Gives away what was made of the messages since the last time; it becomes the batch's ``KafkaBatch/annotation``.
    func take() -> (any Sendable)?
}
