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
            let error = KafkaError(
                response, message: reason,
                context: KafkaError.Context(
                    operation: "consume", topic: topic, partition: partition < 0 ? nil : partition))
            if error.isUnreadableBatch {
                unsafe notRead(message, error)
            } else if errorLimit.allows(error) {
                report(error)
            }
        }
    }

    /// Handles an error of a batch. librdkafka would fetch it again and again, or skip it.
    private func notRead(_ message: UnsafeMutablePointer<rd_kafka_message_t>, _ error: KafkaError) {
        guard
            let index = unsafe indexCache.index(
                topic: message.pointee.rkt, partition: message.pointee.partition, in: tracker)
        else { return }
        // The error names the start of the batch, which may lie before the position.
        let state = tracker.state(at: index)
        let offset = state.next ?? max(0, unsafe message.pointee.offset)
        stopAtUnreadableBatch(state.place, at: offset, reason: error.message)
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
        if state.known != nil, let next = state.next {
            // The message before the position is not in the log, but the position may be.
            reassign([state.place: .at(next)])
            tracker.move(state.place, to: .at(next))
            return
        }
        leaveRange(
            state.place, at: named >= 0 ? named : state.next ?? named,
            unsafe rd_kafka_message_errstr(message).map { unsafe String(cString: $0) } ?? "")
    }

    /// Stops a partition whose log does not have the next offset.
    func leaveRange(_ place: TopicPartition, at offset: Int64, _ reason: String) {
        pauseStalled(place)
        buffer.flush()
        logger.error(
            "the log does not have the offset; the partition stands still until it is moved",
            metadata: ["partition": "\(place)", "offset": "\(offset)", "reason": "\(reason)"])
        buffer.push(.offsetOutOfRange(place, offset: offset))
    }

    /// Compares a message with the one that the log must have, and returns whether it may be accepted. Stops the partition if
    /// the log has another message there.
    func isOfLog(
        _ message: UnsafeMutablePointer<rd_kafka_message_t>, _ known: KafkaFingerprint, _ index: Int
    ) -> Bool {
        let state = tracker.state(at: index)
        let offset = unsafe message.pointee.offset
        guard state.phase == .running, offset >= known.offset else { return false }
        guard offset == known.offset else {
            // Compaction or retention has removed it.
            tracker.confirmLog(index)
            return true
        }
        var builder = BatchBuilder(maximumMessages: 1, maximumBytes: .max)
        unsafe builder.append(message, topicIndex: 0)
        guard builder.take(topics: [state.place.topic]).fingerprint(0) == known else {
            pauseStalled(state.place)
            buffer.flush()
            logger.error(
                "the log has another message than before; the partition stands still until it is moved",
                metadata: ["partition": "\(state.place)", "offset": "\(offset)"])
            buffer.push(.otherLog(state.place, offset: offset))
            return false
        }
        tracker.confirmLog(index)
        // Messages between it and the position have been read before.
        if let next = state.next, next - offset > Self.mostReadAgain { reposition([state.place: .at(next)]) }
        return false
    }

    /// Number of messages up to which those before the position are read again instead of a seek.
    private static var mostReadAgain: Int64 { 1_000 }

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
