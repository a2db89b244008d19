internal import CRdKafka
internal import Logging

extension ConsumerLoop {
    /// Fetches partitions from these offsets on; one that is fetched already goes on there.
    func assign(_ offsets: [TopicPartition: KafkaOffset]) {
        guard !offsets.isEmpty else { return }
        buffer.remove(Set(offsets.keys))
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
        buffer.remove(Set(places))
        // A partition that comes back later must not come back paused.
        if isHolding { setPaused(false, places) }
        remove(places)
        tracker.revoke(places)
        assignmentChanged()
        logger.info("partitions given up", metadata: ["partitions": "\(places.summary)"])
    }

    /// Moves partitions that are fetched.
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

    private func reassign(_ offsets: [TopicPartition: KafkaOffset]) {
        guard !offsets.isEmpty else { return }
        remove(Array(offsets.keys))
        add(offsets)
        if isHolding { setPaused(true, Array(offsets.keys)) }
    }

    private func add(_ offsets: [TopicPartition: KafkaOffset]) {
        guard !offsets.isEmpty else { return }
        let list = PartitionList(capacity: offsets.count)
        for (place, offset) in offsets { list.add(place, offset: offset.number) }
        let error = unsafe KafkaError(
            taking: rd_kafka_incremental_assign(client.pointer, list.pointer),
            context: KafkaError.Context(operation: "assign"))
        if let error {
            // Its owner believes that the partitions are read: it has to make another consumer.
            report(error)
            fatalError = fatalError ?? error
            stopReason = stopReason ?? .shutdown
        }
        assignmentChanged()
    }

    private func remove(_ places: [TopicPartition]) {
        let list = PartitionList(places)
        check(
            unsafe KafkaError(
                taking: rd_kafka_incremental_unassign(client.pointer, list.pointer),
                context: KafkaError.Context(operation: "unassign")))
    }

    /// librdkafka may drop the prefetched messages of all partitions.
    private func assignmentChanged() {
        tracker.distrustPositions()
        indexCache.removeAll()
    }

    private static let seekMilliseconds: Int32 = 5000

    private func check(_ error: KafkaError?) {
        if let error { report(error) }
    }
}
