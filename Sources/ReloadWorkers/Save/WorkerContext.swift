import Logging
import PostgresClient
import WidgetModel
import WidgetStore

/// What everything in the workers role works with.
struct WorkerContext: Sendable {
    let configuration: WorkerConfiguration
    let pool: PostgresPool
    let fetcher: any ProviderFetching
    let output: OutputGate
    let inFlight: InFlight
    /// Wakes the claim loop and the sweeper.
    let signal: WorkSignal
    let sweepDemand: SweepDemand
    let statistics: WorkerStatistics
    let clock: WorkerClock
    /// Told of every timeline whose stored content has changed, with the event that caused the reload.
    let onStored: (@Sendable (TimelineID, EventPosition?) -> Void)?
    let logger: Logger
    /// Providers that are not to be asked for snapshots, or placeholders, for a while.
    let restingEndpoints = RestingEndpoints()
    /// How much of what is configured to claim, and to sweep, at once.
    let claimSize = WorkSize()
    let sweepSize = WorkSize()
    let protection: ProviderProtection
    let meter = WorkerMeter()
    let traces: TraceLookup
    /// Batches that are stored at the same time share statements; but none that somebody may be waiting for is stored with, or
    /// behind, hundreds of timelines of a patient lane.
    private let urgentSaves: StatementMerger<FetchedTimeline, SaveContent.Row>
    private let patientSaves: StatementMerger<FetchedTimeline, SaveContent.Row>
    /// So do batches that are completed at the same time.
    let completions: StatementMerger<Completion, CompleteTimelines.Row>
    /// Told of every decision; nil: nobody wants to know.
    var decisions: (any DecisionPublishing)?

    init(
        configuration: WorkerConfiguration, pool: PostgresPool, fetcher: any ProviderFetching, output: OutputGate,
        inFlight: InFlight, signal: WorkSignal, sweepDemand: SweepDemand, statistics: WorkerStatistics,
        clock: WorkerClock, onStored: (@Sendable (TimelineID, EventPosition?) -> Void)?, logger: Logger,
        decisions: (any DecisionPublishing)? = nil
    ) {
        self.configuration = configuration
        self.pool = pool
        self.fetcher = fetcher
        self.output = output
        self.inFlight = inFlight
        self.signal = signal
        self.sweepDemand = sweepDemand
        self.statistics = statistics
        self.clock = clock
        self.onStored = onStored
        self.logger = logger
        self.decisions = decisions
        urgentSaves = StatementMerger(
            concurrency: 2, limit: 1_000, gathering: configuration.saveGathering, clock: clock)
        // One: with the others there are as many statements under way as a pool has connections.
        patientSaves = StatementMerger(
            concurrency: 1, limit: 1_000, gathering: configuration.saveGathering, clock: clock)
        // Nobody waits for a completion: what is to be shown is stored by then.
        completions = StatementMerger(
            concurrency: 2, limit: 1_000, gathering: configuration.completionGathering, clock: clock)
        traces = TraceLookup(pool: pool)
        protection = ProviderProtection(
            configuration.protectionRules, statistics: statistics, logger: logger)
    }

    /// What stores batches of a lane.
    func saves(of lane: ReloadLane) -> StatementMerger<FetchedTimeline, SaveContent.Row> {
        lane.isUrgent ? urgentSaves : patientSaves
    }

    var messages: TimelineMessages { TimelineMessages(topic: configuration.topic) }

    /// Runs a piece of database work, again with back-off when that can help, but not beyond `deadline` on the clock.
    ///
    /// - Parameter isDivisible: what is too much for the database is the caller's to divide, not to be tried again.
    func persistently<Value>(
        until deadline: Duration, isDivisible: Bool = false, _ body: () async throws -> Value
    ) async throws -> Value {
        var attempt = 1
        while true {
            do {
                return try await body()
            } catch let error as PostgresError where error.isRetriable && !(isDivisible && error.asksForLess) {
                statistics.count { $0.databaseErrors += 1 }
                var generator = SystemRandomNumberGenerator()
                let delay = configuration.databaseBackoff.delay(attempt: attempt, using: &generator)
                guard attempt < configuration.databaseAttempts, clock.elapsed + delay < deadline else { throw error }
                logger.debug("database error, trying again", metadata: ["error": "\(error)", "attempt": "\(attempt)"])
                try await clock.sleep(for: delay)
                attempt += 1
            }
        }
    }
}
