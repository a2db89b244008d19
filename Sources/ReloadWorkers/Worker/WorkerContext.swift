// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import Logging
import Metrics
package import PostgresClient
import Waiting
import WidgetEvents
import WidgetModel
import WidgetStore

/// Dependencies shared by the worker's steps.
final class WorkerContext: Sendable {
    let configuration: WorkerConfiguration
    let pool: PostgresPool
    let fetcher: any ProviderFetching
    let output: TimelineProducer
    let leases: HeldLists
    let slots = RequestSlots()
    let precedence = IngestPrecedence()
    let signals: WorkSignals
    let metrics: MetricRegistry
    /// The timers of `metrics.reloadLatency`, since finding one by its label costs more than a record.
    private let latencies: [ReloadReason: Metrics.Timer]
    let kinds: KindRecorder
    let condition: WorkerCondition
    let clock: WorkerClock
    /// Encoder of messages, of which each batch takes a copy: what all messages share is encoded once.
    let messages: TimelineMessages
    /// Called for every timeline with changed content, with the event that caused the reload.
    let onStored: (@Sendable (TimelineID, EventPosition?) -> Void)?
    let logger: Logger
    /// Back-off of providers' snapshot and placeholder endpoints.
    let restingEndpoints = RestingEndpoints()
    /// Share of the configured number of timelines to hold, and to sweep, at once.
    let claimSize = AdaptiveBatchSize()
    let sweepSize = AdaptiveBatchSize()
    let protection: ProviderProtection
    let traces: TraceLookup
    /// Receives every decision; nil without a consumer.
    let onDecisions: (@Sendable ([TimelineDecidedEvent]) -> Void)?
    /// Identity of this process among the registered workers.
    let worker: UInt128

    init(
        configuration: WorkerConfiguration, pool: PostgresPool, fetcher: any ProviderFetching, output: TimelineProducer,
        signals: WorkSignals, metrics: MetricRegistry = MetricRegistry(),
        condition: WorkerCondition = WorkerCondition(),
        clock: WorkerClock,
        onStored: (@Sendable (TimelineID, EventPosition?) -> Void)?, logger: Logger,
        onDecisions: (@Sendable ([TimelineDecidedEvent]) -> Void)? = nil
    ) {
        (self.configuration, self.pool, self.fetcher, self.output) = (configuration, pool, fetcher, output)
        leases = HeldLists(signal: signals.timelines)
        (self.signals, self.metrics, self.condition, self.clock) = (signals, metrics, condition, clock)
        (self.onStored, self.logger, self.onDecisions) = (onStored, logger, onDecisions)
        worker = configuration.worker
        messages = TimelineMessages(topic: configuration.topic)
        traces = TraceLookup(pool: pool)
        kinds = KindRecorder(pool: pool, metrics: metrics, clock: clock, logger: logger)
        protection = ProviderProtection(configuration.protectionRules, metrics: metrics, logger: logger)
        metrics.begin(
            "freshet_workers_", "freshet_gate_", "freshet_provider_", "freshet_stacks_", "freshet_audit_",
            "freshet_unreadable_timelines_")
        let reasons = ProviderFailure.Reason.allCases.map(\.rawValue)
        metrics.providerRequests.begin(["answered"] + reasons)
        metrics.providerErrors.begin(reasons)
        latencies = Dictionary(uniqueKeysWithValues: ReloadReason.allCases.map { ($0, metrics.reloadLatency($0.name)) })
        metrics.deferrals.begin([ReloadRule.budget, .spacing, .dormant].map(\.name))
    }

    /// The timer of reloads for a reason.
    func latency(of reason: ReloadReason) -> Metrics.Timer { latencies[reason] ?? metrics.reloadLatency(reason.name) }

    /// Repeats `body`, with back-off after transient database errors.
    ///
    /// - Parameters:
    ///   - what: name of the work for the log, such as "sweep".
    ///   - size: shrinks if the work was too much for the database.
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
                metrics.databaseErrors.increment()
                if error.asksForLess { size?.recordEnd(begun: began, isInTime: false, at: clock.elapsed) }
                failures += 1
                logger.error("cannot \(what)", metadata: ["error": "\(error)", "failures": "\(failures)"])
                try await clock.sleep(for: configuration.databaseBackoff.bound(attempt: failures))
            }
        }
    }

    /// Stores the changes of breakers, for explanations and consoles.
    ///
    /// - Throws: the error of the database; the changes that it did not take are kept for the next call.
    func recordBreakers() async throws(PostgresError) {
        while true {
            let states = protection.takeChanges(limit: 1_000, at: clock.elapsed)
            guard !states.isEmpty else { return }
            do throws(PostgresError) {
                _ = try await pool.execute(.recordBreakers(states, worker: worker))
            } catch {
                protection.putBack(states)
                throw error
            }
        }
    }

    /// Runs database work, with retries after transient errors until the deadline.
    func persistently<Value>(until deadline: Duration, _ body: () async throws -> Value) async throws -> Value {
        var attempt = 1
        while true {
            do {
                return try await body()
            } catch let error as PostgresError where error.isRetriable {
                try await pause(after: error, attempt: attempt, until: deadline)
                attempt += 1
            }
        }
    }

    /// Backs off after a transient error.
    ///
    /// - Throws: the error, after the last attempt or near the deadline.
    private func pause(after error: PostgresError, attempt: Int, until deadline: Duration) async throws {
        metrics.databaseErrors.increment()
        var generator = SystemRandomNumberGenerator()
        let delay = configuration.databaseBackoff.delay(attempt: attempt, using: &generator)
        guard attempt < configuration.databaseAttempts, clock.elapsed + delay < deadline else { throw error }
        logger.debug("database error, trying again", metadata: ["error": "\(error)", "attempt": "\(attempt)"])
        try await clock.sleep(for: delay)
    }

    /// Runs a statement over items, with retries after transient errors until the deadline, and in halves if it exceeds
    /// the database's limits or refuses the data of an item.
    ///
    /// - Parameter refusal: makes the answer for a single item whose data is refused; without it the error is thrown.
    func halving<Item, Answer>(
        _ items: [Item], until deadline: Duration, refusal: ((PostgresError) -> Answer)? = nil,
        _ body: ([Item]) async throws -> [Answer]
    ) async throws -> [Answer] {
        let began = clock.elapsed
        var attempt = 1
        while true {
            do {
                return try await body(items)
            } catch let error as PostgresError {
                if error.isRetriable, items.count == 1 || !error.asksForLess {
                    try await pause(after: error, attempt: attempt, until: deadline)
                    attempt += 1
                    continue
                }
                if error.blamesData, let refusal {
                    if items.count == 1 { return [refusal(error)] }
                } else {
                    guard error.asksForLess, items.count > 1, clock.elapsed < deadline else { throw error }
                    metrics.databaseErrors.increment()
                    claimSize.recordEnd(begun: began, isInTime: false, at: clock.elapsed)
                    logger.debug(
                        "too much for one statement", metadata: ["error": "\(error)", "items": "\(items.count)"])
                }
                let middle = items.count / 2
                let first = try await halving(Array(items[..<middle]), until: deadline, refusal: refusal, body)
                return try await first + halving(Array(items[middle...]), until: deadline, refusal: refusal, body)
            }
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
