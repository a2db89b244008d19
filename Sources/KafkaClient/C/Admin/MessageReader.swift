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
        let context = Self.context(place)
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
            switch unsafe answer(message, context) {
            case .message(let offset):
                deadline = ContinuousClock.now + timeout
                // Compaction, or the end of a transaction, leaves offsets without a message.
                if offset <= offsets.upperBound { unsafe builder.append(message, topicIndex: 0) }
                if offset >= offsets.upperBound { return .success(builder.take()) }
            case .noMessage: return .success(builder.take())
            case .error(let error): return .failure(error)
            case .passing(let error): failure = error
            }
        }
    }

    /// The messages at these offsets, read at the same time; nil where the log has none there.
    ///
    /// - Parameter timeout: time limit of the wait for the next answer.
    func read(
        _ offsets: [TopicPartition: Int64], timeout: Duration
    ) -> [TopicPartition: Result<KafkaBatch?, KafkaError>] {
        var answers: [TopicPartition: Result<KafkaBatch?, KafkaError>] = [:]
        var failures: [TopicPartition: KafkaError] = [:]
        let queue = unsafe rd_kafka_queue_new(client.pointer)
        defer { unsafe rd_kafka_queue_destroy(queue) }
        var topics: [String: OpaquePointer] = unsafe [:]
        var started: [TopicPartition] = []
        defer {
            for place in started { _ = unsafe rd_kafka_consume_stop(topics[place.topic], place.partition) }
            while let (_, topic) = unsafe topics.popFirst() { unsafe rd_kafka_topic_destroy(topic) }
        }
        for (place, offset) in offsets {
            guard offset >= 0, place.partition >= 0 else {
                answers[place] = .success(nil)
                continue
            }
            let topic = unsafe topics[place.topic] ?? rd_kafka_topic_new(client.pointer, place.topic, nil)
            unsafe topics[place.topic] = topic
            guard let topic = unsafe topic,
                unsafe rd_kafka_consume_start_queue(topic, place.partition, offset, queue) == 0
            else {
                answers[place] = .failure(KafkaError(rd_kafka_last_error(), context: Self.context(place)))
                continue
            }
            started.append(place)
        }

        var deadline = ContinuousClock.now + timeout
        while answers.count < offsets.count {
            let left = ContinuousClock.now.duration(to: deadline) / .milliseconds(1)
            guard left > 0 else { break }
            guard let message = unsafe rd_kafka_consume_queue(queue, Int32(min(left.rounded(.up), 60_000))) else {
                continue
            }
            defer { unsafe rd_kafka_message_destroy(message) }
            guard let topic = unsafe message.pointee.rkt else { continue }
            let place = unsafe TopicPartition(
                topic: String(cString: rd_kafka_topic_name(topic)), partition: message.pointee.partition)
            guard let wanted = offsets[place], answers[place] == nil else { continue }
            switch unsafe answer(message, Self.context(place)) {
            case .message(let offset):
                var builder = BatchBuilder(maximumMessages: .max, maximumBytes: .max, topics: [place.topic])
                if offset == wanted { unsafe builder.append(message, topicIndex: 0) }
                answers[place] = .success(builder.take())
            case .noMessage: answers[place] = .success(nil)
            case .error(let error): answers[place] = .failure(error)
            case .passing(let error): failures[place] = error
            }
            // Errors that pass come again and again while a broker is down.
            if answers[place] != nil { deadline = ContinuousClock.now + timeout }
        }
        for (place, offset) in offsets where answers[place] == nil {
            answers[place] = .failure(failures[place] ?? silence(place, from: offset, Self.context(place)))
        }
        return answers
    }

    private enum Answer {
        case message(offset: Int64)
        /// The end of the log, or an offset that it does not have.
        case noMessage
        case error(KafkaError)
        /// An error from which librdkafka may recover: the last one is reported at the timeout.
        case passing(KafkaError)
    }

    private func answer(
        _ message: UnsafeMutablePointer<rd_kafka_message_t>, _ context: KafkaError.Context
    ) -> Answer {
        switch unsafe message.pointee.err {
        case RD_KAFKA_RESP_ERR_NO_ERROR: return unsafe .message(offset: message.pointee.offset)
        case RD_KAFKA_RESP_ERR__PARTITION_EOF, RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET,
            RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE:
            return .noMessage
        case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC, RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION,
            RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
            return .error(KafkaError(RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, context: context))
        case let response:
            let reason = unsafe rd_kafka_message_errstr(message).map { unsafe String(cString: $0) }
            let error = KafkaError(response, message: reason, context: context)
            return error.isUnreadableBatch ? .error(error) : .passing(error)
        }
    }

    private static func context(_ place: TopicPartition) -> KafkaError.Context {
        KafkaError.Context(operation: operation, topic: place.topic, partition: place.partition)
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
