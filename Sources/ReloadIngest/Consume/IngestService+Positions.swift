import KafkaClient
import Logging
import PostgresClient
import Synchronization
import WidgetStore

/// Error of a process on a Kafka cluster that was replaced while it ran.
private struct OtherCluster: Error, CustomStringConvertible {
    let description = "the positions in the database are of another Kafka cluster, which was accepted"
}

/// Positions of the process's partitions.
extension IngestService {
    /// Takes a new epoch for the partitions and returns where to start. Waits while the database is away.
    func take(
        _ partitions: [TopicPartition], _ positions: inout PartitionPositions
    ) async throws -> [TopicPartition: KafkaOffset] {
        let ordered = partitions.sorted()
        var attempt = 0
        while true {
            do {
                let rows = try await pool.query(
                    TakePartitions(ordered.map { ($0.topic, $0.partition) }, cluster: cluster.withLock { $0 }))
                guard rows.count == ordered.count else { throw OtherCluster() }
                positions.take(rows)
                return Dictionary(
                    rows.map { row in
                        (
                            TopicPartition(topic: row.topic, partition: row.partition),
                            row.nextOffset.map(KafkaOffset.at) ?? .earliest
                        )
                    }, uniquingKeysWith: { $1 })
            } catch {
                attempt += 1
                logger.warning("cannot take partitions; trying again", metadata: ["error": "\(error)"])
                guard await pause(attempt: attempt) else { throw CancellationError() }
            }
        }
    }

    /// Takes back partitions that another process had taken, unless they have been revoked.
    func retake(
        _ partitions: [TopicPartition], _ positions: inout PartitionPositions, _ consumer: KafkaConsumer
    ) async throws {
        positions.drop(partitions)
        statistics.update { $0.fencedPartitions += partitions.count }
        logger.warning(
            "another process has moved positions of this one's partitions; taking them again",
            metadata: ["partitions": "\(partitions.summary)"])
        guard await pause(attempt: 3) else { throw CancellationError() }
        let starts = try await take(partitions, &positions)
        // One by one, since each may have been revoked.
        for (partition, start) in starts.sorted(by: { $0.key < $1.key }) {
            do {
                try await consumer.seek([partition: start])
            } catch {
                // It is being revoked. Batches that were fetched for the old position must not be applied to the new one,
                // over a gap.
                positions.drop([partition])
                logger.info("a partition is gone", metadata: ["error": "\(error)"])
            }
        }
    }

    /// Resolves a failed compare-and-set: either the batch was committed without an answer, or another process has taken the
    /// partitions.
    func resolveFence(
        _ advances: [AdvancePositions.Advance], _ positions: inout PartitionPositions, _ consumer: KafkaConsumer
    ) async throws {
        let stored: [ListPositions.Row]
        do {
            stored = try await pool.query(ListPositions())
        } catch {
            try await waitForDatabase("\(error)", attempt: 1, events: 0)
            return
        }
        if positions.areApplied(advances, stored: stored) {
            statistics.update { $0.blockedBy = nil }
            positions.applied(advances)
            commitToKafka(advances, consumer)
            for work in WorkSignal.Work.allCases { onWork(work) }
            return
        }
        try await retake(positions.fenced(advances, stored: stored), &positions, consumer)
    }

    /// Commits offsets to Kafka, for lag tools only.
    func commitToKafka(_ advances: [AdvancePositions.Advance], _ consumer: KafkaConsumer) {
        consumer.commit(
            Dictionary(
                advances.map { (TopicPartition(topic: $0.topic, partition: $0.partition), $0.next) },
                uniquingKeysWith: { $1 }))
    }
}
