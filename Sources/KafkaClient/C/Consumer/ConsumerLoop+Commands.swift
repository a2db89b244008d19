internal import CRdKafka
internal import Logging

extension ConsumerLoop {
    /// Longest wait for the leaders of new topics.
    private static let metadataMilliseconds: Int32 = 500
    private static let commitInterval = Duration.milliseconds(200)
    /// Time limit of closing.
    private static let closeTimeout = Duration.seconds(10)

    func serveCommands() {
        guard wakeup.isPending else { return }
        wakeup.clear()
        for command in mailbox.takeCommands() {
            // The last positions are committed before the consumer stops.
            if case .stop = command { commit(mailbox.takeCommits()) }
            handle(command)
        }
    }

    /// Commits at intervals: each commit is a request, and only lag tools read them.
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
            // On the poll thread: on another one the client might be destroyed during the call.
            unsafe rd_kafka_test_fatal_error(
                client.pointer, RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID, "raised for a test")
        }
    }

    private func commit(_ offsets: [TopicPartition: Int64]) {
        let offsets = offsets.filter { tracker[$0.key] != nil && $0.value >= 0 }
        guard !offsets.isEmpty, stopReason == nil else { return }
        let list = PartitionList(offsets)
        // Asynchronous.
        let response = unsafe rd_kafka_commit(client.pointer, list.pointer, 1)
        guard response != RD_KAFKA_RESP_ERR_NO_ERROR else { return }
        logger.debug(
            "offsets were not committed (for lag tools only)", metadata: ["code": "\(KafkaError.Code(response))"])
    }

    private func lag() -> [TopicPartition: Int64] {
        var lag: [TopicPartition: Int64] = [:]
        for state in tracker.running where state.next != nil { lag[state.place] = unread(state) }
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
            reportAdvanced()
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
        client.callbacks.owner = nil
        client.destroy(closing: isClosed)
    }

    /// Closes on librdkafka's threads, which send the last commit; false if that did not end in time.
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
            // Messages that still come are dropped.
            if let message = unsafe rd_kafka_consume_queue(queue, 10) { unsafe rd_kafka_message_destroy(message) }
            noteTurn()
            serveCommands()
        }
        return true
    }
}

extension ConsumerLoop {
    /// Fetches partitions from these offsets on; partitions that are fetched already are moved.
    func assign(_ offsets: [TopicPartition: KafkaOffset]) {
        guard !offsets.isEmpty else { return }
        forget(Set(offsets.keys))
        let byPhase = Dictionary(grouping: offsets) { tracker[$0.key]?.phase }.mapValues {
            Dictionary($0.map { ($0.key, $0.value) }) { $1 }
        }
        let added = byPhase[nil] ?? [:]
        tracker.assign(added.keys.sorted())
        let topics = tracker.topics
        _ = buffer.gather { $0.topics = topics }
        add(added)
        reposition(byPhase[.running] ?? [:])
        reassign(byPhase[.stalled] ?? [:])
        for (place, offset) in offsets { tracker.move(place, to: offset) }
        if isHolding { setPaused(true, Array(offsets.keys)) }
        if !added.isEmpty { logger.info("partitions assigned", metadata: ["partitions": "\(added.keys.summary)"]) }
    }

    /// Stops fetching partitions and drops their buffered messages.
    func unassign(_ places: [TopicPartition]) {
        let places = places.filter { tracker[$0] != nil }
        guard !places.isEmpty else { return }
        forget(Set(places))
        // A partition that is assigned again later must not be paused.
        if isHolding { setPaused(false, places) }
        remove(places)
        tracker.revoke(places)
        assignmentChanged()
        logger.info("partitions given up", metadata: ["partitions": "\(places.summary)"])
    }

    /// Drops the messages and ends of partitions that have not been received yet.
    private func forget(_ places: Set<TopicPartition>) {
        buffer.remove(places)
        for place in places { advanced[place] = nil }
        unreadable.forget(places)
        resumeStalled(places)
    }

    /// Moves fetched partitions.
    func reposition(_ offsets: [TopicPartition: KafkaOffset]) {
        guard !offsets.isEmpty else { return }
        let list = PartitionList(offsets.mapValues(\.number))
        check(
            unsafe KafkaError(
                taking: rd_kafka_seek_partitions(client.pointer, list.pointer, Self.seekMilliseconds),
                context: KafkaError.Context(operation: "seek")))
        // A partition that librdkafka has stopped or not started cannot seek: it is assigned anew.
        let refused = Set(list.failures().map(\.place))
        reassign(offsets.filter { refused.contains($0.key) })
    }

    func reassign(_ offsets: [TopicPartition: KafkaOffset]) {
        guard !offsets.isEmpty else { return }
        remove(Array(offsets.keys))
        add(offsets)
        if isHolding { setPaused(true, Array(offsets.keys)) }
    }

    private func add(_ offsets: [TopicPartition: KafkaOffset]) {
        guard !offsets.isEmpty else { return }
        learnLeaders(of: Set(offsets.keys.map(\.topic)))
        let list = PartitionList(offsets.mapValues(\.number))
        let error = unsafe KafkaError(
            taking: rd_kafka_incremental_assign(client.pointer, list.pointer),
            context: KafkaError.Context(operation: "assign"))
        if let error {
            // The owner has to make another consumer, since it believes that the partitions are read.
            report(error)
            fatalError = fatalError ?? error
            stopReason = stopReason ?? .shutdown
        }
        assignmentChanged()
    }

    /// Requests the leaders of topics that are new to the client. Otherwise librdkafka requests them up to a second
    /// after the assignment, and looks up the first offset up to half a second later. It does so too if this request
    /// fails.
    private func learnLeaders(of topics: Set<String>) {
        let new = topics.subtracting(knownTopics)
        guard !new.isEmpty else { return }
        var handles = unsafe new.compactMap { unsafe rd_kafka_topic_new(client.pointer, $0, nil) }
        defer { while let handle = unsafe handles.popLast() { unsafe rd_kafka_topic_destroy(handle) } }
        var metadata: UnsafePointer<rd_kafka_metadata>?
        let response = unsafe rd_kafka_metadata(client.pointer, 0, nil, &metadata, Self.metadataMilliseconds)
        unsafe rd_kafka_metadata_destroy(metadata)
        if response == RD_KAFKA_RESP_ERR_NO_ERROR { knownTopics.formUnion(new) }
    }

    private func remove(_ places: [TopicPartition]) {
        let list = PartitionList(places)
        check(
            unsafe KafkaError(
                taking: rd_kafka_incremental_unassign(client.pointer, list.pointer),
                context: KafkaError.Context(operation: "unassign")))
    }

    /// Notes that librdkafka may have dropped the prefetched messages of all partitions.
    private func assignmentChanged() {
        tracker.distrustPositions()
        indexCache.removeAll()
    }

    private static let seekMilliseconds: Int32 = 5000

    private func check(_ error: KafkaError?) {
        if let error { report(error) }
    }
}
