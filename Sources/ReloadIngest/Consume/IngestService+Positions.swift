import KafkaClient
import Logging
import PostgresClient
import Synchronization
import WidgetStore

/// Positions of the process's partitions.
extension IngestService {
    /// Registers the process at intervals, after a failure within a second, and interrupts the consumer when its share
    /// has changed. Returns when cancelled.
    func watchMembership(_ consumer: KafkaConsumer) async {
        var failingSince: ContinuousClock.Instant?
        while !Task.isCancelled {
            do {
                let hasChanged = try await membership.look(
                    through: consumer, halted: Set(flow.halts.map(\.topic)))
                if hasChanged { consumer.interrupt() }
                failingSince = nil
                status.set(nil, for: "membership")
            } catch {
                if failingSince == nil, !Task.isCancelled {
                    logger.warning("cannot register this process; trying again", metadata: ["error": "\(error)"])
                }
                let since = failingSince ?? .now
                failingSince = since
                if since.duration(to: .now) > configuration.memberTimeout {
                    status.set(
                        "this process cannot register, so others read its partitions: \(error)", for: "membership")
                }
            }
            let pause = configuration.memberInterval
            try? await Task.sleep(for: failingSince == nil ? pause : min(pause, .seconds(1)))
        }
        status.set(nil, for: "membership")
    }

    /// Gives up the partitions that no longer belong to the process, and takes those that now do.
    func adoptShare(_ positions: inout PartitionPositions, _ consumer: KafkaConsumer) async throws {
        guard let share = membership.share else { return }
        let change = IngestMembership.Change(
            from: positions.epochs, to: share, halted: Set(flow.halts.map(\.topic)))
        await giveUp(change.released, &positions, consumer)
        if !change.taken.isEmpty {
            let starts = try await take(Array(change.taken), &positions)
            await consumer.assign(starts)
            status.clearObstacles(of: starts.keys)
        }
        let count = positions.epochs.count
        statistics.update { $0.assignedPartitions = count }
        onAssigned()
    }

    /// Stops reading partitions. Their waiting messages are not applied.
    private func giveUp(
        _ partitions: Set<TopicPartition>, _ positions: inout PartitionPositions, _ consumer: KafkaConsumer
    ) async {
        positions.drop(partitions)
        await consumer.unassign(Array(partitions))
        status.clearStandstill(of: partitions)
    }

    /// Stops reading the partitions of halted topics. They are taken again after the topics are resumed.
    func leaveHalted(_ positions: inout PartitionPositions, _ consumer: KafkaConsumer) async {
        let halted = Set(flow.halts.map(\.topic))
        guard !halted.isEmpty else { return }
        await giveUp(Set(positions.positions.keys.filter { halted.contains($0.topic) }), &positions, consumer)
    }

    /// Takes a new epoch for the partitions and returns their starting offsets. Partitions that are locked by another
    /// process's transaction are left until the next `look`. Waits while the database is unavailable.
    private func take(
        _ partitions: [TopicPartition], _ positions: inout PartitionPositions
    ) async throws -> [TopicPartition: KafkaOffset] {
        let ordered = partitions.sorted()
        let cluster = cluster.withLock { $0 }
        var attempt = 0
        while true {
            do {
                let rows = try await pool.query(
                    .takePartitions(ordered.map { ($0.topic, $0.partition) }, cluster: cluster))
                if rows.isEmpty, let cluster, try await pool.query(.readCluster()).contains(where: { $0 != cluster }) {
                    let reason = "the positions in the database are of another Kafka cluster, which was accepted"
                    status.set("\(reason): restart this process on that cluster", for: "cluster")
                    logger.critical("\(reason); this process reads nothing more")
                    await membership.retire()
                }
                positions.take(rows)
                return Dictionary(rows.map { ($0.place, positions.start(of: $0.place) ?? .earliest) }) { $1 }
            } catch {
                attempt += 1
                logger.warning("cannot take partitions; trying again", metadata: ["error": "\(error)"])
                guard await pause(attempt: attempt) else { throw CancellationError() }
            }
        }
    }

    /// Gives up partitions that another process has taken. Those that belong to this process are taken again at the
    /// next `look`.
    func leaveFenced(
        _ partitions: [TopicPartition], _ positions: inout PartitionPositions, _ consumer: KafkaConsumer
    ) async {
        statistics.update { $0.fencedPartitions += partitions.count }
        logger.warning(
            "another process has moved positions of this one's partitions",
            metadata: ["partitions": "\(partitions.summary)"])
        await giveUp(Set(partitions), &positions, consumer)
        membership.hold(positions.epochs)
    }

    /// Resolves a failed compare-and-set: either the batch was committed without an acknowledgement, or another process
    /// has taken the partitions.
    func resolveFence(
        _ advances: [PositionAdvance], _ positions: inout PartitionPositions, _ consumer: KafkaConsumer
    ) async throws {
        let stored: [StoredPosition]
        do {
            stored = try await pool.query(.listPositions())
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
        await leaveFenced(positions.fenced(advances, stored: stored), &positions, consumer)
    }

    /// Moves the positions of partitions that were read to the end of their logs behind markers of transactions and messages
    /// that were not delivered. Otherwise an idle topic would keep a lag, and retention of a marker would look like a loss.
    func advance(
        to ends: [TopicPartition: Int64], _ positions: inout PartitionPositions, _ consumer: KafkaConsumer
    ) async throws {
        let ends = ends.filter { end in positions.positions[end.key].map { ($0.next ?? 0) < end.value } ?? false }
        status.clearObstacles(of: ends.keys)
        _ = try await moveStored(ends, &positions, consumer)
    }

    /// Moves the stored positions of the partitions that belong to this process, by compare-and-set. Leaves those that another
    /// process has moved.
    ///
    /// - Returns: false if none of the partitions belongs to this process any more.
    func moveStored(
        _ targets: [TopicPartition: Int64], _ positions: inout PartitionPositions, _ consumer: KafkaConsumer
    ) async throws -> Bool {
        var attempt = 0
        while true {
            let advances = positions.advances(to: targets)
            guard !advances.isEmpty else { return false }
            do {
                try await pool.withTransaction { connection in
                    var pipeline = PostgresPipeline()
                    _ = pipeline.append(.advancePositions(advances))
                    _ = try await connection.run(pipeline)
                }
                positions.applied(advances)
                commitToKafka(advances, consumer)
                return true
            } catch {
                switch ApplyFailure(error) {
                case .stopped:
                    throw CancellationError()
                case .fenced:
                    // The compare-and-set also fails if this very step was committed without an acknowledgement.
                    if let stored = try? await pool.query(.listPositions()) {
                        if positions.areApplied(advances, stored: stored) {
                            positions.applied(advances)
                            return true
                        }
                        // The failed statement moved no position. The next attempt moves those of the remaining partitions.
                        await leaveFenced(positions.fenced(advances, stored: stored), &positions, consumer)
                        continue
                    }
                case .directoryIsBehind, .poison, .tooMuch, .wait, .diversionsChanged, .halted:
                    logger.warning("cannot move positions; trying again", metadata: ["error": "\(error)"])
                }
                attempt += 1
                guard await pause(attempt: attempt) else { throw CancellationError() }
            }
        }
    }

    /// Commits offsets to Kafka, for lag tools only.
    func commitToKafka(_ advances: [PositionAdvance], _ consumer: KafkaConsumer) {
        consumer.commit(Dictionary(advances.map { ($0.place, $0.next) }) { $1 })
    }
}
