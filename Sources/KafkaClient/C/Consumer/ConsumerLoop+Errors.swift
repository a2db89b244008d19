internal import CRdKafka
internal import Logging

extension ConsumerLoop: ClientEvents {
    func errorRaised(_ response: rd_kafka_resp_err_t, reason: String) {
        if response == RD_KAFKA_RESP_ERR__FATAL {
            guard fatalError == nil, let error = KafkaError.fatal(of: client, operation: "consume") else { return }
            fatalError = error
            logger.error("the consumer has failed for good", metadata: ["error": "\(error.message)"])
            stopReason = stopReason ?? .shutdown
            return
        }
        report(KafkaError(response, message: reason, context: KafkaError.Context(operation: "consume")))
    }

    func delivered(_ message: UnsafePointer<rd_kafka_message_t>) {}

    /// Handles an error that came in a message's place.
    func failed(_ message: UnsafeMutablePointer<rd_kafka_message_t>) {
        let response = unsafe message.pointee.err
        switch response {
        case RD_KAFKA_RESP_ERR__PARTITION_EOF:
            unsafe reachedEnd(message)
        case RD_KAFKA_RESP_ERR__FATAL:
            errorRaised(response, reason: "")
        case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET, RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE:
            unsafe outOfRange(message)
        default:
            let topic = unsafe message.pointee.rkt.map { unsafe String(cString: rd_kafka_topic_name($0)) }
            let partition = unsafe message.pointee.partition
            let reason = unsafe rd_kafka_message_errstr(message).map { unsafe String(cString: $0) }
            report(
                KafkaError(
                    response, message: reason,
                    context: KafkaError.Context(
                        operation: "consume", topic: topic, partition: partition < 0 ? nil : partition)))
        }
    }

    private func outOfRange(_ message: UnsafeMutablePointer<rd_kafka_message_t>) {
        guard
            let index = unsafe indexCache.index(
                topic: message.pointee.rkt, partition: message.pointee.partition, in: tracker)
        else { return }
        let state = tracker.state(at: index)
        guard state.phase == .running else { return }
        // Without an offset from librdkafka, it is the expected one.
        let named = unsafe message.pointee.offset
        let offset = named >= 0 ? named : state.next ?? named
        tracker.stall(state.place)
        buffer.flush()
        logger.error(
            "the log does not have the offset; the partition stands still until it is moved",
            metadata: [
                "partition": "\(state.place)", "offset": "\(offset)",
                "reason": "\(unsafe rd_kafka_message_errstr(message).map { unsafe String(cString: $0) } ?? "")",
            ])
        buffer.push(.offsetOutOfRange(state.place, offset: offset))
    }

    func report(_ error: KafkaError) {
        logger.log(
            level: error.isRetriable ? .notice : .warning, "\(client.callbacks.redact(error.message))",
            metadata: ["code": "\(error.code)", "topic": "\(error.context.topic ?? "-")"])
        buffer.push(.error(error))
    }

    func place(of message: UnsafeMutablePointer<rd_kafka_message_t>) -> Logger.Metadata {
        let topic = unsafe message.pointee.rkt.map { unsafe String(cString: rd_kafka_topic_name($0)) } ?? ""
        return [
            "partition": "\(TopicPartition(topic: topic, partition: unsafe message.pointee.partition))",
            "offset": "\(unsafe message.pointee.offset)",
        ]
    }
}
