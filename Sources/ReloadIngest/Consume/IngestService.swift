// SPDX-License-Identifier: Apache-2.0

package import KafkaClient
package import Logging
package import PostgresClient
import ServiceLifecycle
import Synchronization
import Waiting
package import WidgetEvents
package import WidgetModel
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
    let decoder: RecordDecoder
    let logger: Logger
    package let metrics: MetricRegistry
    /// Obstacles of this process's ingest.
    package let status = IngestStatus()
    /// Heartbeat while events are handled.
    package let heartbeat = Heartbeat()
    /// Called after every transaction that appended ready lists.
    let onLists: @Sendable () -> Void
    /// Called after every transaction that recorded sweeps.
    let onSweeps: @Sendable () -> Void
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
    let restrictions: IngestRestrictions
    let tally: EventTally
    let pending: PendingMessages

    package init(
        configuration: IngestConfiguration, pool: PostgresPool, directory: DirectoryCache, logger: Logger,
        onLists: @escaping @Sendable () -> Void,
        onSweeps: @escaping @Sendable () -> Void,
        onDeadLetters: @escaping @Sendable () -> Void,
        onAssigned: @escaping @Sendable () -> Void = {},
        onDecisions: (@Sendable ([TimelineDecidedEvent]) -> Void)? = nil, workers: (any HandOverReceiving)? = nil,
        defaults: PlacementDefaults? = nil, metrics: MetricRegistry = MetricRegistry(),
        makeConsumer: @escaping @Sendable () throws -> KafkaConsumer
    ) {
        self.configuration = configuration
        self.pool = pool
        self.directory = directory
        self.logger = logger
        self.onLists = onLists
        self.onSweeps = onSweeps
        self.onDeadLetters = onDeadLetters
        self.onAssigned = onAssigned
        self.onDecisions = onDecisions
        self.workers = workers
        self.defaults = defaults
        self.metrics = metrics
        self.makeConsumer = makeConsumer
        applier = BatchApplier(
            pool: pool, audienceLimit: configuration.audienceLimit, recordsDecisions: onDecisions != nil,
            limits: configuration.deadLetters, defaultsPatience: defaults?.patience,
            tokenKeys: configuration.tokenKeys, registrations: configuration.registrations)
        membership = IngestMembership(pool: pool, configuration: configuration, status: status)
        restrictions = IngestRestrictions(
            pool: pool, limits: configuration.deadLetters, allowedApps: configuration.topics.allowedApps,
            interval: configuration.flowInterval, logger: logger)
        tally = EventTally(
            window: configuration.deadLetters.window, allowedApps: configuration.topics.allowedApps)
        pending = PendingMessages(topics: configuration.topics.all)
        decoder = RecordDecoder(configuration.topics, maximumEventBytes: configuration.maximumEventBytes)
        metrics.begin("freshet_ingest_")
        let types = (EventType.allCases.map(Optional.some) + [nil]).map(\.metricLabel)
        metrics.ingestEvents.begin(types, ["applied", "dead_letter", "diverted", "dropped"])
        metrics.ingestIgnored.begin(types, WidgetIgnoredReason.allCases.map(\.rawValue))
        metrics.ingestPartitions.set(0)
        metrics.ingestDeadLetters.begin(DeadLetterCause.allCases.filter { $0 != .diverted }.map(\.rawValue))
    }

    /// Restricts taking positions to those of this Kafka cluster.
    package func require(cluster id: String?) {
        cluster.withLock { $0 = id }
    }

    /// Lag of each assigned partition in messages; nil while there is no consumer.
    package func lag() async -> [TopicPartition: Int64]? {
        await current.withLock { $0 }?.lag()
    }

    /// Topics that are not applied until an operator resumes them.
    package var halts: [IngestHalt] { restrictions.halts }

    /// Largest fraction of a dead-letter quota that an app or a topic uses.
    package var quotaUse: Double { restrictions.quotaUse }

    /// Names of the apps whose events wait in the database.
    package var divertedApps: [String] { restrictions.divertedNames }

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
                    metrics.ingestPartitions.set(0)
                }
                try await consume(consumer)
                return
            } catch is CancellationError {
                return
            } catch {
                if begun.duration(to: .now) >= configuration.restartCap * 2 { failures = 0 }
                failures += 1
                metrics.ingestRestarts.increment()
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
            group.addTask { [restrictions] in try? await restrictions.watch() }
            group.addTask { await self.watchObstacles(consumer) }
            let session = IngestSession(of: self, consumer)
            defer { group.cancelAll() }
            for try await event in consumer.events {
                heartbeat.beat()
                try await session.handle(event)
                membership.hold(session.positions.epochs)
                heartbeat.rest()
            }
        }
    }

    // MARK: Watching

    /// Registers the process at intervals, after a failure within a second, and interrupts the consumer when its share
    /// has changed. Returns when cancelled.
    private func watchMembership(_ consumer: KafkaConsumer) async {
        var failingSince: ContinuousClock.Instant?
        while !Task.isCancelled {
            do {
                let hasChanged = try await membership.look(
                    through: consumer, halted: Set(restrictions.halts.map(\.topic)))
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

    /// Reasons why the process does not read all its partitions, for readiness.
    package var obstacles: [String] {
        let reasons = status.reasons
        guard reasons.isEmpty, !membership.hasShare else { return reasons }
        return ["no partitions are read: this process has not registered in the database, or no broker answers, yet"]
    }

    /// Time since the consumer's thread last made progress; nil without a consumer.
    package var consumerSilence: Duration? { current.withLock { $0 }?.silence }

    /// Logs obstacles at intervals, and checks whether topics can be read again.
    private func watchObstacles(_ consumer: KafkaConsumer) async {
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

    // MARK: Waiting

    /// Logs that the database did not accept a batch, and backs off.
    ///
    /// - Throws: `CancellationError` if the service is to stop.
    func waitForDatabase(_ message: String, attempt: Int, events: Int) async throws {
        metrics.ingestRetries.increment()
        // A single conflict with another transaction is not an outage.
        if attempt > 1 || events == 1 { status.blockedBy = message }
        logger.warning(
            "the database did not take a batch; trying again",
            metadata: ["error": "\(message)", "attempt": "\(attempt)", "events": "\(events)"])
        guard await pause(attempt: attempt) else { throw CancellationError() }
    }

    /// Whether this number of waiting messages counts as a backlog.
    func isBehind(_ messages: Int64) -> Bool { messages >= configuration.backlog }

    /// Waits with exponential back-off and full jitter; returns false if the service is to stop.
    func pause(attempt: Int, cap: Duration? = nil) async -> Bool {
        heartbeat.beat()
        defer { heartbeat.beat() }
        let backoff = Backoff(base: configuration.retryBase, cap: cap ?? configuration.retryCap)
        do {
            try await cancelWhenGracefulShutdown { try await Task.sleep(for: backoff.delay(attempt: attempt)) }
            return !Task.isShuttingDownGracefully
        } catch {
            return false
        }
    }
}
