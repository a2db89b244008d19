extension KafkaBatch {
    /// A message together with the place it would have been read from.
    package struct Placed: Sendable {
        package var partition: Int32
        package var offset: Int64
        package var message: KafkaMessage

        package init(partition: Int32, offset: Int64, message: KafkaMessage) {
            self.partition = partition
            self.offset = offset
            self.message = message
        }
    }

    /// A batch as a consumer would deliver it, from messages in hand: for tests and replays.
    package init(_ messages: [Placed]) {
        var builder = BatchBuilder(maximumMessages: max(messages.count, 1), maximumBytes: .max)
        var topics: [String] = []
        for placed in messages {
            let message = placed.message
            let topicIndex = topics.firstIndex(of: message.topic) ?? topics.endIndex
            if topicIndex == topics.endIndex { topics.append(message.topic) }
            builder.append(
                topicIndex: Int32(topicIndex), partition: placed.partition, offset: placed.offset,
                timestampMilliseconds: message.timestampMilliseconds ?? -1, key: message.key, value: message.value,
                headers: message.headers)
        }
        self = builder.take(topics: topics)
    }
}
