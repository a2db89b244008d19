package import Logging
package import PostgresClient
import ServiceLifecycle
import Synchronization
package import WidgetModel
package import WidgetStore

/// The workers role of a process: claims due timelines, has their providers render them, stores and publishes what
/// changed, and sweeps reloads of everyone into due work.
///
/// Any number of processes run it against one database. None holds state worth keeping: what one leaves behind is
/// claimed again when its lease ends.
package struct WorkerService: Service {
    private let context: WorkerContext
    private let directory: DirectoryCache
    private let isStopping = StopFlag()
    private let heartbeat: Heartbeat
    private let direct: DirectClaims

    /// - Parameters:
    ///   - signal: told by whoever learns that there may be work: ingest in the same process, notifications of others.
    ///   - clock: measures leases, intervals and time limits.
    ///   - onStored: told of every timeline whose stored content has changed, with the event that caused the reload.
    ///     Called on a worker's task: it must be quick.
    ///   - decisions: told of every decision; nil: nobody wants to know.
    ///   - direct: by which ingest in this process hands over what it claims.
    ///   - heartbeat: beats at each turn of the claim loop, and rests once that stops.
    package init(
        configuration: WorkerConfiguration, pool: PostgresPool, directory: DirectoryCache,
        fetcher: any ProviderFetching, publisher: any TimelinePublishing, signal: WorkSignal = WorkSignal(),
        statistics: WorkerStatistics = WorkerStatistics(), clock: any Clock<Duration> = ContinuousClock(),
        onStored: (@Sendable (TimelineID, EventPosition?) -> Void)? = nil,
        decisions: (any DecisionPublishing)? = nil, direct: DirectClaims = DirectClaims(),
        heartbeat: Heartbeat = Heartbeat(), logger: Logger
    ) {
        let clock = WorkerClock(clock)
        context = WorkerContext(
            configuration: configuration, pool: pool, fetcher: fetcher,
            output: OutputGate(publisher, configuration: configuration, clock: clock),
            inFlight: InFlight(signal: signal), signal: signal, sweepDemand: SweepDemand(signal: signal),
            statistics: statistics, clock: clock, onStored: onStored, logger: logger, decisions: decisions)
        self.directory = directory
        self.heartbeat = heartbeat
        self.direct = direct
    }

    /// Works until graceful shutdown, then finishes what is in flight within the grace time and gives back the rest; so
    /// it does, without the grace, when the task is cancelled.
    ///
    /// - Throws: what no time can mend; the leases that it held are given back all the same.
    package func run() async throws {
        let outcome: Result<Void, any Error> = await withGracefulShutdownHandler {
            do {
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask { try await sweep() }
                    group.addTask { try await reload() }
                    group.addTask { try await fetchPlaceholders() }
                    try await group.waitForAll()
                }
                return .success(())
            } catch {
                return .failure(error)
            }
        } onGracefulShutdown: {
            isStopping.set()
            context.signal.signal()
        }
        await giveBack()
        if case .failure(let error) = outcome, !(error is CancellationError) { throw error }
    }

    private func sweep() async throws {
        do {
            try await cancelWhenGracefulShutdown {
                try await Sweeper(context: context, directory: directory).run()
            }
        } catch {
            guard isStopping.isSet || Task.isCancelled else { throw error }
        }
    }

    private func fetchPlaceholders() async throws {
        do {
            try await cancelWhenGracefulShutdown {
                try await PlaceholderLoop(context: context, directory: directory).run()
            }
        } catch {
            guard isStopping.isSet || Task.isCancelled else { throw error }
        }
    }

    /// The claim loop, and the batches as its children.
    private func reload() async throws {
        try await withThrowingDiscardingTaskGroup { group in
            var loop = ClaimLoop(context: context, directory: directory, direct: direct)
            direct.open(context)
            defer {
                direct.close()
                heartbeat.rest()
            }
            group.addTask {
                await withDiscardingTaskGroup { group in
                    for await work in direct.works { group.addTask { await run(work) } }
                }
            }
            try await loop.run {
                // Asked at every turn.
                heartbeat.beat()
                return isStopping.isSet
            } start: { work in
                group.addTask { await run(work) }
            }
            // Stopping: what is under way may go on for the grace time.
            direct.close()
            heartbeat.rest()
            try await context.inFlight.drained(within: context.configuration.graceTime, clock: context.clock)
            group.cancelAll()
        }
    }

    private func run(_ work: ClaimLoop.Work) async {
        switch work {
        case .reload(let batch): await BatchRunner(context: context).run(batch)
        case .collection(let batch): await CollectionRunner(context: context).run(batch)
        case .deferral(let batch): await DeferralRunner(context: context).run(batch)
        }
        context.inFlight.finish()
        context.output.probeEnded()
        context.sweepDemand.backlogShrank()
    }

    /// Gives back the leases that are still held, for other workers to take at once.
    private func giveBack() async {
        let claims = context.inFlight.leases.map {
            EndedClaim(id: $0.id, claim: $0.claim, delay: .zero, decision: .released, rule: .stopped)
        }
        guard !claims.isEmpty else { return }
        context.statistics.count { $0.released += claims.count }
        // A task of its own, since this one may be cancelled and the database would not be asked any more. It is
        // awaited, and bounded by the pool's and the statement's time limits.
        let pool = context.pool
        let result = await Task { try await pool.execute(ReleaseTimelines(claims)) }.result
        switch result {
        case .success(let count):
            context.logger.info("gave back claimed timelines", metadata: ["count": "\(count)"])
        case .failure(let error):
            context.logger.warning(
                "could not give back claimed timelines; their leases will end",
                metadata: ["count": "\(claims.count)", "error": "\(error)"])
        }
    }
}

/// Set once, when the service is to stop.
private final class StopFlag: Sendable {
    private let flag = Atomic(false)

    var isSet: Bool { flag.load(ordering: .acquiring) }

    func set() {
        flag.store(true, ordering: .releasing)
    }
}
