// SPDX-License-Identifier: Apache-2.0

internal import CRdKafka
internal import Logging

/// A blocking client that reads messages by their offsets, on one thread.
struct MessageReader: ~Copyable {
    private let client: ClientHandle

    private static let operation = "read messages"
    private static let boundsMilliseconds: Int32 = 1_000

    /// - Parameters:
    ///   - fetchBytes: most bytes of one fetch.
    ///   - queuedMessages: number of messages up to which it fetches ahead. Brokers may answer with one message at a
    ///     time.
    init(
        _ configuration: KafkaConfiguration, fetchBytes: Int = 65_536, queuedMessages: Int = 1, logger: Logger
    ) throws(KafkaError) {
        var configuration = configuration
        // Set below: the reader needs to learn the end of the log.
        configuration.properties["enable.partition.eof"] = nil
        // The simple consumer joins no group, so no partitions of other consumers move.
        client = try ClientHandle(
            .consumer, configuration,
            // Fetches little more than the wanted messages.
            defaults: [
                "client.id": "freshet-reader", "queued.min.messages": "\(queuedMessages)",
                "fetch.message.max.bytes": "\(fetchBytes)", "fetch.error.backoff.ms": "10",
                "socket.nagle.disable": "true",
            ],
            fixed: [
                "allow.auto.create.topics": "false", "enable.auto.commit": "false", "enable.partition.eof": "true",
                "auto.offset.reset": "error",
            ],
            logger: logger, operation: Self.operation)
    }

    deinit { client.destroy() }

    /// The messages at these offsets; nil when the log has none there.
    ///
    /// - Parameter timeout: time limit of the wait for each message.
    func read(
        _ place: TopicPartition, at offsets: ClosedRange<Int64>, timeout: Duration
    ) -> Result<KafkaBatch?, KafkaError> {
        let context = KafkaError.Context(
            operation: Self.operation, topic: place.topic, partition: place.partition)
        // librdkafka gives negative offsets a meaning of their own, and refuses negative partitions.
        guard offsets.lowerBound >= 0, place.partition >= 0 else { return .success(nil) }
        guard let topic = unsafe rd_kafka_topic_new(client.pointer, place.topic, nil) else {
            return .failure(KafkaError(rd_kafka_last_error(), context: context))
        }
        defer { unsafe rd_kafka_topic_destroy(topic) }
        guard unsafe rd_kafka_consume_start(topic, place.partition, offsets.lowerBound) == 0 else {
            return .failure(KafkaError(rd_kafka_last_error(), context: context))
        }
        defer { _ = unsafe rd_kafka_consume_stop(topic, place.partition) }

        var deadline = ContinuousClock.now + timeout
        var failure: KafkaError?
        var builder = BatchBuilder(maximumMessages: .max, maximumBytes: .max, topics: [place.topic])
        while true {
            let left = ContinuousClock.now.duration(to: deadline) / .milliseconds(1)
            guard left > 0 else { return .failure(failure ?? silence(place, from: offsets.lowerBound, context)) }
            guard let message = unsafe rd_kafka_consume(topic, place.partition, Int32(min(left.rounded(.up), 60_000)))
            else { continue }
            defer { unsafe rd_kafka_message_destroy(message) }
            switch unsafe message.pointee.err {
            case RD_KAFKA_RESP_ERR_NO_ERROR:
                deadline = ContinuousClock.now + timeout
                // Compaction, or the end of a transaction, leaves offsets without a message.
                let offset = unsafe message.pointee.offset
                if offset <= offsets.upperBound { unsafe builder.append(message, topicIndex: 0) }
                if offset >= offsets.upperBound { return .success(builder.take()) }
            case RD_KAFKA_RESP_ERR__PARTITION_EOF, RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET,
                RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE:
                return .success(builder.take())
            case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC, RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION,
                RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
                return .failure(KafkaError(RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, context: context))
            case let response:
                // librdkafka recovers from most errors; the last one is reported at the timeout.
                let reason = unsafe rd_kafka_message_errstr(message).map { unsafe String(cString: $0) }
                let error = KafkaError(response, message: reason, context: context)
                if error.isUnreadableBatch { return .failure(error) }
                failure = error
            }
        }
    }

    /// The error when no message came: a batch that librdkafka drops, if the leader says that the log goes on.
    private func silence(
        _ place: TopicPartition, from offset: Int64, _ context: KafkaError.Context
    ) -> KafkaError {
        var low: Int64 = 0
        var high: Int64 = 0
        let response = unsafe rd_kafka_query_watermark_offsets(
            client.pointer, place.topic, place.partition, &low, &high, Self.boundsMilliseconds)
        guard response == RD_KAFKA_RESP_ERR_NO_ERROR, low <= offset, offset < high else {
            return KafkaError(RD_KAFKA_RESP_ERR__TIMED_OUT, context: context)
        }
        return KafkaError(
            RD_KAFKA_RESP_ERR__BAD_MSG,
            message: "no message comes from offset \(offset), though the log goes on to \(high)",
            context: context)
    }
}
