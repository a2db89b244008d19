internal import CRdKafka
internal import Logging

extension ConsumerLoop {
    private static let commitInterval = Duration.milliseconds(200)
    /// Longest time that closing may take.
    private static let closeTimeout = Duration.seconds(10)

    func serveCommands() {
        guard wakeup.isPending else { return }
        wakeup.clear()
        for command in mailbox.takeCommands() {
            // The last positions are committed before the end.
            if case .stop = command { commit(mailbox.takeCommits()) }
            handle(command)
        }
    }

    /// Not for every batch: these are for lag tools only, and each is a request.
    func serveCommits() {
        let now = ContinuousClock.now
        guard now >= nextCommit else { return }
        nextCommit = now + Self.commitInterval
        commit(mailbox.takeCommits())
    }

    private func handle(_ command: ConsumerCommand) {
        switch command {
        case .assign(let offsets, let continuation):
            assign(offsets)
            continuation.resume()
        case .unassign(let places, let continuation):
            unassign(places)
            continuation.resume()
        case .lag(let continuation):
            continuation.resume(returning: lag())
        case .stop(let reason):
            stopReason = max(reason, stopReason ?? reason)
        case .raiseFatalError:
            raiseFatalError()
        }
    }

    private func commit(_ offsets: [TopicPartition: Int64]) {
        let offsets = offsets.filter { tracker[$0.key] != nil && $0.value >= 0 }
        guard !offsets.isEmpty, stopReason == nil else { return }
        let list = PartitionList(capacity: offsets.count)
        for (place, offset) in offsets { list.add(place, offset: offset) }
        // Asynchronous.
        let response = unsafe rd_kafka_commit(client.pointer, list.pointer, 1)
        guard response != RD_KAFKA_RESP_ERR_NO_ERROR else { return }
        logger.debug(
            "offsets were not committed (for lag tools only)", metadata: ["code": "\(KafkaError.Code(response))"])
    }

    private func lag() -> [TopicPartition: Int64] {
        var lag: [TopicPartition: Int64] = [:]
        for state in tracker.running {
            if let next = state.next, let end = end(of: state.place) { lag[state.place] = max(end - next, 0) }
        }
        return lag
    }

    // MARK: End

    /// Ends the events and frees the client.
    func close() {
        var isClosed = false
        if stopReason == .abandon {
            buffer.discard()
        } else {
            buffer.flush()
            isClosed = closeInOrder()
            if stopReason == .abandon { buffer.discard() }
        }
        buffer.finish(throwing: fatalError)
        for command in mailbox.close() {
            switch command {
            case .assign(_, let continuation), .unassign(_, let continuation): continuation.resume()
            case .lag(let continuation): continuation.resume(returning: nil)
            case .stop, .raiseFatalError: break
            }
        }
        wakeup.close()
        callbacks.owner = nil
        client.destroy(closing: isClosed, keeping: callbacks)
    }

    /// Closes in the background of librdkafka, which sends the last commit; false if it did not end in time.
    private func closeInOrder() -> Bool {
        let queue = unsafe rd_kafka_queue_new(client.pointer)
        defer { unsafe rd_kafka_queue_destroy(queue) }
        let error = unsafe KafkaError(
            taking: rd_kafka_consumer_close_queue(client.pointer, queue),
            context: KafkaError.Context(operation: "close"))
        if let error {
            // After a fatal error librdkafka does not close in order.
            guard !error.isFatal else { return false }
            logger.warning("the consumer could not be closed in order", metadata: ["error": "\(error)"])
            return false
        }
        let deadline = ContinuousClock.now + Self.closeTimeout
        while unsafe rd_kafka_consumer_closed(client.pointer) == 0 {
            guard ContinuousClock.now < deadline, stopReason != .abandon else {
                logger.warning("the consumer did not close in time")
                return false
            }
            // Messages that still come have not been handed over, and are not any more.
            if let message = unsafe rd_kafka_consume_queue(queue, 10) { unsafe rd_kafka_message_destroy(message) }
            turned()
            serveCommands()
        }
        return true
    }
}

extension ConsumerLoop {
    /// Defaults that the caller may override.
    static func defaults(_ configuration: KafkaConfiguration) -> [String: String] {
        var defaults = defaults
        // Answers that are quickly made and quickly used up, so that broker and receiver are busy at once; librdkafka's own are of
        // 50 MiB. It must not be less than the largest message.
        if configuration.properties["message.max.bytes"] == nil { defaults["fetch.max.bytes"] = "8388608" }
        return defaults
    }

    private static let defaults: [String: String] = [
        "client.id": "freshet",
        // Bounds the memory of prefetched values; answers under way come on top, and each message takes some 700 bytes more.
        "queued.max.messages.kbytes": "2048",
        "socket.keepalive.enable": "true",
        // A fetch is a small request that nothing else carries: it must not wait for an acknowledgement.
        "socket.nagle.disable": "true",
        // A fetch is answered as soon as there is anything: messages are gathered here, while the receiver is busy.
        "fetch.min.bytes": "1",
        // One fetch at a time is under way to each broker, and it names the partitions that could be fetched when it was sent. A
        // partition that came back since (after a pause, a full queue, a new leader) waits until it is answered, at most so
        // long; so do all messages, where a broker answers only at the end of the wait. librdkafka's own is half a second.
        "fetch.wait.max.ms": "20",
        // Values that are prefetched are bounded in bytes (above). The number of messages must not stop fetching before that:
        // a queue that was full is looked at again only after a pause.
        "queued.min.messages": "1000000",
        // How soon a partition is fetched again after an error, such as a leader that has moved: librdkafka's own is half a second.
        "fetch.error.backoff.ms": "50",
        // A broker that was away is tried again at least so often: librdkafka's own is 10 seconds.
        "reconnect.backoff.max.ms": "1000",
        // After a leader has moved, how often metadata is asked for until the new one is known.
        "topic.metadata.refresh.fast.interval.ms": "100",
    ]

    /// librdkafka looks only so often whether a full prefetch queue has room again. Where this is not known it is every
    /// second, unless it is woken (``ConsumerLoop``).
    static let newerDefaults: [String: String] = ["fetch.queue.backoff.ms": "20"]

    /// Properties that exactly-once positions depend on.
    static func fixed(_ configuration: KafkaConsumerConfiguration) -> [String: String] {
        var fixed = [
            "enable.auto.commit": "false",
            "enable.auto.offset.store": "false",
            "auto.offset.reset": "error",
            "enable.partition.eof": "false",
        ]
        if !configuration.group.isEmpty { fixed["group.id"] = configuration.group }
        return fixed
    }
}
