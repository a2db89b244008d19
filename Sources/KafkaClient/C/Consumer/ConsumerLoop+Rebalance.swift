internal import CRdKafka
internal import Logging
internal import Synchronization

extension ConsumerLoop {
    /// Both protocols: cooperative (changes) and eager (all or nothing).
    ///
    /// An assignment is completed towards the group at once, with nothing to fetch; the partitions are added when the
    /// receiver has said from where. So a receiver that takes its time (its database is away, say) does not hold up the
    /// group, and the partitions that it has go on meanwhile.
    func rebalanced(_ response: rd_kafka_resp_err_t, partitions: UnsafePointer<rd_kafka_topic_partition_list_t>) {
        lastRebalance = .now
        let places = unsafe PartitionList.places(in: partitions)
        switch response {
        case RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS:
            assigned(places)
        case RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS:
            revoked(places)
        default:
            report(KafkaError(response, context: KafkaError.Context(operation: "rebalance")))
            pulse.withLock { $0.isMember = false }
            revoked(tracker.all.map(\.place))
        }
        // librdkafka drops the prefetched messages of all partitions in a rebalance.
        tracker.distrustPositions()
        indexCache.removeAll()
        lastRebalance = .now
    }

    var isCooperative: Bool {
        let name = unsafe rd_kafka_rebalance_protocol(client.pointer)
        return unsafe name.map { unsafe String(cString: $0) } == "COOPERATIVE"
    }

    private func assigned(_ places: [TopicPartition]) {
        assignments += 1
        let assignment = assignments
        tracker.assign(places, assignment: assignment)
        let topics = tracker.topics
        _ = buffer.gather { $0.topics = topics }
        if isCooperative { add([:]) } else { replaceAll(with: [:]) }
        pulse.withLock { $0.isMember = true }
        guard !places.isEmpty else { return }
        logger.info("partitions assigned", metadata: ["partitions": "\(places.summary)"])

        buffer.flush()
        let mailbox = mailbox
        let logger = logger
        buffer.push(
            .assigned(
                KafkaAssignment(
                    partitions: places,
                    onStart: { mailbox.post(.start(places, at: $0, assignment: assignment)) },
                    onFailure: {
                        logger.warning(
                            "the receiver does not take partitions: nobody reads them until it does",
                            metadata: ["partitions": "\(places.summary)"])
                    })))
    }

    private func revoked(_ places: [TopicPartition]) {
        let places = places.filter { tracker[$0] != nil }
        let isLost = unsafe rd_kafka_assignment_lost(client.pointer) != 0
        if isLost { pulse.withLock { $0.isMember = false } }
        if !places.isEmpty {
            logger.info("partitions revoked", metadata: ["partitions": "\(places.summary)", "lost": "\(isLost)"])
            revocations += 1
            let revocation = revocations
            let mailbox = mailbox
            buffer.flush()
            buffer.push(
                .revoked(
                    KafkaRevocation(partitions: places, lost: isLost) {
                        mailbox.post(.acknowledge(revocation: revocation))
                    }))
            if !isLost { awaitAcknowledgement(revocation) }
        }
        let gone = Set(places)
        let started = tracker.started.filter { gone.contains($0.place) }
        // A partition that comes back later must not come back paused.
        setPaused(false, started.filter { isHolding || $0.isPausedByReceiver }.map(\.place))
        tracker.revoke(places)
        if isCooperative {
            let list = PartitionList(started.map(\.place))
            check(
                unsafe KafkaError(
                    taking: rd_kafka_incremental_unassign(client.pointer, list.pointer),
                    context: KafkaError.Context(operation: "unassign")))
        } else {
            check(unsafe rd_kafka_assign(client.pointer, nil), "unassign")
        }
    }

    /// Waits, bounded, until the receiver has handled everything; serves its commands meanwhile, since it may need one
    /// for that.
    private func awaitAcknowledgement(_ revocation: Int) {
        let deadline = ContinuousClock.now + configuration.revocationTimeout
        serveCommands()
        while !acknowledgedRevocations.contains(revocation), buffer.hasReceiver, stopReason != .abandon {
            let remaining = ContinuousClock.now.duration(to: deadline)
            guard remaining > .zero else {
                counters.withLock { $0.unacknowledgedRevocations += 1 }
                logger.warning("a revocation was not acknowledged in time; the partitions are given up all the same")
                break
            }
            wakeup.wait(atMost: remaining)
            turned()
            serveCommands()
        }
        acknowledgedRevocations.remove(revocation)
    }

    // MARK: Changes of what is fetched

    /// Begins to fetch partitions of the group's assignment. An empty list only completes a rebalance.
    func add(_ offsets: [TopicPartition: KafkaOffset]) {
        let list = PartitionList(capacity: offsets.count)
        for (place, offset) in offsets { list.add(place, offset: offset.number) }
        check(
            unsafe KafkaError(
                taking: rd_kafka_incremental_assign(client.pointer, list.pointer),
                context: KafkaError.Context(operation: "assign")))
    }

    /// The eager protocol's way: all that is fetched, each from where it stands, with these moved or added.
    func replaceAll(with offsets: [TopicPartition: KafkaOffset]) {
        var all = offsets
        for state in tracker.running where all[state.place] == nil { all[state.place] = state.resumption }
        let list = PartitionList(capacity: all.count)
        for (place, offset) in all { list.add(place, offset: offset.number) }
        check(unsafe rd_kafka_assign(client.pointer, list.pointer), "assign")
        tracker.distrustPositions()
    }

    /// Moves partitions that librdkafka has in its assignment.
    func reposition(_ offsets: [TopicPartition: KafkaOffset]) {
        guard !offsets.isEmpty else { return }
        let list = PartitionList(capacity: offsets.count)
        for (place, offset) in offsets { list.add(place, offset: offset.number) }
        check(
            unsafe KafkaError(
                taking: rd_kafka_seek_partitions(client.pointer, list.pointer, Self.seekMilliseconds),
                context: KafkaError.Context(operation: "seek")))
        // A partition that librdkafka has stopped (out of range), or not started yet, cannot seek: assign it anew.
        let refused = Set(list.failures().map(\.place))
        reassign(offsets.filter { refused.contains($0.key) })
    }

    func reassign(_ offsets: [TopicPartition: KafkaOffset]) {
        guard !offsets.isEmpty else { return }
        if isCooperative {
            let list = PartitionList(Array(offsets.keys))
            check(
                unsafe KafkaError(
                    taking: rd_kafka_incremental_unassign(client.pointer, list.pointer),
                    context: KafkaError.Context(operation: "seek")))
            add(offsets)
        } else {
            replaceAll(with: offsets)
        }
        setPaused(true, offsets.keys.filter { isHolding || tracker[$0]?.isPausedByReceiver == true })
    }

    private static let seekMilliseconds: Int32 = 5000

    private func check(_ response: rd_kafka_resp_err_t, _ operation: String) {
        guard response != RD_KAFKA_RESP_ERR_NO_ERROR else { return }
        check(KafkaError(response, context: KafkaError.Context(operation: operation)))
    }

    private func check(_ error: KafkaError?) {
        if let error { report(error) }
    }
}
