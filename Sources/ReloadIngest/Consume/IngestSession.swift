// SPDX-License-Identifier: Apache-2.0

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
            service.pending.received(batch)
            do {
                defer { service.pending.end() }
                try await BatchRun(of: PreparedBatch(batch, decoder: service.decoder), in: self).apply()
            }
            // Lets messages gather, so that the next transaction applies more events.
            var pause = service.workers?.areBusy ?? false ? configuration.busySpacing : configuration.spacing
            pause -= begun.duration(to: .now)
            if service.isBehind(batch.waiting) {
                pause = batch.count < configuration.maximumMarks ? configuration.gatherTime : .zero
            }
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
                // A topic was deleted, and may exist again with another log. The error may not name it, so all are
                // compared.
                await consumer.assign(positions.starts)
            }
            logger.warning("Kafka consumer", metadata: ["error": "\(error)"])
        }
    }

    /// Records a committed transaction that has moved these positions, and commits them to Kafka, for lag tools only.
    func recordApplied(_ advances: [PositionAdvance]) {
        positions.recordApplied(advances)
        status.clearObstacles(of: advances.lazy.map(\.place))
        consumer.commit(Dictionary(advances.map { ($0.place, $0.next) }) { $1 })
    }

    // MARK: Share

    /// Gives up the partitions that no longer belong to the process, and takes those that now do.
    private func adoptShare() async throws {
        let halted = Set(service.restrictions.halts.map(\.topic))
        guard let change = service.membership.change(from: positions.epochs, halted: halted) else { return }
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
        status.clearStall(of: partitions)
    }

    /// Stops reading the partitions of halted topics. They are taken again after the topics are resumed.
    func leaveHalted() async {
        let halted = Set(service.restrictions.halts.map(\.topic))
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
            recordApplied(advances)
            service.onLists()
            service.onSweeps()
            return
        }
        await leaveFenced(positions.fenced(advances, stored: stored))
    }

    /// Moves the positions of partitions that were read to the end of their logs behind markers of transactions and
    /// messages that were not delivered. Otherwise an idle topic would keep a lag, and retention of a marker would look
    /// like a loss.
    private func advance(to ends: [TopicPartition: Int64]) async throws {
        let ends = ends.filter { end in positions.positions[end.key].map { ($0.next ?? 0) < end.value } ?? false }
        status.clearObstacles(of: ends.keys)
        _ = try await moveStored(ends)
    }

    /// Moves the stored positions of the partitions that belong to this process, by compare-and-set. Leaves those that
    /// another process has moved.
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
                recordApplied(advances)
                return true
            } catch {
                switch ApplyFailure(error) {
                case .stopped:
                    throw CancellationError()
                case .fenced:
                    // The compare-and-set also fails if this very step was committed without an acknowledgement.
                    if let stored = try? await service.pool.query(.listPositions()) {
                        guard !positions.areApplied(advances, stored: stored) else {
                            recordApplied(advances)
                            return true
                        }
                        // The failed statement moved no position. The next attempt moves those of the remaining
                        // partitions.
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

    // MARK: Gaps

    /// Handles a partition whose next offset is not in the log, or whose log is another one, according to the
    /// configured policy.
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
            _ = status.recordStall(
                of: partition,
                reason: "partition \(partition) is stopped: \(gap.explanation); to go on: \(gap.command)")
            logger.critical(
                "the log does not have the next offset of a partition; it is stopped until its position is set",
                metadata: [
                    "topic": "\(partition.topic)", "partition": "\(partition.partition)", "offset": "\(offset)",
                    "cause": "\(gap.explanation)", "command": "\(gap.command)",
                ])
        case (_, .earliest):
            guard let bounds = gap.bounds, try await moveStored([partition: bounds.lowerBound])
            else { return }
            var lost: Int64 = 0
            if case .retention(let count) = gap.cause { lost = count }
            service.metrics.ingestOutOfRange.increment()
            service.metrics.ingestLost.increment(by: Int(lost))
            logger.critical(
                "the log did not have the next offset of a partition; it goes on at the earliest",
                metadata: [
                    "topic": "\(partition.topic)", "partition": "\(partition.partition)", "from": "\(offset)",
                    "to": "\(bounds.lowerBound)",
                    "lost": [.beyondEnd, .otherLog].contains(gap.cause) ? "unknown" : "\(lost)",
                    "cause": "\(gap.explanation)",
                ])
            await move(partition, to: .at(bounds.lowerBound))
        }
    }

    /// Reports a partition whose next batch cannot be read. The consumer tries it again at intervals.
    private func standStill(_ batch: UnreadableBatch) {
        let isNew = status.recordStall(
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
        status.clearStall(of: [partition])
    }
}

/// Positions of the process in its partitions.
struct PartitionPositions: Sendable {
    /// Epoch taken at assignment; offset of the next event to apply, nil if none was ever applied; and the last applied
    /// message, nil if it is not known.
    typealias Position = (epoch: Int64, next: Int64?, last: KafkaFingerprint?)

    private(set) var positions: [TopicPartition: Position] = [:]
    /// The epochs of the positions; apart, since every batch keeps them.
    private(set) var epochs: [TopicPartition: Int64] = [:]

    mutating func take(_ rows: [StoredPosition]) {
        for row in rows {
            var last: KafkaFingerprint?
            if let offset = row.lastOffset, let hash = row.lastHash {
                last = KafkaFingerprint(offset: offset, hash: hash)
            }
            positions[row.place] = (row.epoch, row.nextOffset, last)
            epochs[row.place] = row.epoch
        }
    }

    mutating func drop(_ partitions: some Sequence<TopicPartition>) {
        for partition in partitions {
            positions[partition] = nil
            epochs[partition] = nil
        }
    }

    /// Offset of the first event to apply among the messages received under an epoch. Nil if the epoch is not the
    /// current one, since messages of an older epoch may lie beyond a gap.
    func firstDue(of partition: TopicPartition, receivedUnder epoch: Int64?) -> Int64? {
        guard let position = positions[partition], position.epoch == epoch else { return nil }
        return position.next ?? 0
    }

    /// Offset at which reading starts; nil for a partition of another process.
    func start(of partition: TopicPartition) -> KafkaOffset? {
        guard let position = positions[partition] else { return nil }
        guard let next = position.next else { return .earliest }
        guard let last = position.last, last.offset < next else { return .at(next) }
        return .behind(last, next: next)
    }

    /// Offsets at which reading of all partitions starts.
    var starts: [TopicPartition: KafkaOffset] {
        Dictionary(positions.keys.map { ($0, start(of: $0) ?? .earliest) }) { $1 }
    }

    /// The compare-and-set that moves each partition behind its last applied message, in key order.
    func advances(behind messages: [TopicPartition: KafkaFingerprint]) -> [PositionAdvance] {
        messages.sorted { $0.key < $1.key }.compactMap { advance($0, to: $1.offset + 1, last: $1) }
    }

    /// The compare-and-set that moves each partition to an offset without applying messages, in key order. The last
    /// applied message stays that of the partition if it is before the offset.
    func advances(to next: [TopicPartition: Int64]) -> [PositionAdvance] {
        next.sorted { $0.key < $1.key }.compactMap { partition, next in
            let last = positions[partition]?.last
            let isBehind = positions[partition]?.next.map { $0 <= next } ?? false
            return advance(partition, to: next, last: isBehind ? last : nil)
        }
    }

    private func advance(
        _ partition: TopicPartition, to next: Int64, last: KafkaFingerprint?
    ) -> PositionAdvance? {
        positions[partition].map {
            PositionAdvance(
                topic: partition.topic, partition: partition.partition, epoch: $0.epoch, expected: $0.next, next: next,
                lastOffset: last?.offset, lastHash: last?.hash)
        }
    }

    mutating func recordApplied(_ advances: [PositionAdvance]) {
        for advance in advances {
            positions[advance.place]?.next = advance.next
            positions[advance.place]?.last = advance.last
        }
    }

    /// Partitions whose stored position is not this process's, because another process has taken them.
    func fenced(_ advances: [PositionAdvance], stored: [StoredPosition]) -> [TopicPartition] {
        let stored = Self.byPartition(stored)
        return advances.compactMap { advance in
            let row = stored[advance.place]
            return row?.epoch == advance.epoch && row?.nextOffset == advance.expected ? nil : advance.place
        }
    }

    /// Whether an attempt was committed although its COMMIT was not acknowledged.
    func areApplied(_ advances: [PositionAdvance], stored: [StoredPosition]) -> Bool {
        let stored = Self.byPartition(stored)
        return advances.allSatisfy { advance in
            let row = stored[advance.place]
            return row?.epoch == advance.epoch && row?.nextOffset == advance.next
        }
    }

    private static func byPartition(_ stored: [StoredPosition]) -> [TopicPartition: StoredPosition] {
        Dictionary(stored.map { ($0.place, $0) }) { $1 }
    }
}

extension PositionAdvance {
    var place: TopicPartition { TopicPartition(topic: topic, partition: partition) }

    fileprivate var last: KafkaFingerprint? {
        guard let lastOffset, let lastHash else { return nil }
        return KafkaFingerprint(offset: lastOffset, hash: lastHash)
    }
}

extension StoredPosition {
    var place: TopicPartition { TopicPartition(topic: topic, partition: partition) }
}
