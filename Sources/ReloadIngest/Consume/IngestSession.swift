import KafkaClient
import Logging
import PostgresClient
import Synchronization
import WidgetModel
import WidgetStore

/// Handles the events of one consumer: keeps the positions of its partitions, and applies its batches.
///
/// One task uses it, so that positions and batches change in the order of the events.
final class IngestSession {
    let service: IngestService
    let consumer: KafkaConsumer
    /// Positions of the process's partitions.
    private(set) var positions: PartitionPositions

    private var configuration: IngestConfiguration { service.configuration }
    private var status: IngestStatus { service.status }
    private var logger: Logger { service.logger }

    init(
        of service: IngestService, _ consumer: KafkaConsumer, positions: PartitionPositions = PartitionPositions()
    ) {
        (self.service, self.consumer, self.positions) = (service, consumer, positions)
    }

    func handle(_ event: KafkaConsumerEvent) async throws {
        switch event {
        case .batch(let batch):
            let begun = ContinuousClock.now
            try await apply(batch)
            // Lets messages gather, so that the next transaction applies more events.
            let pause = pause(after: batch, begunAt: begun)
            if pause > .zero { try await Task.sleep(for: pause) }
        case .advanced(let ends):
            try await advance(to: ends)
        case .interrupted:
            try await adoptShare()
        case .offsetOutOfRange(let partition, let offset):
            try await resolve(LogGap(partition: partition, offset: offset, bounds: nil))
        case .otherLog(let partition, let offset):
            let gap = LogGap(partition: partition, offset: offset, bounds: nil, isOtherLog: true)
            try await resolve(gap)
        case .unreadable(let partition, let offset, let reason):
            standStill(UnreadableBatch(partition: partition, offset: offset, reason: reason))
        case .error(let error):
            status.record(error)
            if error.isConnectionLoss { service.membership.doubtBrokers() }
            if error.code == .unknownTopicOrPartition, service.membership.doubtBrokers() {
                // A topic was deleted, and may exist again with another log. The error may not name it, so all are compared.
                await consumer.assign(positions.starts)
            }
            logger.warning("Kafka consumer", metadata: ["error": "\(error)"])
        }
    }

    private func apply(_ batch: KafkaBatch) async throws {
        service.pending.received(batch)
        defer { service.pending.ended() }
        try await BatchRun(of: PreparedBatch(batch, decoder: service.decoder), in: self).apply()
    }

    private func pause(after batch: KafkaBatch, begunAt begun: ContinuousClock.Instant) -> Duration {
        if service.isBehind(batch.waiting) {
            return batch.count < configuration.maximumMarks ? configuration.gatherTime : .zero
        }
        let spacing = service.workers?.areBusy ?? false ? configuration.busySpacing : configuration.spacing
        return spacing - begun.duration(to: .now)
    }

    /// Records a committed transaction that has moved these positions.
    func applied(_ advances: [PositionAdvance]) {
        positions.applied(advances)
        status.clearObstacles(of: advances.lazy.map(\.place))
        commitToKafka(advances)
    }

    // MARK: Share

    /// Gives up the partitions that no longer belong to the process, and takes those that now do.
    private func adoptShare() async throws {
        guard let share = service.membership.share else { return }
        let change = IngestMembership.Change(
            from: positions.epochs, to: share, halted: Set(service.flow.halts.map(\.topic)))
        await giveUp(change.released)
        if !change.taken.isEmpty {
            let starts = try await take(Array(change.taken))
            await consumer.assign(starts)
            status.clearObstacles(of: starts.keys)
        }
        service.metrics.ingestPartitions.set(positions.epochs.count)
        service.onAssigned()
    }

    /// Stops reading partitions. Their waiting messages are not applied.
    private func giveUp(_ partitions: Set<TopicPartition>) async {
        positions.drop(partitions)
        await consumer.unassign(Array(partitions))
        status.clearStandstill(of: partitions)
    }

    /// Stops reading the partitions of halted topics. They are taken again after the topics are resumed.
    func leaveHalted() async {
        let halted = Set(service.flow.halts.map(\.topic))
        guard !halted.isEmpty else { return }
        await giveUp(Set(positions.positions.keys.filter { halted.contains($0.topic) }))
    }

    /// Takes a new epoch for the partitions and returns their starting offsets. Partitions that are locked by another
    /// process's transaction are left until the next `look`. Waits while the database is unavailable.
    private func take(_ partitions: [TopicPartition]) async throws -> [TopicPartition: KafkaOffset] {
        let ordered = partitions.sorted()
        let cluster = service.cluster.withLock { $0 }
        var attempt = 0
        while true {
            do {
                let rows = try await service.pool.query(
                    .takePartitions(ordered.map { ($0.topic, $0.partition) }, cluster: cluster))
                if rows.isEmpty, let cluster,
                    try await service.pool.query(.readCluster()).contains(where: { $0 != cluster })
                {
                    let reason = "the positions in the database are of another Kafka cluster, which was accepted"
                    status.set("\(reason): restart this process on that cluster", for: "cluster")
                    logger.critical("\(reason); this process reads nothing more")
                    await service.membership.retire()
                }
                positions.take(rows)
                return Dictionary(rows.map { ($0.place, positions.start(of: $0.place) ?? .earliest) }) { $1 }
            } catch {
                attempt += 1
                logger.warning("cannot take partitions; trying again", metadata: ["error": "\(error)"])
                guard await service.pause(attempt: attempt) else { throw CancellationError() }
            }
        }
    }

    /// Gives up partitions that another process has taken. Those that belong to this process are taken again at the
    /// next `look`.
    private func leaveFenced(_ partitions: [TopicPartition]) async {
        service.metrics.ingestFenced.increment(by: partitions.count)
        logger.warning(
            "another process has moved positions of this one's partitions",
            metadata: ["partitions": "\(partitions.summary)"])
        await giveUp(Set(partitions))
        service.membership.hold(positions.epochs)
    }

    /// Resolves a failed compare-and-set: either the batch was committed without an acknowledgement, or another process
    /// has taken the partitions.
    func resolveFence(_ advances: [PositionAdvance]) async throws {
        let stored: [StoredPosition]
        do {
            stored = try await service.pool.query(.listPositions())
        } catch {
            try await service.waitForDatabase("\(error)", attempt: 1, events: 0)
            return
        }
        if positions.areApplied(advances, stored: stored) {
            status.blockedBy = nil
            positions.applied(advances)
            commitToKafka(advances)
            for work in WorkSignal.Work.allCases { service.onWork(work) }
            return
        }
        await leaveFenced(positions.fenced(advances, stored: stored))
    }

    /// Moves the positions of partitions that were read to the end of their logs behind markers of transactions and messages
    /// that were not delivered. Otherwise an idle topic would keep a lag, and retention of a marker would look like a loss.
    private func advance(to ends: [TopicPartition: Int64]) async throws {
        let ends = ends.filter { end in positions.positions[end.key].map { ($0.next ?? 0) < end.value } ?? false }
        status.clearObstacles(of: ends.keys)
        _ = try await moveStored(ends)
    }

    /// Moves the stored positions of the partitions that belong to this process, by compare-and-set. Leaves those that another
    /// process has moved.
    ///
    /// - Returns: false if none of the partitions belongs to this process any more.
    func moveStored(_ targets: [TopicPartition: Int64]) async throws -> Bool {
        var attempt = 0
        while true {
            let advances = positions.advances(to: targets)
            guard !advances.isEmpty else { return false }
            do {
                try await service.pool.withTransaction { connection in
                    var pipeline = PostgresPipeline()
                    _ = pipeline.append(.advancePositions(advances))
                    _ = try await connection.run(pipeline)
                }
                positions.applied(advances)
                commitToKafka(advances)
                return true
            } catch {
                switch ApplyFailure(error) {
                case .stopped:
                    throw CancellationError()
                case .fenced:
                    // The compare-and-set also fails if this very step was committed without an acknowledgement.
                    if let stored = try? await service.pool.query(.listPositions()) {
                        if positions.areApplied(advances, stored: stored) {
                            positions.applied(advances)
                            return true
                        }
                        // The failed statement moved no position. The next attempt moves those of the remaining partitions.
                        await leaveFenced(positions.fenced(advances, stored: stored))
                        continue
                    }
                case .directoryIsBehind, .poison, .tooMuch, .wait, .diversionsChanged, .halted:
                    logger.warning("cannot move positions; trying again", metadata: ["error": "\(error)"])
                }
                attempt += 1
                guard await service.pause(attempt: attempt) else { throw CancellationError() }
            }
        }
    }

    /// Commits offsets to Kafka, for lag tools only.
    private func commitToKafka(_ advances: [PositionAdvance]) {
        consumer.commit(Dictionary(advances.map { ($0.place, $0.next) }) { $1 })
    }

    // MARK: Gaps

    /// Handles a partition whose next offset is not in the log, or whose log is another one, according to the configured
    /// policy.
    ///
    /// - Parameter gap: the gap without the bounds of the log.
    /// - Throws: `CancellationError`.
    private func resolve(_ gap: LogGap) async throws {
        var gap = gap
        let (partition, offset) = (gap.partition, gap.offset)
        do throws(KafkaError) {
            gap.bounds = try await consumer.admin(timeout: .seconds(5)).bounds(of: partition)
        } catch {
            logger.warning("cannot ask for the bounds of a log", metadata: ["error": "\(error)"])
        }
        switch (gap.cause, configuration.offsetOutOfRange) {
        case (.none, _), (.unknown, _),
            (_, .earliest) where gap.bounds == nil:
            // Tries again, since the offset is in the log, or may be, or the earliest one is not known.
            guard await service.pause(attempt: 3) else { throw CancellationError() }
            await move(partition, to: positions.start(of: partition) ?? .at(offset))
        case (_, .stop):
            service.metrics.ingestOutOfRange.increment()
            _ = status.recordStandstill(
                of: partition,
                reason: "partition \(partition) is stopped: \(gap.explanation); to go on: \(gap.command)")
            logger.critical(
                "the log does not have the next offset of a partition; it is stopped until its position is set",
                metadata: [
                    "topic": "\(partition.topic)", "partition": "\(partition.partition)", "offset": "\(offset)",
                    "cause": "\(gap.explanation)", "command": "\(gap.command)",
                ])
        case (_, .earliest):
            guard let bounds = gap.bounds, try await moveStored([partition: bounds.earliest])
            else { return }
            var lost: Int64 = 0
            if case .retention(let count) = gap.cause { lost = count }
            service.metrics.ingestOutOfRange.increment()
            service.metrics.ingestLost.increment(by: Int(lost))
            logger.critical(
                "the log did not have the next offset of a partition; it goes on at the earliest",
                metadata: [
                    "topic": "\(partition.topic)", "partition": "\(partition.partition)", "from": "\(offset)",
                    "to": "\(bounds.earliest)",
                    "lost": [.beyondEnd, .otherLog].contains(gap.cause) ? "unknown" : "\(lost)",
                    "cause": "\(gap.explanation)",
                ])
            await move(partition, to: .at(bounds.earliest))
        }
    }

    /// Reports a partition whose next batch cannot be read. The consumer tries it again at intervals.
    private func standStill(_ batch: UnreadableBatch) {
        let isNew = status.recordStandstill(
            of: batch.partition,
            reason:
                "partition \(batch.explanation); it is stopped, and tried again; to skip the batch: \(batch.command)")
        guard isNew else { return }
        logger.critical(
            "a batch cannot be read; its partition is stopped, and the batch is tried again",
            metadata: [
                "topic": "\(batch.partition.topic)", "partition": "\(batch.partition.partition)",
                "offset": "\(batch.offset)", "cause": "\(batch.reason)", "command": "\(batch.command)",
            ])
    }

    private func move(_ partition: TopicPartition, to offset: KafkaOffset) async {
        await consumer.assign([partition: offset])
        status.clearStandstill(of: [partition])
    }
}
