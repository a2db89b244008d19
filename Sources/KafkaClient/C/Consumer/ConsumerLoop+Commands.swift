internal import CRdKafka
internal import Logging

extension ConsumerLoop {
    /// No commit is sent so soon after a rebalance.
    private static let commitQuiet = Duration.seconds(1)
    private static let commitInterval = Duration.milliseconds(200)
    /// How long closing may take beyond the revocation timeout.
    private static let closeTimeout = Duration.seconds(10)

    func serveCommands() {
        guard wakeup.isPending else { return }
        wakeup.clear()
        for command in mailbox.takeCommands() {
            // The last positions are committed before the group is left.
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
        case .start(let places, let offsets, let assignment):
            start(places, at: offsets, assignment: assignment)
        case .acknowledge(let revocation):
            acknowledgedRevocations.insert(revocation)
        case .seek(let offsets, let continuation):
            continuation.resume(returning: seek(offsets))
        case .pause(let places):
            setPausedByReceiver(true, places)
        case .resume(let places):
            setPausedByReceiver(false, places)
        case .lag(let continuation):
            continuation.resume(returning: lag())
        case .stop(let reason):
            stopReason = max(reason, stopReason ?? reason)
        case .raiseFatalError:
            raiseFatalError()
        }
    }

    private func start(_ places: [TopicPartition], at offsets: [TopicPartition: KafkaOffset], assignment: Int) {
        let fresh = places.filter { place in
            guard let state = tracker[place] else { return false }
            return state.assignment == assignment && state.phase == .waiting
        }
        start(Dictionary(uniqueKeysWithValues: fresh.map { ($0, offsets[$0] ?? .earliest) }))
    }

    private func start(_ offsets: [TopicPartition: KafkaOffset]) {
        guard !offsets.isEmpty else { return }
        if isCooperative { add(offsets) } else { replaceAll(with: offsets) }
        for (place, offset) in offsets { tracker.move(place, to: offset) }
        setPaused(true, offsets.keys.filter { isHolding || tracker[$0]?.isPausedByReceiver == true })
    }

    private func seek(_ offsets: [TopicPartition: KafkaOffset]) -> KafkaError? {
        let assigned = offsets.filter { tracker[$0.key] != nil }
        let places = Set(assigned.keys)
        buffer.remove(places)

        let byPhase = Dictionary(grouping: assigned) { tracker[$0.key]?.phase ?? .waiting }
        start(Dictionary(uniqueKeysWithValues: byPhase[.waiting] ?? []))
        reposition(Dictionary(uniqueKeysWithValues: byPhase[.running] ?? []))
        reassign(Dictionary(uniqueKeysWithValues: byPhase[.stalled] ?? []))
        for (place, offset) in assigned { tracker.move(place, to: offset) }

        guard let missing = offsets.keys.filter({ tracker[$0] == nil }).min() else { return nil }
        return KafkaError(
            code: .notAssigned, message: "the partition is not assigned to this consumer", isRetriable: false,
            context: KafkaError.Context(operation: "seek", topic: missing.topic, partition: missing.partition))
    }

    private func setPausedByReceiver(_ isPaused: Bool, _ places: [TopicPartition]) {
        let affected = places.filter { tracker[$0].map { $0.isPausedByReceiver != isPaused } ?? false }
        for place in affected { tracker.setPausedByReceiver(place, isPaused) }
        if !isPaused { tracker.distrustPositions() }
        // While fetching is held, all are paused already, and stay so.
        if !isHolding { setPaused(isPaused, affected.filter { tracker[$0]?.phase != .waiting }) }
    }

    private func commit(_ offsets: [TopicPartition: Int64]) {
        let offsets = offsets.filter { tracker[$0.key] != nil && $0.value >= 0 }
        guard !offsets.isEmpty, stopReason == nil, lastRebalance.duration(to: .now) >= Self.commitQuiet else { return }
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

    /// Leaves the group (unless it is to vanish), ends the events, and frees the client.
    func close() {
        var hasLeft = false
        if stopReason == .abandon {
            buffer.discard()
        } else {
            buffer.flush()
            hasLeft = leaveGroup()
            if stopReason == .abandon { buffer.discard() }
        }
        buffer.finish(throwing: fatalError)
        for command in mailbox.close() {
            switch command {
            case .seek(_, let continuation): continuation.resume(returning: .shutDown("seek"))
            case .lag(let continuation): continuation.resume(returning: nil)
            case .start, .acknowledge, .pause, .resume, .stop, .raiseFatalError: break
            }
        }
        wakeup.close()
        callbacks.owner = nil
        client.destroy(leavingGroup: hasLeft, keeping: callbacks)
    }

    /// Closes in the background of librdkafka and serves the last revocation; false if it did not end in time.
    private func leaveGroup() -> Bool {
        let queue = unsafe rd_kafka_queue_new(client.pointer)
        defer { unsafe rd_kafka_queue_destroy(queue) }
        let error = unsafe KafkaError(
            taking: rd_kafka_consumer_close_queue(client.pointer, queue),
            context: KafkaError.Context(operation: "close"))
        if let error {
            // After a fatal error librdkafka does not close in order; there is nothing left to leave.
            guard !error.isFatal else { return false }
            logger.warning("the consumer could not be closed in order", metadata: ["error": "\(error)"])
            return false
        }
        let deadline = ContinuousClock.now + configuration.revocationTimeout + Self.closeTimeout
        while unsafe rd_kafka_consumer_closed(client.pointer) == 0 {
            guard ContinuousClock.now < deadline, stopReason != .abandon else {
                logger.warning("the consumer did not leave its group in time")
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
        // Not cooperative-sticky: before librdkafka 2.3.0 (confluentinc/librdkafka issue 4312) a client with it that is
        // closed between joining its group and its first assignment aborts the process. Giving all partitions up at a
        // rebalance costs little: positions are the receiver's, not the group's.
        "partition.assignment.strategy": "roundrobin",
        "session.timeout.ms": "45000",
        // How soon new partitions, and topics that were missing, are noticed: librdkafka's own default is 5 minutes.
        "topic.metadata.refresh.interval.ms": "30000",
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
        if let instance = configuration.groupInstanceID { fixed["group.instance.id"] = instance }
        return fixed
    }
}
