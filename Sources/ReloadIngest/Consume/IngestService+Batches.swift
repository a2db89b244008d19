import KafkaClient
import Logging
import PostgresClient
import ServiceLifecycle
import WidgetEvents
import WidgetModel
import WidgetStore

/// Progress through the items of a batch, one transaction after another.
private struct BatchProgress {
    /// Items that have not been applied yet.
    var items: [Int]
    /// The kinds; nil if they must be read again, for example after a wait during which kinds may have been retired or
    /// changed.
    var directory: KindDirectory?
    /// Whether the kinds were read after the batch was polled, so that names missing from them do not exist.
    var isDirectoryCurrent = false
    /// Number of items in the current transactions.
    var count = 0
    /// Positions that the failed transaction moves.
    var advances: [PositionAdvance] = []
    /// Whether two transactions apply the items; nil before the first attempt.
    var isDivided: Bool?
    /// Failed attempts in a row.
    var attempt = 0
    /// Whether repeated events have been left out.
    var isWithoutRepeats = false
}

/// One of the transactions that apply a batch.
private struct BatchStep: Sendable {
    let items: ArraySlice<Int>
    let fold: BatchFold
    let advances: [PositionAdvance]
}

/// Applies batches: folds them, runs their transactions, and recovers from failures.
extension IngestService {
    /// Applies items in order, in one transaction if possible.
    func apply(
        _ items: [Int], of batch: inout PreparedBatch, under epochs: [TopicPartition: Int64],
        _ positions: inout PartitionPositions, _ consumer: KafkaConsumer
    ) async throws {
        var progress = BatchProgress(items: items)
        await leaveHalted(&positions, consumer)
        while true {
            progress.items = batch.due(progress.items) { positions.firstDue(of: $0, receivedUnder: epochs[$0]) }
            guard !progress.items.isEmpty else { return }
            (progress.count, progress.advances) = (progress.items.count, [])
            do {
                if !progress.isWithoutRepeats { try await leaveOutRepeats(&progress, of: &batch) }
                try await applyNext(&progress, of: batch, &positions, consumer)
                if progress.count == progress.items.count { return }
                progress.attempt = 0
            } catch {
                progress.isWithoutRepeats = false
                try await recover(from: ApplyFailure(error), &progress, of: &batch, under: epochs, &positions, consumer)
            }
        }
    }

    /// Leaves out events that were already applied from another place in the log. A repeated event follows the first
    /// one in its partition, so the transaction that applied the first one has committed before a transaction with
    /// these positions can commit.
    private func leaveOutRepeats(_ progress: inout BatchProgress, of batch: inout PreparedBatch) async throws {
        let events = batch.repeatable(progress.items)
        if !events.isEmpty { batch.leaveOut(try await applier.pool.query(.findRepeatedEvents(events)), of: events) }
        progress.isWithoutRepeats = true
    }

    /// Applies as many of the items as fit in one transaction, or, of a large batch of a backlog, in two. If these only
    /// request reloads, they run side by side, on two processors of the database.
    private func applyNext(
        _ progress: inout BatchProgress, of batch: PreparedBatch, _ positions: inout PartitionPositions,
        _ consumer: KafkaConsumer
    ) async throws {
        var steps: [BatchStep] = []
        for items in divided(&progress, of: batch) {
            let (fold, count) = try await fold(items, &progress, of: batch)
            let advances = positions.advances(behind: batch.last(of: items[..<count]))
            steps.append(BatchStep(items: items[..<count], fold: fold, advances: advances))
        }
        progress.count = steps.reduce(0) { $0 + $1.items.count }
        let isBehind = self.isBehind(batch.batch.waiting + Int64(progress.items.count - progress.count))
        // A small batch of a backlog shows that Kafka is slower than the database, which then has time for workers.
        workers?.ingestIsBehind(isBehind && progress.items.count >= configuration.leastDivided)
        // The count of failures in one transaction includes the events of the transactions before it.
        let arePlain = steps.allSatisfy(\.fold.isPlain)
        for parallel in arePlain ? [steps] : steps.map({ [$0] }) {
            let results = await run(parallel, of: batch, handsOver: !isBehind)
            for case (step: let step, result: .success(let outcome)) in results {
                committed(step.fold, outcome, step.advances, &positions, consumer, batch)
                onDecisions?(decisions(step.fold, outcome, batch))
            }
            // A second failure happens again in the next attempt.
            for case (step: let step, result: .failure(let error)) in results {
                progress.advances = step.advances
                throw error
            }
        }
    }

    /// The items of each transaction. Events of a partition stay in one transaction, in order; no order holds between
    /// partitions, which may be applied by different processes. Every attempt divides a batch in the same way, so that
    /// one whose COMMIT was not acknowledged is recognized by its positions.
    private func divided(_ progress: inout BatchProgress, of batch: PreparedBatch) -> [[Int]] {
        let isLarge = progress.items.count >= configuration.leastDivided && isBehind(batch.batch.waiting)
        let isDivided = progress.isDivided ?? isLarge
        progress.isDivided = isDivided
        guard isDivided else { return [progress.items] }
        let isEven = { (item: Int) in batch.batch.records[item].partition.isMultiple(of: 2) }
        return [progress.items.filter(isEven), progress.items.filter { !isEven($0) }].filter { !$0.isEmpty }
    }

    private typealias StepResult = (step: BatchStep, result: Result<BatchApplier.Outcome, any Error>)

    /// Runs transactions side by side.
    private func run(_ steps: [BatchStep], of batch: PreparedBatch, handsOver: Bool) async -> [StepResult] {
        guard steps.count > 1 else { return [await run(steps[0], of: batch, handsOver: handsOver)] }
        return await withTaskGroup(of: StepResult.self) { group in
            for step in steps { group.addTask { await self.run(step, of: batch, handsOver: handsOver) } }
            return await group.reduce(into: []) { $0.append($1) }
        }
    }

    private func run(_ step: BatchStep, of batch: PreparedBatch, handsOver: Bool) async -> StepResult {
        let begun = ContinuousClock.now
        do {
            let outcome = try await transact(step.fold, advancing: step.advances, batch, handsOver: handsOver)
            meter.committed(step.items, of: batch, step.fold, outcome, took: begun.duration(to: .now))
            return (step, .success(outcome))
        } catch {
            return (step, .failure(error))
        }
    }

    /// Folds the next items, for one transaction.
    ///
    /// - Throws: `PostgresError` if the kinds cannot be read.
    private func fold(
        _ items: [Int], _ progress: inout BatchProgress, of batch: PreparedBatch
    ) async throws -> (fold: BatchFold, count: Int) {
        func fold(_ directory: KindDirectory) -> (fold: BatchFold, count: Int) {
            batch.fold(
                items, directory, flow.divertedApps, full: flow.fullApps, fullTopics: flow.fullTopics,
                limit: configuration.maximumMarks)
        }
        let known: KindDirectory
        if let directory = progress.directory {
            known = directory
        } else {
            known = try await directory.directory(maximumAge: configuration.directoryAge)
        }
        progress.directory = known
        let folded = fold(known)
        guard !progress.isDirectoryCurrent,
            let current = try await directory.refresh(ifRegistered: folded.fold.unknownNames)
        else { return folded }
        (progress.directory, progress.isDirectoryCurrent) = (current, true)
        return fold(current)
    }

    /// Prepares the next attempt: reads outdated data again, waits, takes partitions again, or divides the batch.
    ///
    /// - Throws: `CancellationError` if the service is to stop.
    private func recover(
        from failure: ApplyFailure, _ progress: inout BatchProgress, of batch: inout PreparedBatch,
        under epochs: [TopicPartition: Int64], _ positions: inout PartitionPositions, _ consumer: KafkaConsumer
    ) async throws {
        let first = progress.items[0]
        if case .poison = failure {} else { (progress.directory, progress.isDirectoryCurrent) = (nil, false) }
        switch failure {
        case .stopped:
            throw CancellationError()
        case .fenced:
            try await resolveFence(progress.advances, &positions, consumer)
        case .diversionsChanged:
            guard (try? await flow.refresh()) == nil else { return }
            try await retryLater(&progress)
        case .halted:
            guard (try? await flow.refresh()) != nil else { return try await retryLater(&progress) }
            await leaveHalted(&positions, consumer)
        case .directoryIsBehind:
            _ = try? await directory.refresh()
            try await retryLater(&progress)
        case .poison(let message) where progress.count == 1:
            // The event is already rejected and its outcome already dropped, so the dead letter itself is refused.
            if case .rejected(let event) = batch.content(first), !event.keepsOutcome {
                // Nothing may be dropped, so the event waits for an operator.
                logger.critical("the database refuses a dead letter", metadata: ["error": "\(message)"])
                try await retryLater(&progress)
            } else {
                batch.reject(first, code: "databaseRefused", message: message)
                logger.error("an event was refused by the database", metadata: ["error": "\(message)"])
            }
        case .poison:
            try await applyHalves(&progress, of: &batch, under: epochs, &positions, consumer)
        case .tooMuch(let message):
            // The next attempt applies half of this one, so a long wait would be premature.
            progress.attempt = progress.count > 1 ? 1 : progress.attempt + 1
            try await waitForDatabase(message, attempt: progress.attempt, events: progress.count)
            guard progress.count > 1 else { return }
            try await applyHalves(&progress, of: &batch, under: epochs, &positions, consumer)
        case .wait(let message):
            progress.attempt += 1
            try await waitForDatabase(message, attempt: progress.attempt, events: progress.count)
        }
    }

    /// Whether this number of waiting messages counts as a backlog.
    func isBehind(_ messages: Int64) -> Bool { messages >= configuration.backlog }

    /// Counts a failed attempt and backs off.
    ///
    /// - Throws: `CancellationError` if the service is to stop.
    private func retryLater(_ progress: inout BatchProgress) async throws {
        progress.attempt += 1
        guard await pause(attempt: progress.attempt) else { throw CancellationError() }
    }

    /// Applies the items of the current transaction in two halves.
    private func applyHalves(
        _ progress: inout BatchProgress, of batch: inout PreparedBatch, under epochs: [TopicPartition: Int64],
        _ positions: inout PartitionPositions, _ consumer: KafkaConsumer
    ) async throws {
        let items = progress.items[..<progress.count]
        for half in [items.prefix(items.count / 2), items.dropFirst(items.count / 2)] {
            try await apply(Array(half), of: &batch, under: epochs, &positions, consumer)
        }
        progress.attempt = 0
    }

    /// Largest number of marks that are handed over with a batch. A larger batch is part of a backlog, whose later
    /// events may concern the same timelines.
    private static let mostHandedOver = 256

    /// Applies a fold, and hands its timelines over to this process's workers as far as they have capacity.
    private func transact(
        _ fold: BatchFold, advancing advances: [PositionAdvance], _ batch: PreparedBatch, handsOver: Bool
    ) async throws -> BatchApplier.Outcome {
        let kindIDs = handsOver && fold.isPlain && fold.markCount <= Self.mostHandedOver ? fold.urgentKinds : []
        let grant = kindIDs.isEmpty ? nil : workers?.reserve(kindIDs)
        do {
            let outcome = try await applier.apply(
                fold, advancing: advances, handOver: grant?.statement,
                failures: { [tally] in tally.counts($0, in: fold) { batch.batch.topic($0.record) } },
                outcomes: { batch.outcomes(of: fold, $0, $1) }, deadLetter: { batch.deadLetter($0) })
            if let grant { workers?.accept(grant, outcome.claim) }
            return outcome
        } catch {
            // If the COMMIT nevertheless succeeded, the leases expire.
            if let grant { workers?.accept(grant, nil) }
            throw error
        }
    }

    /// Logs that the database did not accept a batch, and backs off.
    ///
    /// - Throws: `CancellationError` if the service is to stop.
    func waitForDatabase(_ message: String, attempt: Int, events: Int) async throws {
        statistics.update {
            $0.retries += 1
            // A single conflict with another transaction is not an outage.
            if attempt > 1 || events == 1 { $0.blockedBy = message }
        }
        logger.warning(
            "the database did not take a batch; trying again",
            metadata: ["error": "\(message)", "attempt": "\(attempt)", "events": "\(events)"])
        guard await pause(attempt: attempt) else { throw CancellationError() }
    }

    private func committed(
        _ fold: BatchFold, _ outcome: BatchApplier.Outcome, _ advances: [PositionAdvance],
        _ positions: inout PartitionPositions, _ consumer: KafkaConsumer, _ batch: PreparedBatch
    ) {
        positions.applied(advances)
        status.clearObstacles(of: advances.lazy.map(\.place))
        commitToKafka(advances, consumer)
        statistics.update {
            $0.blockedBy = nil
            $0.batches += 1
            $0.events += fold.accepted + fold.rejected.count - outcome.rejected.count
            $0.deadLetters += outcome.rejected.count
            $0.diverted += fold.diverted.count
            $0.dropped += fold.dropped.count
            $0.marked += outcome.marked
            $0.handedOver += outcome.claim?.count ?? 0
        }
        defaults?.ask(outcome.undecided)
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
        if let first = outcome.ignored.first {
            logger.debug(
                "lifecycle events had no effect",
                metadata: [
                    "count": "\(outcome.ignored.count)", "first": "\(first.reason.rawValue)",
                    "event": "\(batch.place(first.record))",
                ])
        }
        if !outcome.rejected.isEmpty || !fold.diverted.isEmpty { flow.lettersCame() }
        tally.committed(fold, counted: outcome.failures)
    }

    private func decisions(
        _ fold: BatchFold, _ outcome: BatchApplier.Outcome, _ batch: PreparedBatch
    ) -> [TimelineDecidedEvent] {
        let refused = MarkDecisions.records(of: outcome.rejected) { event in
            let record = batch.batch.records[event.record]
            return configuration.topics.all.firstIndex(of: batch.batch.topic(event.record)).map { topic in
                EventPosition(topic: Int16(topic), partition: record.partition, offset: record.offset)
            }
        }
        return MarkDecisions.records(of: outcome.marks, directory: fold.directory) + refused
    }

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
