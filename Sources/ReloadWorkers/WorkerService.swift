// SPDX-License-Identifier: Apache-2.0

package import Logging
package import PostgresClient
import ServiceLifecycle
import Synchronization
import Waiting
package import WidgetEvents
package import WidgetModel
package import WidgetStore

/// The workers role of a process: claims due timelines, fetches them from their providers, stores and publishes
/// changes, and sweeps reloads of everyone.
///
/// Any number of processes run it against one database, without state worth keeping: leases return the work of a dead
/// process.
package struct WorkerService: Service {
    private let context: WorkerContext
    private let directory: DirectoryCache
    private let pipeline: Pipeline
    private let heartbeat: Heartbeat
    private let handOver: LocalHandOver
    private let history: DatabaseHistory

    /// - Parameters:
    ///   - signals: signal work of ingest in the same process, and of others by notifications.
    ///   - deliveryTimeout: the producer's.
    ///   - condition: receives the errors of claims and the outcomes of messages.
    ///   - clock: clock of leases, intervals and time limits.
    ///   - onStored: called for every timeline with changed content, with the event that caused the reload; it must be
    ///     quick.
    ///   - onDecisions: called for every decision; it must be quick. Nil without a consumer.
    ///   - handOver: way by which ingest in this process hands over timelines.
    ///   - history: of the pool; nil makes one.
    ///   - heartbeat: beats at each turn of the claim loop, and rests after its end.
    ///   - send: sends messages of timelines.
    package init(
        configuration: WorkerConfiguration, pool: PostgresPool, directory: DirectoryCache,
        fetcher: any ProviderFetching, deliveryTimeout: Duration, signals: WorkSignals = WorkSignals(),
        metrics: MetricRegistry = MetricRegistry(), condition: WorkerCondition = WorkerCondition(),
        clock: any Clock<Duration> = ContinuousClock(),
        onStored: (@Sendable (TimelineID, EventPosition?) -> Void)? = nil,
        onDecisions: (@Sendable ([TimelineDecidedEvent]) -> Void)? = nil, handOver: LocalHandOver = LocalHandOver(),
        history: DatabaseHistory? = nil, heartbeat: Heartbeat = Heartbeat(), logger: Logger,
        send: @escaping SendMessages
    ) {
        let clock = WorkerClock(clock)
        context = WorkerContext(
            configuration: configuration, pool: pool, fetcher: fetcher,
            output: TimelineProducer(
                deliveryTimeout: deliveryTimeout, condition: condition, backoff: configuration.outputBackoff,
                clock: clock, send: send),
            signals: signals, metrics: metrics, condition: condition, clock: clock, onStored: onStored, logger: logger,
            onDecisions: onDecisions)
        pipeline = Pipeline(context: context, directory: directory)
        (self.directory, self.heartbeat, self.handOver) = (directory, heartbeat, handOver)
        self.history = history ?? DatabaseHistory(of: pool)
        self.history.observe { [leases = context.leases, closer = pipeline.closer] token in
            let lists = leases.lose(through: token)
            closer.doubtFirstMessages()
            logger.notice(
                "the database is of another history; its tokens have jumped, and claims are dropped",
                metadata: ["lists": "\(lists)"])
        }
    }

    /// Service that adds the counts of kinds to the database. It must stop after this one.
    package var kindRecorder: KindRecorder { context.kinds }

    /// Latest requests to the providers of an app, by URL.
    package var failures: [ReportedFailure] { context.protection.failures() }
    package func providers(of app: String) -> [String: ProviderRecord] { context.protection.records(of: app) }

    /// Works until graceful shutdown, then finishes the timelines in flight within the grace time and gives back the
    /// rest. After a cancellation there is no grace time.
    ///
    /// - Throws: an error that is not transient, after giving back the leases.
    package func run() async throws {
        let outcome: Result<Void, any Error> = await withGracefulShutdownHandler {
            do {
                try await register()
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask { try await untilShutdown(Sweeper(context: context, directory: directory).run) }
                    group.addTask {
                        try await PostgresPool.inBackground {
                            try await untilShutdown(AuditWalker(context: context).run)
                        }
                    }
                    group.addTask {
                        let loop = PlaceholderLoop(
                            context: context, directory: directory, freeSlot: pipeline.freeSlot)
                        try await untilShutdown(loop.run)
                    }
                    group.addTask {
                        try await untilShutdown(StackPlanning(context: context, directory: directory).run)
                    }
                    group.addTask { try await untilShutdown(stayRegistered) }
                    group.addTask { try await untilShutdown(recordBreakers) }
                    group.addTask { try await reload() }
                    try await group.waitForAll()
                }
                return .success(())
            } catch {
                return .failure(error)
            }
        } onGracefulShutdown: {
            pipeline.isStopping.store(true, ordering: .releasing)
            context.signals.signalAll()
        }
        await giveBack()
        // Cancelled statements throw errors of their own.
        if case .failure(let error) = outcome, !(error is CancellationError), !Task.isCancelled { throw error }
    }

    private func untilShutdown(_ body: @escaping @Sendable () async throws -> Void) async throws {
        do {
            try await cancelWhenGracefulShutdown { try await body() }
        } catch {
            guard pipeline.isStopping.load(ordering: .acquiring) || Task.isCancelled else { throw error }
        }
    }

    // MARK: Registration

    /// Registers the process before its first claim, with retries.
    private func register() async throws {
        var failures = 0
        while !pipeline.isStopping.load(ordering: .acquiring) {
            do {
                try await history.check(on: context.pool)
                try await beat()
                return
            } catch {
                guard error.canPass else { throw error }
                failures += 1
                context.logger.error("cannot register", metadata: ["error": "\(error)"])
                try await context.clock.sleep(for: context.configuration.databaseBackoff.bound(attempt: failures))
            }
        }
    }

    private func stayRegistered() async throws {
        while true {
            try await context.clock.sleep(for: context.configuration.registrationInterval.jittered)
            do {
                try await beat()
            } catch {
                guard error.canPass else { throw error }
                context.logger.debug("cannot stay registered", metadata: ["error": "\(error)"])
            }
        }
    }

    /// Renews the registration.
    private func beat() async throws(PostgresError) {
        _ = try await context.pool.query(.registerWorker(context.worker))
    }

    /// Stores changes of breakers as they come, at most once a second.
    private func recordBreakers() async throws {
        let changes = context.protection.changes
        try await context.repeatedly("store the breakers of providers") {
            let version = changes.version
            try await context.recordBreakers()
            try await context.clock.sleep(for: .seconds(1))
            try await changes.wait(past: version)
        }
    }

    // MARK: Reloads

    /// The claim loop and the pipeline's work.
    private func reload() async throws {
        // Tasks of a group run at no lower priority than the task that waits for them. Patient work therefore has a
        // task of its own, which is awaited only at the end.
        let patient = Task(priority: .utility) { await run(pipeline.patientWorks) }
        let result: Result<Void, any Error>
        do {
            result = .success(try await reloadUntilStopped(beside: patient))
        } catch {
            result = .failure(error)
        }
        await patient.value
        try result.get()
    }

    private func run(_ works: AsyncStream<Pipeline.Work>) async {
        await withDiscardingTaskGroup { group in
            for await work in works {
                group.addTask { await pipeline.run(work) }
            }
        }
    }

    /// - Parameter patient: the patient work, which is cancelled unless all work was drained.
    private func reloadUntilStopped(beside patient: Task<Void, Never>) async throws {
        try await withThrowingDiscardingTaskGroup { group in
            defer {
                // Before the group waits for its children, which may wait for patient work.
                if !pipeline.hasDrained.load(ordering: .acquiring) { patient.cancel() }
                handOver.close()
                heartbeat.rest()
            }
            group.addTask {
                await pipeline.closer.run()
            }
            group.addTask {
                await run(pipeline.works)
            }
            handOver.open(pipeline)
            var loop = ClaimLoop(context: context, directory: directory, pipeline: pipeline)
            try await loop.run {
                // Called at every turn.
                heartbeat.beat()
                return pipeline.isStopping.load(ordering: .acquiring)
            }
            // Stopping: timelines that are under way may go on for the grace time.
            handOver.close()
            heartbeat.rest()
            let isDrained = try await context.leases.drained(
                within: context.configuration.graceTime, clock: context.clock)
            pipeline.finish()
            if isDrained { pipeline.hasDrained.store(true, ordering: .releasing) } else { group.cancelAll() }
        }
    }

    /// Ends finished lists, and gives back the others for other workers.
    private func giveBack() async {
        let open = context.leases.abandon()
        // A task of its own, since this one may be cancelled. The pool's and the statement's time limits bound it.
        await Task {
            while await pipeline.closer.endSome() {}
            if pipeline.hasDrained.load(ordering: .acquiring) {
                _ = try? await context.pool.execute(.leaveWorkers(context.worker))
            }
            guard !open.isEmpty else { return }
            do {
                let count = try await context.pool.execute(
                    .giveBackLists(open.map { (hold: $0.list.hold, delay: Duration.zero, counts: $0.mayBeStored) }))
                context.logger.info("gave back lists", metadata: ["count": "\(count)"])
            } catch {
                context.logger.warning(
                    "could not give back lists; their leases will end",
                    metadata: ["count": "\(open.count)", "error": "\(error)"])
            }
        }.value
    }
}
