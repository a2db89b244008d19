// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import Logging
import Metrics
import PostgresClient
import WidgetEvents
import WidgetModel
import WidgetStore

/// One of the transactions that apply a batch. A class, since a fold is large.
private final class BatchStep: Sendable {
    let items: ArraySlice<Int>
    let fold: BatchFold
    let advances: [PositionAdvance]

    init(items: ArraySlice<Int>, fold: consuming BatchFold, advances: [PositionAdvance]) {
        (self.items, self.fold, self.advances) = (items, fold, advances)
    }
}

/// Applies a polled batch, one transaction after another: folds its events, runs the transactions, and recovers from
/// failures.
final class BatchRun {
    private let session: IngestSession
    private let service: IngestService
    /// Epochs under which the messages were received.
    private let epochs: [TopicPartition: Int64]
    private var batch: PreparedBatch
    /// Items that have not been applied yet.
    private var items: [Int]
    /// The kinds; nil if they must be read again, for example after a wait during which kinds may have been retired or
    /// changed.
    private var directory: KindDirectory?
    /// Whether the kinds were read after the batch was polled, so that names missing from them do not exist.
    private var isDirectoryCurrent = false
    /// Number of items in the current transactions.
    private var count = 0
    /// Positions that the failed transaction moves.
    private var advances: [PositionAdvance] = []
    /// Whether two transactions apply the items; nil before the first attempt.
    private var isDivided: Bool?
    /// Failed attempts in a row.
    private var attempt = 0
    /// Whether repeated events have been left out.
    private var isWithoutRepeats = false

    private var configuration: IngestConfiguration { service.configuration }
    private var logger: Logger { service.logger }

    init(of batch: PreparedBatch, in session: IngestSession) {
        (self.batch, items) = (batch, batch.items)
        (self.session, service, epochs) = (session, session.service, session.positions.epochs)
    }

    /// A run of some of the items of another one.
    private init(_ whole: BatchRun, items: [Int]) {
        (batch, self.items) = (whole.batch, items)
        (session, service, epochs) = (whole.session, whole.service, whole.epochs)
    }

    /// Applies the items in order, in one transaction if possible.
    ///
    /// - Throws: `CancellationError` if the service is to stop.
    func apply() async throws {
        await session.leaveHalted()
        while true {
            items = batch.due(items) { session.positions.firstDue(of: $0, receivedUnder: epochs[$0]) }
            guard !items.isEmpty else { return }
            (count, advances) = (items.count, [])
            do {
                if !isWithoutRepeats {
                    // Leaves out events that were already applied from another place in the log. A repeated event
                    // follows the first one in its partition, so the transaction that applied the first one has
                    // committed before a transaction with these positions can commit.
                    let events = batch.repeatable(items)
                    if !events.isEmpty {
                        batch.leaveOut(try await service.pool.query(.findRepeatedEvents(events)), of: events)
                    }
                    isWithoutRepeats = true
                }
                try await applyNext()
                if count == items.count { return }
                attempt = 0
            } catch {
                isWithoutRepeats = false
                try await recover(from: ApplyFailure(error))
            }
        }
    }

    /// Applies as many of the items as fit in one transaction, or, of a large batch of a backlog, in two. If these only
    /// request reloads, they run side by side, on two processors of the database.
    private func applyNext() async throws {
        // Every attempt divides a batch in the same way, so that one whose COMMIT was not acknowledged is recognized by
        // its positions.
        let isDivided =
            self.isDivided ?? (items.count >= configuration.leastDivided && service.isBehind(batch.batch.waiting))
        self.isDivided = isDivided
        var parts = [items]
        if isDivided {
            // Events of a partition stay in one transaction, in order; no order holds between partitions, which may be
            // applied by different processes.
            let isEven = { [batch] (item: Int) in batch.batch.records[item].partition.isMultiple(of: 2) }
            parts = [items.filter(isEven), items.filter { !isEven($0) }].filter { !$0.isEmpty }
        }
        var steps: [BatchStep] = []
        for items in parts {
            let (fold, count) = try await fold(items)
            let advances = session.positions.advances(behind: batch.last(of: items[..<count]))
            steps.append(BatchStep(items: items[..<count], fold: fold, advances: advances))
        }
        count = steps.reduce(0) { $0 + $1.items.count }
        let isBehind = service.isBehind(batch.batch.waiting + Int64(items.count - count))
        // A small batch of a backlog shows that Kafka is slower than the database, which then has time for workers.
        service.workers?.ingestIsBehind(isBehind && items.count >= configuration.leastDivided)
        // The count of failures in one transaction includes the events of the transactions before it.
        let arePlain = steps.allSatisfy(\.fold.isPlain)
        for parallel in arePlain ? [steps] : steps.map({ [$0] }) {
            let results = await service.run(parallel, of: batch, handsOver: !isBehind)
            for case (step: let step, result: .success(let outcome)) in results {
                session.recordApplied(step.advances)
                service.report(outcome, of: step.fold, in: batch)
            }
            // A second failure happens again in the next attempt.
            for case (step: let step, result: .failure(let error)) in results {
                advances = step.advances
                throw error
            }
        }
    }

    /// Folds the next items, for one transaction.
    ///
    /// - Throws: `PostgresError` if the kinds cannot be read.
    private func fold(_ items: [Int]) async throws -> (fold: BatchFold, count: Int) {
        func fold(_ directory: KindDirectory) -> (fold: BatchFold, count: Int) {
            batch.fold(
                items, directory, service.restrictions.divertedApps, full: service.restrictions.fullApps,
                fullTopics: service.restrictions.fullTopics, limit: configuration.maximumMarks)
        }
        let known: KindDirectory
        if let directory {
            known = directory
        } else {
            known = try await service.directory.directory(maximumAge: configuration.directoryAge)
        }
        directory = known
        let folded = fold(known)
        guard !isDirectoryCurrent,
            let current = try await service.directory.refresh(ifRegistered: folded.fold.unknownNames)
        else { return folded }
        (directory, isDirectoryCurrent) = (current, true)
        return fold(current)
    }

    /// Prepares the next attempt: reads outdated data again, waits, takes partitions again, or divides the batch.
    ///
    /// - Throws: `CancellationError` if the service is to stop.
    private func recover(from failure: ApplyFailure) async throws {
        let first = items[0]
        if case .poison = failure {} else { (directory, isDirectoryCurrent) = (nil, false) }
        switch failure {
        case .stopped:
            throw CancellationError()
        case .fenced:
            try await session.resolveFence(advances)
        case .diversionsChanged:
            guard (try? await service.restrictions.refresh()) == nil else { return }
            try await retryLater()
        case .halted:
            guard (try? await service.restrictions.refresh()) != nil else { return try await retryLater() }
            await session.leaveHalted()
        case .directoryIsBehind:
            _ = try? await service.directory.refresh()
            try await retryLater()
        case .poison(let message) where count == 1:
            // The event is already rejected and its outcome already dropped, so the dead letter itself is refused.
            if case .rejected(let event) = batch.content(first), !event.keepsOutcome {
                // Nothing may be dropped, so the event waits for an operator.
                logger.critical("the database refuses a dead letter", metadata: ["error": "\(message)"])
                try await retryLater()
            } else {
                batch.reject(first, code: "databaseRefused", message: message)
                logger.error("an event was refused by the database", metadata: ["error": "\(message)"])
            }
        case .poison:
            try await applyHalves()
        case .tooMuch(let message):
            // The next attempt applies half of this one, so a long wait would be premature.
            attempt = count > 1 ? 1 : attempt + 1
            try await service.waitForDatabase(message, attempt: attempt, events: count)
            guard count > 1 else { return }
            try await applyHalves()
        case .wait(let message):
            attempt += 1
            try await service.waitForDatabase(message, attempt: attempt, events: count)
        }
    }

    /// Counts a failed attempt and backs off.
    ///
    /// - Throws: `CancellationError` if the service is to stop.
    private func retryLater() async throws {
        attempt += 1
        guard await service.pause(attempt: attempt) else { throw CancellationError() }
    }

    /// Applies the items of the current transaction in two halves.
    private func applyHalves() async throws {
        let items = items[..<count]
        for half in [items.prefix(items.count / 2), items.dropFirst(items.count / 2)] {
            let run = BatchRun(self, items: Array(half))
            try await run.apply()
            batch = run.batch
        }
        attempt = 0
    }
}

// MARK: - Transactions

extension IngestService {
    fileprivate typealias StepResult = (step: BatchStep, result: Result<BatchApplier.Outcome, any Error>)

    /// Runs transactions side by side.
    fileprivate func run(_ steps: [BatchStep], of batch: PreparedBatch, handsOver: Bool) async -> [StepResult] {
        guard steps.count > 1 else { return [await transact(steps[0], of: batch, handsOver: handsOver)] }
        return await withTaskGroup(of: StepResult.self) { group in
            for step in steps { group.addTask { await self.transact(step, of: batch, handsOver: handsOver) } }
            return await group.reduce(into: []) { $0.append($1) }
        }
    }

    /// Largest number of marks that are handed over with a batch. A larger batch is part of a backlog, whose later
    /// events may concern the same timelines.
    private static let mostHandedOver = 256

    /// Runs a transaction, and hands its timelines over to this process's workers as far as they have capacity.
    private func transact(_ step: BatchStep, of batch: PreparedBatch, handsOver: Bool) async -> StepResult {
        let begun = ContinuousClock.now
        let canHandOver = handsOver && step.fold.isPlain && step.fold.markCount <= Self.mostHandedOver
        let kindIDs = canHandOver ? step.fold.urgentKinds : []
        let grant = kindIDs.isEmpty ? nil : workers?.reserve(kindIDs)
        do {
            let outcome = try await applier.apply(
                step.fold, advancing: step.advances, handOver: grant,
                failures: { [tally] in tally.counts($0, in: step.fold) { batch.batch.topic($0.record) } },
                outcomes: { batch.outcomes(of: step.fold, $0, $1) }, deadLetter: { batch.deadLetter($0) })
            if let grant { workers?.accept(grant, outcome.claim) }
            count(step, outcome, of: batch, took: begun.duration(to: .now))
            return (step, .success(outcome))
        } catch {
            // If the COMMIT nevertheless succeeded, the leases expire.
            if let grant { workers?.accept(grant, nil) }
            return (step, .failure(error))
        }
    }

    /// Counts what a committed transaction did.
    private func count(
        _ step: BatchStep, _ outcome: BatchApplier.Outcome, of batch: PreparedBatch, took time: Duration
    ) {
        var applied: [EventType?: Int] = [:]
        // Events of a type mostly come behind one another.
        var latest: (type: EventType?, count: Int) = (nil, 0)
        var oldest = Int64.max
        for item in step.items {
            let type = batch.type(item)
            if type != latest.type {
                applied[latest.type, default: 0] += latest.count
                latest = (type, 0)
            }
            latest.count += 1
            let time = batch.batch.records[item].timestampMilliseconds
            if time >= 0, time < oldest { oldest = time }
        }
        applied[latest.type, default: 0] += latest.count
        func count(_ record: Int, _ outcome: String) {
            let type = batch.type(record)
            applied[type, default: 0] -= 1
            metrics.ingestEvents(type.metricLabel, outcome).increment()
        }
        for event in outcome.rejected {
            count(event.record, "dead_letter")
            metrics.ingestDeadLetters(DeadLetterCause(code: event.code).rawValue).increment()
        }
        for event in step.fold.diverted { count(event.record, "diverted") }
        for event in step.fold.dropped { count(event.record, "dropped") }
        for event in outcome.ignored {
            metrics.ingestIgnored(batch.type(event.record).metricLabel, event.reason.rawValue).increment()
        }
        for (type, count) in applied where count > 0 {
            metrics.ingestEvents(type.metricLabel, "applied").increment(by: count)
        }
        metrics.ingestBatches.increment()
        metrics.ingestMarked.increment(by: outcome.marked)
        metrics.ingestBatchEvents.record(step.items.count)
        metrics.ingestApplySeconds.record(time)
        if oldest < .max { metrics.ingestEventAge.record(PendingMessages.age(since: oldest)) }
    }

    /// Logs what a committed transaction did, and wakes those who go on with it.
    fileprivate func report(_ outcome: BatchApplier.Outcome, of fold: BatchFold, in batch: PreparedBatch) {
        status.blockedBy = nil
        defaults?.ask(outcome.undecided)
        if outcome.lists > 0 { onLists() }
        if outcome.sweeps > 0 { onSweeps() }
        if let first = outcome.rejected.first {
            logger.warning(
                "events became dead letters",
                metadata: [
                    "count": "\(outcome.rejected.count)", "first": "\(first.code): \(first.message)",
                    "app": "\(first.app ?? "?")", "event": "\(batch.place(first.record))",
                ])
            onDeadLetters()
        }
        if let first = outcome.ignored.first {
            logger.debug(
                "lifecycle events had no effect",
                metadata: [
                    "count": "\(outcome.ignored.count)", "first": "\(first.reason.rawValue)",
                    "event": "\(batch.place(first.record))",
                ])
        }
        if !outcome.rejected.isEmpty || !fold.diverted.isEmpty { restrictions.noteNewLetters() }
        tally.committed(fold, counted: outcome.failures)
        guard let onDecisions else { return }
        let topics = configuration.topics.all
        onDecisions(
            outcome.marks.compactMap { TimelineDecidedEvent(marked: $0, directory: fold.directory) }
                + outcome.rejected.map { event in
                    let record = batch.batch.records[event.record]
                    let topic = topics.firstIndex(of: batch.batch.topic(event.record))
                    return TimelineDecidedEvent(
                        refused: event,
                        at: topic.map {
                            EventPosition(topic: Int16($0), partition: record.partition, offset: record.offset)
                        })
                })
    }
}

// MARK: - Labels of metrics

extension EventType? {
    /// The type without prefix and version, such as `push.received`.
    var metricLabel: String {
        map { String($0.rawValue.dropFirst("freshet.".count).dropLast(".v1".count)) } ?? "unknown"
    }
}
