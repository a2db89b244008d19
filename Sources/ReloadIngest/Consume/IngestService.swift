package import KafkaClient
package import Logging
package import PostgresClient
import ServiceLifecycle
import Synchronization
package import WidgetEvents
import WidgetModel
package import WidgetStore

/// Consumes the input topics and applies each event exactly once (DESIGN.md, “Ingest”).
///
/// Positions are stored in PostgreSQL, in the same transaction as the effects of the events.
package final class IngestService: Service {
    let configuration: IngestConfiguration
    private let makeConsumer: @Sendable () throws -> KafkaConsumer
    let applier: BatchApplier
    let pool: PostgresPool
    let directory: DirectoryCache
    private let decoder: RecordDecoder
    let logger: Logger
    package let statistics = IngestStatistics()
    /// Obstacles of this process's ingest.
    package let status = IngestStatus()
    /// Heartbeat while events are handled.
    package let heartbeat = Heartbeat()
    /// Called after every transaction that appended ready lists or recorded sweeps.
    let onWork: @Sendable (WorkSignal.Work) -> Void
    let onDeadLetters: @Sendable () -> Void
    /// Called when the process has taken its share of the partitions.
    let onAssigned: @Sendable () -> Void
    /// The workers of this process.
    let workers: (any HandOverReceiving)?
    /// Requests the dynamic defaults of new widgets. If nil, the definitions' defaults apply.
    let defaults: PlacementDefaults?
    /// Receives the decisions on the requests of each transaction.
    let onDecisions: (@Sendable ([TimelineDecidedEvent]) -> Void)?
    let current = Mutex<KafkaConsumer?>(nil)
    let membership: IngestMembership
    /// Id of the Kafka cluster; nil if it is not known.
    let cluster = Mutex<String?>(nil)
    let flow: IngestFlow
    let tally: EventTally
    let meter: IngestMeter

    package init(
        configuration: IngestConfiguration, pool: PostgresPool, directory: DirectoryCache, logger: Logger,
        onWork: @escaping @Sendable (WorkSignal.Work) -> Void,
        onDeadLetters: @escaping @Sendable () -> Void,
        onAssigned: @escaping @Sendable () -> Void = {},
        onDecisions: (@Sendable ([TimelineDecidedEvent]) -> Void)? = nil, workers: (any HandOverReceiving)? = nil,
        defaults: PlacementDefaults? = nil,
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
        self.defaults = defaults
        self.makeConsumer = makeConsumer
        applier = BatchApplier(
            pool: pool, audienceLimit: configuration.audienceLimit, recordsDecisions: onDecisions != nil,
            limits: configuration.deadLetters, defaultsPatience: defaults?.patience,
            tokenKeys: configuration.tokenKeys, registrations: configuration.registrations)
        membership = IngestMembership(pool: pool, configuration: configuration, status: status)
        flow = IngestFlow(
            pool: pool, limits: configuration.deadLetters, allowedApps: configuration.topics.allowedApps,
            interval: configuration.flowInterval, logger: logger)
        tally = EventTally(
            window: configuration.deadLetters.window, allowedApps: configuration.topics.allowedApps)
        meter = IngestMeter(topics: configuration.topics.all)
        decoder = RecordDecoder(configuration.topics, maximumEventBytes: configuration.maximumEventBytes)
    }

    /// Restricts taking positions to those of this Kafka cluster.
    package func require(cluster id: String?) {
        cluster.withLock { $0 = id }
    }

    /// Lag of each assigned partition in messages; nil while there is no consumer.
    package func lag() async -> [TopicPartition: Int64]? {
        await current.withLock { $0 }?.lag()
    }

    /// Makes readers that decode messages on a consumer's poll thread (``KafkaConsumerConfiguration/makeReader``).
    /// Without them, messages are decoded when they are applied.
    package static func makeReader(
        _ configuration: IngestConfiguration
    ) -> @Sendable () -> any KafkaMessageReader {
        let decoder = RecordDecoder(configuration.topics, maximumEventBytes: configuration.maximumEventBytes)
        return { RecordReader(decoder) }
    }

    /// Topics that are not applied until an operator resumes them.
    package var halts: [IngestHalt] { flow.halts }

    /// Largest fraction of a dead-letter quota that an app or a topic uses.
    package var quotaUse: Double { flow.quotaUse }

    /// Names of the apps whose events wait in the database.
    package var divertedApps: [String] { flow.divertedNames }

    /// Runs until graceful shutdown or cancellation. A failed consumer is replaced.
    package func run() async throws {
        await consumeUntilStopped()
        await membership.leave()
    }

    private func consumeUntilStopped() async {
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
                try await consume(consumer)
                return
            } catch is CancellationError {
                return
            } catch {
                if begun.duration(to: .now) >= configuration.restartCap * 2 { failures = 0 }
                failures += 1
                statistics.update { $0.restarts += 1 }
                status.recordConsumerFailure(error)
                membership.doubtBrokers()
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

    /// Handles a consumer's events until it ends.
    private func consume(_ consumer: KafkaConsumer) async throws {
        membership.hold([:])
        try await withThrowingTaskGroup { group in
            group.addTask {
                // The current batch is completed first.
                try? await gracefulShutdown()
                await consumer.shutdown()
            }
            group.addTask { await self.watchMembership(consumer) }
            group.addTask { [flow] in try? await flow.watch() }
            group.addTask { await self.watchObstacles(consumer) }
            var positions = PartitionPositions()
            defer { group.cancelAll() }
            for try await event in consumer.events {
                heartbeat.beat()
                try await handle(event, &positions, consumer)
                membership.hold(positions.epochs)
                heartbeat.rest()
            }
        }
    }

    private func handle(
        _ event: KafkaConsumerEvent, _ positions: inout PartitionPositions, _ consumer: KafkaConsumer
    ) async throws {
        switch event {
        case .batch(let batch):
            let begun = ContinuousClock.now
            try await apply(batch, &positions, consumer)
            // Lets messages gather, so that the next transaction applies more events.
            let pause = pause(after: batch, begunAt: begun)
            if pause > .zero { try await Task.sleep(for: pause) }
        case .advanced(let ends):
            try await advance(to: ends, &positions, consumer)
        case .interrupted:
            try await adoptShare(&positions, consumer)
        case .offsetOutOfRange(let partition, let offset):
            try await settle(LogGap(partition: partition, offset: offset, bounds: nil), &positions, consumer)
        case .otherLog(let partition, let offset):
            let gap = LogGap(partition: partition, offset: offset, bounds: nil, isOtherLog: true)
            try await settle(gap, &positions, consumer)
        case .unreadable(let partition, let offset, let reason):
            standStill(UnreadableBatch(partition: partition, offset: offset, reason: reason))
        case .error(let error):
            status.record(error)
            if error.isConnectionLoss { membership.doubtBrokers() }
            if error.code == .unknownTopicOrPartition, membership.doubtBrokers() {
                // A topic was deleted, and may exist again with another log. The error may not name it, so all are compared.
                await consumer.assign(positions.starts)
            }
            logger.warning("Kafka consumer", metadata: ["error": "\(error)"])
        }
    }

    private func apply(
        _ batch: KafkaBatch, _ positions: inout PartitionPositions, _ consumer: KafkaConsumer
    ) async throws {
        meter.received(batch)
        defer { meter.settled() }
        var prepared = PreparedBatch(batch, decoder: decoder)
        try await apply(prepared.items, of: &prepared, under: positions.epochs, &positions, consumer)
    }

    private func pause(after batch: KafkaBatch, begunAt begun: ContinuousClock.Instant) -> Duration {
        if isBehind(batch.waiting) {
            return batch.count < configuration.maximumMarks ? configuration.gatherTime : .zero
        }
        let spacing = workers?.areBusy ?? false ? configuration.busySpacing : configuration.spacing
        return spacing - begun.duration(to: .now)
    }
}
