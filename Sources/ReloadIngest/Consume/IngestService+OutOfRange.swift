import KafkaClient
import Logging
import PostgresClient
import Synchronization
import WidgetStore

extension IngestService {
    /// Handles a partition whose next offset is not in the log, according to the configured policy.
    ///
    /// - Throws: `CancellationError`.
    func settle(
        _ partition: TopicPartition, at offset: Int64, _ positions: inout PartitionPositions, _ consumer: KafkaConsumer
    ) async throws {
        var bounds: KafkaLogBounds?
        do throws(KafkaError) {
            bounds = try await consumer.admin(timeout: .seconds(5)).bounds(of: partition)
        } catch {
            logger.warning("cannot ask for the bounds of a log", metadata: ["error": "\(error)"])
        }
        let gap = LogGap(partition: partition, offset: offset, bounds: bounds)
        switch (gap.cause, configuration.offsetOutOfRange) {
        case (.none, _), (.unknown, _):
            // Tries again, since the offset is in the log, or may be.
            guard await pause(attempt: 3) else { throw CancellationError() }
            await move(partition, to: offset, consumer)
        case (_, .stop):
            statistics.update { $0.outOfRange += 1 }
            status.standsStill(
                partition,
                "partition \(partition) is stopped: \(gap.explanation); to go on: \(gap.command)")
            logger.critical(
                "the log does not have the next offset of a partition; it is stopped until its position is set",
                metadata: [
                    "topic": "\(partition.topic)", "partition": "\(partition.partition)", "offset": "\(offset)",
                    "cause": "\(gap.explanation)", "command": "\(gap.command)",
                ])
        case (_, .earliest):
            guard let bounds, try await moveStored([partition: bounds.earliest], &positions, consumer) else { return }
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
                    "to": "\(bounds.earliest)", "lost": gap.cause == .beyondEnd ? "unknown" : "\(lost)",
                    "cause": "\(gap.explanation)",
                ])
            await move(partition, to: bounds.earliest, consumer)
        }
    }

    private func move(_ partition: TopicPartition, to offset: Int64, _ consumer: KafkaConsumer) async {
        await consumer.assign([partition: .at(offset)])
        status.released([partition])
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
                status.topicIsReadable(partition.topic)
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
