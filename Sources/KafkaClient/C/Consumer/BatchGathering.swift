/// Messages that have been read and not handed over yet: the next batch.
struct BatchGathering {
    var builder: BatchBuilder
    /// Used under the lock that guards this value.
    let reader: (any KafkaMessageReader)?
    /// Names that the messages' topic indices refer to.
    var topics: [String] = []
    /// ``KafkaBatch/backlog`` of the next batch.
    var backlog: Int64 = 0
    /// Messages and batches that were given away.
    private(set) var messages: Int64 = 0
    private(set) var batches: Int64 = 0

    init(builder: BatchBuilder, reader: (any KafkaMessageReader)? = nil) {
        self.builder = builder
        self.reader = reader
    }

    var isEmpty: Bool { builder.isEmpty }
    var isFull: Bool { builder.isFull }

    /// Has the reader read the message that was appended last.
    func readLast() {
        if let reader { builder.readLast(with: reader, topics: topics) }
    }

    /// Gives away what was gathered; nil when there is nothing.
    mutating func take() -> KafkaBatch? {
        guard !builder.isEmpty else { return nil }
        var batch = builder.take(topics: topics)
        batch.annotation = reader?.take()
        batch.backlog = backlog
        batches += 1
        messages += Int64(batch.count)
        return batch
    }

    /// Forgets what was gathered of these partitions.
    mutating func remove(_ places: Set<TopicPartition>) {
        builder.remove(places, topics: topics)
        guard let reader else { return }
        // The annotation of the others has their old places in it.
        _ = reader.take()
        builder.readAll(with: reader, topics: topics)
    }
}
