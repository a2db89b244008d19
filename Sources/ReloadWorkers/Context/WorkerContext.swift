import Logging
package import PostgresClient
import WidgetModel
import WidgetStore

struct WorkerContext: Sendable {
    let configuration: WorkerConfiguration
    let pool: PostgresPool
    let fetcher: any ProviderFetching
    let output: OutputGate
    let leases: LeaseBook
    let slots = RequestSlots()
    let precedence = IngestPrecedence()
    let signal: WorkSignal
    let statistics: WorkerStatistics
    let clock: WorkerClock
    /// Told of every timeline whose stored content has changed, with the event that caused the reload.
    let onStored: (@Sendable (TimelineID, EventPosition?) -> Void)?
    let logger: Logger
    /// Providers that are not to be asked for snapshots, or placeholders, for a while.
    let restingEndpoints = RestingEndpoints()
    /// Share of the configured number of timelines to hold, and to sweep, at once.
    let claimSize = AdaptiveBatchSize()
    let sweepSize = AdaptiveBatchSize()
    let protection: ProviderProtection
    let meter = WorkerMeter()
    let traces: TraceLookup
    /// Told of every decision; nil: nobody wants to know.
    let decisions: (any DecisionPublishing)?
    /// Identity of this process among the registered workers.
    let worker: PostgresUUID

    init(
        configuration: WorkerConfiguration, pool: PostgresPool, fetcher: any ProviderFetching, output: OutputGate,
        signal: WorkSignal, statistics: WorkerStatistics, clock: WorkerClock,
        onStored: (@Sendable (TimelineID, EventPosition?) -> Void)?, logger: Logger,
        decisions: (any DecisionPublishing)? = nil
    ) {
        self.configuration = configuration
        self.pool = pool
        self.fetcher = fetcher
        self.output = output
        leases = LeaseBook(signal: signal)
        self.signal = signal
        self.statistics = statistics
        self.clock = clock
        self.onStored = onStored
        self.logger = logger
        self.decisions = decisions
        worker = configuration.worker
        traces = TraceLookup(pool: pool)
        protection = ProviderProtection(configuration.protectionRules, statistics: statistics, logger: logger)
    }

    var messages: TimelineMessages { TimelineMessages(topic: configuration.topic) }

    /// Repeats `body`; after a database error that can pass, with back-off.
    ///
    /// - Parameters:
    ///   - what: the work, for the log: "sweep".
    ///   - size: shrinks when the work was too much for the database.
    /// - Throws: `CancellationError`; an error that is not transient.
    func repeatedly(_ what: String, size: AdaptiveBatchSize? = nil, _ body: () async throws -> Void) async throws {
        var failures = 0
        while true {
            try Task.checkCancellation()
            let began = clock.elapsed
            do {
                try await body()
                failures = 0
            } catch let error as PostgresError {
                guard error.canPass else { throw error }
                statistics.count { $0.databaseErrors += 1 }
                if error.asksForLess { size?.ended(begun: began, isInTime: false, at: clock.elapsed) }
                failures += 1
                logger.error("cannot \(what)", metadata: ["error": "\(error)", "failures": "\(failures)"])
                try await clock.sleep(for: configuration.databaseBackoff.bound(attempt: failures))
            }
        }
    }

    /// Runs a piece of database work, again with back-off when that can help, but not beyond `deadline` on the clock.
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

    /// Runs a statement over items, in halves where all of them are too much for the database within its limits.
    func inParts<Item, Answer>(
        _ items: [Item], until deadline: Duration, _ body: ([Item]) async throws -> [Answer]
    ) async throws -> [Answer] {
        let began = clock.elapsed
        do {
            return try await persistently(until: deadline, isDivisible: items.count > 1) { try await body(items) }
        } catch let error as PostgresError where error.asksForLess && items.count > 1 && clock.elapsed < deadline {
            statistics.count { $0.databaseErrors += 1 }
            claimSize.ended(begun: began, isInTime: false, at: clock.elapsed)
            logger.debug("too much for one statement", metadata: ["error": "\(error)", "items": "\(items.count)"])
            let middle = items.count / 2
            let first = try await inParts(Array(items[..<middle]), until: deadline, body)
            return try await first + inParts(Array(items[middle...]), until: deadline, body)
        }
    }
}

extension PostgresError {
    /// Whether a retry can succeed: false for a wrong configuration, a schema of another version, and shutdown.
    package var canPass: Bool {
        switch kind {
        case .configuration, .misuse, .migration, .shutdown: false
        case .connection, .server, .poolTimeout, .encoding, .decoding: true
        case .cancelled: !Task.isCancelled
        }
    }
}
