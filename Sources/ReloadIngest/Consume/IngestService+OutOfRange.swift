import KafkaClient
import Logging
import PostgresClient
import Synchronization
import WidgetStore

extension IngestService {
    /// Handles a partition whose next offset is not in the log, or whose log is another one, according to the configured
    /// policy.
    ///
    /// - Parameter gap: the gap without the bounds of the log.
    /// - Throws: `CancellationError`.
    func settle(
        _ gap: LogGap, _ positions: inout PartitionPositions, _ consumer: KafkaConsumer
    ) async throws {
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
            guard await pause(attempt: 3) else { throw CancellationError() }
            await move(partition, to: positions.start(of: partition) ?? .at(offset), consumer)
        case (_, .stop):
            statistics.update { $0.outOfRange += 1 }
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
            guard let bounds = gap.bounds, try await moveStored([partition: bounds.earliest], &positions, consumer)
            else { return }
            var lost: Int64 = 0
            if case .retention(let count) = gap.cause { lost = count }
            statistics.update {
                $0.outOfRange += 1
                $0.lostToRetention += Int(lost)
            }
            logger.critical(
                "the log did not have the next offset of a partition; it goes on at the earliest",
                metadata: [
                    "topic": "\(partition.topic)", "partition": "\(partition.partition)", "from": "\(offset)",
                    "to": "\(bounds.earliest)",
                    "lost": [.beyondEnd, .otherLog].contains(gap.cause) ? "unknown" : "\(lost)",
                    "cause": "\(gap.explanation)",
                ])
            await move(partition, to: .at(bounds.earliest), consumer)
        }
    }

    /// Reports a partition whose next batch cannot be read. The consumer tries it again at intervals.
    func standStill(_ batch: UnreadableBatch) {
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

    private func move(_ partition: TopicPartition, to offset: KafkaOffset, _ consumer: KafkaConsumer) async {
        await consumer.assign([partition: offset])
        status.clearStandstill(of: [partition])
    }

    // MARK: Obstacles

    /// Reasons why the process does not read all its partitions, for readiness.
    package var obstacles: [String] {
        let reasons = status.reasons
        guard reasons.isEmpty, membership.share == nil else { return reasons }
        return ["no partitions are read: this process has not registered in the database, or no broker answers, yet"]
    }

    /// Time since the consumer's thread last made progress; nil without a consumer.
    package var consumerSilence: Duration? { current.withLock { $0 }?.silence }

    /// Logs obstacles at intervals, and checks whether topics can be read again.
    func watchObstacles(_ consumer: KafkaConsumer) async {
        var unsaid = Duration.zero
        while true {
            guard (try? await Task.sleep(for: configuration.recheckInterval)) != nil else { return }
            for partition in status.probes where await consumer.canRead(partition) {
                status.clearObstacle(ofTopic: partition.topic)
            }
            unsaid += configuration.recheckInterval
            guard unsaid >= configuration.noticeInterval else { continue }
            unsaid = .zero
            let obstacles = obstacles
            guard !obstacles.isEmpty else { continue }
            logger.warning("ingest is blocked", metadata: ["reasons": .array(obstacles.map { "\($0)" })])
        }
    }
}
