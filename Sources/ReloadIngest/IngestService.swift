package import KafkaClient
package import Logging
package import PostgresClient
import ServiceLifecycle
import Synchronization
import WidgetEvents
import WidgetModel
package import WidgetStore

/// Consumes the input topics and applies them, each event exactly once (design, section 4).
///
/// It keeps no state worth keeping: positions, and all that the events did, are in PostgreSQL in one transaction.
package final class IngestService: Service {
    let configuration: IngestConfiguration
    private let makeConsumer: @Sendable () throws -> KafkaConsumer
    private let applier: BatchApplier
    let pool: PostgresPool
    private let directory: DirectoryCache
    private let decoder: EventDecoder
    let logger: Logger
    package let statistics = IngestStatistics()
    /// What holds this process's ingest up.
    package let status = IngestStatus()
    /// Beats while events are handled.
    package let heartbeat = Heartbeat()
    /// Told after every transaction that appended lists for anyone to claim, or recorded sweeps.
    let onWork: @Sendable (WorkSignal.Work) -> Void
    private let onDeadLetters: @Sendable () -> Void
    /// Called whenever partitions have been assigned and are about to be read.
    private let onAssigned: @Sendable () -> Void
    /// The workers of this process.
    private let workers: (any HandOverReceiving)?
    /// Told what was decided about the requests of each transaction.
    private let onDecisions: (@Sendable ([DecisionRecord]) -> Void)?
    let current = Mutex<KafkaConsumer?>(nil)
    private let flow: IngestFlow
    private let tally: EventTally
    let meter: IngestMeter

    package init(
        configuration: IngestConfiguration, pool: PostgresPool, directory: DirectoryCache, logger: Logger,
        onWork: @escaping @Sendable (WorkSignal.Work) -> Void,
        onDeadLetters: @escaping @Sendable () -> Void,
        onAssigned: @escaping @Sendable () -> Void = {},
        onDecisions: (@Sendable ([DecisionRecord]) -> Void)? = nil, workers: (any HandOverReceiving)? = nil,
        makeConsumer: @escaping @Sendable () throws -> KafkaConsumer
    ) {
        self.configuration = configuration
        self.pool = pool
        self.directory = directory
        self.logger = logger
        self.onWork = onWork
        self.onDeadLetters = onDeadLetters
        self.onAssigned = onAssigned
        self.onDecisions = onDecisions
        self.workers = workers
        self.makeConsumer = makeConsumer
        applier = BatchApplier(
            pool: pool, audienceLimit: configuration.audienceLimit, recordsDecisions: onDecisions != nil,
            limits: configuration.deadLetters)
        flow = IngestFlow(
            pool: pool, limits: configuration.deadLetters, interval: configuration.flowInterval, logger: logger)
        tally = EventTally(window: configuration.deadLetters.window)
        meter = IngestMeter(topics: configuration.topics.all)
        decoder = EventDecoder(maximumEventBytes: configuration.maximumEventBytes)
    }

    /// How many messages each assigned partition is behind; `nil` while there is no consumer.
    package func lag() async -> [TopicPartition: Int64]? {
        await current.withLock { $0 }?.lag()
    }

    /// Makes what decodes messages on a consumer's poll thread (``KafkaConsumerConfiguration/makeReader``). Without it they
    /// are decoded when they are applied.
    package static func makeReader(
        _ configuration: IngestConfiguration
    ) -> @Sendable () -> any KafkaMessageReader {
        let decoder = EventDecoder(maximumEventBytes: configuration.maximumEventBytes)
        return { RecordReader(topics: configuration.topics, decoder: decoder) }
    }

    /// Why nothing is applied until an operator says so; nil while events flow.
    package var halt: IngestHalt? { flow.halt }

    /// Names of the apps whose events wait in the database.
    package var divertedApps: [String] { flow.divertedNames }

    /// Runs until graceful shutdown or cancellation. A consumer that fails for good is replaced, not the process.
    package func run() async throws {
        var failures = 0
        while !Task.isCancelled && !Task.isShuttingDownGracefully {
            let begun = ContinuousClock.now
            do {
                let consumer = try makeConsumer()
                current.withLock { $0 = consumer }
                defer {
                    current.withLock { $0 = nil }
                    heartbeat.rest()
                    statistics.update { $0.assignedPartitions = 0 }
                }
                guard try await consume(consumer) else { return }
                logger.notice("a position was set from outside; starting a consumer from there")
            } catch is CancellationError {
                return
            } catch {
                // One that has worked for a while does not count with those before it.
                if begun.duration(to: .now) >= configuration.restartCap * 2 { failures = 0 }
                failures += 1
                statistics.update { $0.restarts += 1 }
                status.consumerFailed(error, group: configuration.group)
                logger.error(
                    "the Kafka consumer failed; starting a new one",
                    metadata: [
                        "error": "\(error)", "failures": "\(failures)",
                        "meaning": "\(status.reasons.joined(separator: "; "))",
                    ])
                guard await pause(attempt: failures, cap: configuration.restartCap) else { return }
            }
        }
    }

    /// Iterates one consumer's events until it ends; leaves its group whatever happens.
    ///
    /// - Returns: whether a position was moved from outside, so that a new consumer has to start where it says.
    private func consume(_ consumer: KafkaConsumer) async throws -> Bool {
        let watch = PositionWatch(pool: pool, interval: configuration.positionInterval)
        return try await withThrowingTaskGroup(of: Bool.self) { group in
            group.addTask {
                // Ends the events behind what was handed out already, so the batch at hand is finished first.
                try? await gracefulShutdown()
                await consumer.shutdown()
                return false
            }
            group.addTask {
                // A partition that stands still, or has nothing to read, would never notice by itself.
                guard (try? await watch.waitUntilMoved()) == true else { return false }
                await consumer.shutdown()
                return true
            }
            group.addTask { [flow] in
                // Says so also while there is nothing to apply.
                try? await flow.watch()
                return false
            }
            group.addTask {
                await self.watchObstacles(consumer)
                return false
            }
            var positions = PartitionPositions()
            do {
                for try await event in consumer.events {
                    heartbeat.beat()
                    try await handle(event, &positions, consumer)
                    watch.hold(positions.epochs)
                    heartbeat.rest()
                }
            } catch {
                group.cancelAll()
                throw error
            }
            group.cancelAll()
            var isMoved = false
            while let result = try await group.next() { isMoved = isMoved || result }
            return isMoved
        }
    }

    private func handle(
        _ event: KafkaConsumerEvent, _ positions: inout PartitionPositions, _ consumer: KafkaConsumer
    ) async throws {
        switch event {
        case .assigned(let assignment):
            do {
                let starts = try await take(assignment.partitions, &positions)
                logger.info("partitions assigned", metadata: ["partitions": "\(assignment.partitions.count)"])
                assignment.start(at: starts)
                statistics.update { $0.assignedPartitions += assignment.partitions.count }
                status.assigned(assignment.partitions)
                onAssigned()
            } catch {
                assignment.fail()
                throw error
            }
        case .batch(let batch):
            meter.received(batch)
            defer { meter.settled() }
            var prepared = PreparedBatch(batch, topics: configuration.topics, decoder: decoder)
            try await apply(prepared.items, of: &prepared, under: positions.epochs, &positions, consumer)
        case .revoked(let revocation):
            positions.drop(revocation.partitions)
            statistics.update { $0.assignedPartitions -= revocation.partitions.count }
            status.revoked(revocation.partitions)
            logger.info(
                "partitions revoked",
                metadata: ["partitions": "\(revocation.partitions.count)", "lost": "\(revocation.lost)"])
            revocation.acknowledge()
        case .offsetOutOfRange(let partition, let offset):
            try await settle(partition, at: offset, &positions, consumer)
        case .error(let error):
            status.failed(error, group: configuration.group)
            logger.warning("Kafka consumer", metadata: ["error": "\(error)"])
        }
    }

    // MARK: Batches

    /// Applies items in order, in one transaction if it can be.
    func apply(
        _ items: [Int32], of batch: inout PreparedBatch, under epochs: [TopicPartition: Int64],
        _ positions: inout PartitionPositions, _ consumer: KafkaConsumer
    ) async throws {
        var items = items
        var attempt = 0
        var folder = BatchFolder(configuration: configuration, directory: directory, flow: flow)
        // What comes after the transaction at hand, folded while the database is busy with that.
        var ahead: BatchFolder.Folded?
        while true {
            items = batch.due(items, from: batch.places.map { positions.firstDue(of: $0, receivedUnder: epochs[$0]) })
            guard !items.isEmpty else { return }
            var advances: [AdvancePositions.Advance] = []
            // How many of them the attempt is for.
            var count = items.count
            do {
                let prepared = ahead
                ahead = nil
                let folded = try await folder.next(items, of: batch, ahead: prepared)
                let fold = folded.fold
                count = folded.count
                advances = positions.advances(to: batch.next(after: items[..<count]))
                let begun = ContinuousClock.now
                let outcome: BatchApplier.Outcome
                if count < items.count {
                    let (rest, folding, current) = (Array(items[count...]), folder, batch)
                    async let next = folding.ahead(rest, of: current)
                    outcome = try await transact(fold, advancing: advances, batch)
                    ahead = await next
                } else {
                    outcome = try await transact(fold, advancing: advances, batch)
                }
                committed(fold, outcome, advances, &positions, consumer, batch)
                meter.committed(
                    items[..<count], of: batch, rejected: outcome.rejected, diverted: fold.diverted,
                    took: begun.duration(to: .now))
                onDecisions?(decisions(fold, outcome, batch))
                if count == items.count { return }
                attempt = 0
            } catch {
                switch ApplyFailure(error) {
                case .stopped:
                    throw CancellationError()
                case .fenced:
                    folder.forget()
                    try await resolveFence(advances, &positions, consumer)
                case .diversionsChanged:
                    folder.forget()
                    do {
                        try await flow.refresh()
                    } catch {
                        attempt += 1
                        guard await pause(attempt: attempt) else { throw CancellationError() }
                    }
                case .halted:
                    folder.forget()
                    try await waitWhileHalted(Array(epochs.keys), consumer)
                case .directoryIsBehind:
                    folder.forget()
                    _ = try? await self.directory.refresh()
                    attempt += 1
                    guard await pause(attempt: attempt) else { throw CancellationError() }
                case .poison(let message):
                    if count == 1 {
                        if case .rejected = batch.content(Int(items[0])) {
                            // Not even as a dead letter: nothing may be dropped, so it waits for somebody to look.
                            attempt += 1
                            logger.critical(
                                "the database refuses a dead letter", metadata: ["error": "\(message)"])
                            guard await pause(attempt: attempt) else { throw CancellationError() }
                            continue
                        }
                        batch.reject(Int(items[0]), code: "databaseRefused", message: message)
                        logger.error("an event was refused by the database", metadata: ["error": "\(message)"])
                        continue
                    }
                    try await applyHalves(Array(items[..<count]), of: &batch, under: epochs, &positions, consumer)
                    attempt = 0
                case .tooMuch(let message):
                    // The next attempt is half of this one, so this is not yet the time for a long wait.
                    attempt = count > 1 ? 1 : attempt + 1
                    folder.forget()
                    try await waitForDatabase(message, attempt: attempt, events: count)
                    guard count > 1 else { continue }
                    try await applyHalves(Array(items[..<count]), of: &batch, under: epochs, &positions, consumer)
                    attempt = 0
                case .wait(let message):
                    attempt += 1
                    folder.forget()
                    try await waitForDatabase(message, attempt: attempt, events: count)
                }
            }
        }
    }

    /// Most marks of a batch that is handed over: with more there is a backlog, which is applied first, since more of its
    /// events may be for the same timelines.
    private static let mostHandedOver = 256

    /// Applies a fold, and hands the timelines over to this process's workers if they have room.
    private func transact(
        _ fold: BatchFold, advancing advances: [AdvancePositions.Advance], _ batch: PreparedBatch
    ) async throws -> BatchApplier.Outcome {
        let kindIDs = fold.isPlain && fold.markCount <= Self.mostHandedOver ? fold.urgentKinds : []
        let grant = kindIDs.isEmpty ? nil : workers?.reserve(fold.markCount, of: kindIDs)
        do {
            let outcome = try await applier.apply(
                fold, advancing: advances, handOver: grant?.statement,
                failures: { [tally] in tally.counts($0, in: fold) }, deadLetter: { batch.deadLetter($0) })
            if let grant { workers?.accept(grant, outcome.claim) }
            return outcome
        } catch {
            // If the COMMIT went through all the same, the leases end by themselves.
            if let grant { workers?.accept(grant, nil) }
            throw error
        }
    }

    private func applyHalves(
        _ items: [Int32], of batch: inout PreparedBatch, under epochs: [TopicPartition: Int64],
        _ positions: inout PartitionPositions, _ consumer: KafkaConsumer
    ) async throws {
        let middle = items.count / 2
        try await apply(Array(items[..<middle]), of: &batch, under: epochs, &positions, consumer)
        try await apply(Array(items[middle...]), of: &batch, under: epochs, &positions, consumer)
    }

    /// Says that the database did not take a batch, and backs off.
    ///
    /// - Throws: `CancellationError` when the service is to stop.
    func waitForDatabase(_ message: String, attempt: Int, events: Int) async throws {
        statistics.update {
            $0.retries += 1
            // A conflict with another transaction, once, is no outage.
            if attempt > 1 || events == 1 { $0.blockedBy = message }
        }
        logger.warning(
            "the database did not take a batch; trying again",
            metadata: ["error": "\(message)", "attempt": "\(attempt)", "events": "\(events)"])
        guard await pause(attempt: attempt) else { throw CancellationError() }
    }

    /// Fetches nothing and waits for an operator; the batch at hand is applied then.
    ///
    /// - Parameter held: all partitions that were this process's when the batch came.
    private func waitWhileHalted(_ held: [TopicPartition], _ consumer: KafkaConsumer) async throws {
        consumer.pause(held)
        // Halted is not hanging: a restart would only halt again. Readiness tells of it.
        heartbeat.rest()
        defer {
            heartbeat.beat()
            consumer.resume(held)
        }
        try await cancelWhenGracefulShutdown { [flow] in try await flow.waitUntilResumed() }
        guard !Task.isShuttingDownGracefully else { throw CancellationError() }
    }

    private func committed(
        _ fold: BatchFold, _ outcome: BatchApplier.Outcome, _ advances: [AdvancePositions.Advance],
        _ positions: inout PartitionPositions, _ consumer: KafkaConsumer, _ batch: PreparedBatch
    ) {
        positions.applied(advances)
        status.applied(advances.lazy.map { TopicPartition(topic: $0.topic, partition: $0.partition) })
        commitToKafka(advances, consumer)
        let (bumps, markInputs) = (fold.bumps.count, fold.markCount)
        statistics.update {
            $0.blockedBy = nil
            $0.batches += 1
            $0.events += fold.accepted + fold.rejected.count - outcome.rejected.count
            $0.deadLetters += outcome.rejected.count
            $0.diverted += fold.diverted.count
            $0.marked += outcome.marked
            $0.handedOver += outcome.claim?.count ?? 0
            $0.markInputs += markInputs
            $0.bumps += bumps
            $0.sweeps += outcome.sweeps - bumps
            $0.widgets += outcome.widgets
            $0.timelines += outcome.timelines
        }
        if outcome.lists > 0 { onWork(.timelines) }
        if outcome.sweeps > 0 { onWork(.sweeps) }
        if let first = outcome.rejected.first {
            logger.warning(
                "events became dead letters",
                metadata: [
                    "count": "\(outcome.rejected.count)", "first": "\(first.code): \(first.message)",
                    "app": "\(first.app ?? "?")", "event": "\(batch.place(first.record))",
                ])
            onDeadLetters()
        }
        tally.committed(fold, counted: outcome.failures.lazy.map(\.appID))
    }

    private func decisions(
        _ fold: BatchFold, _ outcome: BatchApplier.Outcome, _ batch: PreparedBatch
    ) -> [DecisionRecord] {
        let refused = MarkDecisions.records(of: outcome.rejected) { event in
            let record = batch.batch.records[event.record]
            return configuration.topics.all.firstIndex(of: batch.batch.topic(event.record)).map { topic in
                EventPosition(topic: Int16(topic), partition: record.partition, offset: record.offset)
            }
        }
        return MarkDecisions.records(of: outcome.marks, directory: fold.directory) + refused
    }

    /// Waits with exponential back-off and full jitter; false when the service is to stop.
    func pause(attempt: Int, cap: Duration? = nil) async -> Bool {
        heartbeat.beat()
        defer { heartbeat.beat() }
        var generator = SystemRandomNumberGenerator()
        let delay = Backoff(base: configuration.retryBase, cap: cap ?? configuration.retryCap)
            .delay(attempt: attempt, using: &generator)
        do {
            try await cancelWhenGracefulShutdown {
                try await Task.sleep(for: delay)
            }
            return !Task.isShuttingDownGracefully
        } catch {
            return false
        }
    }
}
