import PostgresClient
import WidgetModel
import WidgetStore

/// Applies a folded batch in one transaction, the consumer positions included (design, section 4).
struct BatchApplier: Sendable {
    /// What a committed batch wrote.
    struct Outcome: Sendable {
        var marked = 0
        /// Timelines that are due now, at least.
        var due = 0
        var widgets = 0
        var timelines = 0
        var sweeps = 0
        var rejected: [RejectedEvent] = []
        /// The timelines that were marked, if decisions are recorded.
        var marks: [MarkedTimeline] = []
        /// The failures of the current window, of each app that had some in the batch.
        var failures: [CountFailures.Row] = []
        /// The batch was the last one before ingest halted.
        var isHalting = false
        /// Timelines that were claimed as they were marked.
        var claimed: [ClaimedTimeline] = []
    }

    let pool: PostgresPool
    let audienceLimit: Int
    /// Also read what was marked: a second statement for the marks of a batch.
    var recordsDecisions = false
    var limits = DeadLetterLimits()
    private let order = LockOrder()
    private let large = LargeAudiences()

    init(pool: PostgresPool, audienceLimit: Int, recordsDecisions: Bool = false, limits: DeadLetterLimits = .init()) {
        self.pool = pool
        self.audienceLimit = audienceLimit
        self.recordsDecisions = recordsDecisions
        self.limits = limits
    }

    /// Applies a batch of the consumer's, and moves the positions.
    ///
    /// - Parameters:
    ///   - grant: what may be claimed, if the batch is nothing but reload requests.
    ///   - failures: counts the rejected events by app.
    ///   - deadLetter: makes the dead letter of a rejected event from the polled batch.
    /// - Throws: `PostgresError`, ``LifecycleFoldError``.
    func apply(
        _ fold: BatchFold, advancing advances: [AdvancePositions.Advance], grant: MarkGrant? = nil,
        failures: @Sendable ([RejectedEvent]) -> [CountFailures.Count] = { _ in [] },
        deadLetter: @Sendable (RejectedEvent) -> DeadLetter
    ) async throws -> Outcome {
        do {
            if fold.isPlain, large.areRare, let outcome = try await applyAtOnce(fold, advances, grant) {
                return outcome
            }
            return try await pool.withTransaction { connection in
                var first = PostgresPipeline()
                _ = first.append(AdvancePositions(advances))
                _ = first.append(RequireFlow(apps: fold.events.keys, diverted: fold.divertedAppsOfBatch))
                appendTraces(of: fold, to: &first)
                var outcome = try await write(fold, behind: first, on: connection) { rejected, pipeline in
                    append((fold.diverted + rejected).map(deadLetter), to: &pipeline)
                    let counts = failures(rejected)
                    return counts.isEmpty ? nil : pipeline.append(CountFailures(counts, limits: limits))
                }
                outcome.isHalting = try await halt(after: outcome, deadLetter, on: connection)
                return outcome
            }
        } catch {
            order.note(error)
            throw error
        }
    }

    /// Applies a batch of nothing but reload requests and views, all of them accepted, in one round trip with its COMMIT.
    ///
    /// - Returns: nil when nothing was applied, because an audience has too many widgets for that.
    private func applyAtOnce(
        _ fold: BatchFold, _ advances: [AdvancePositions.Advance], _ grant: MarkGrant?
    ) async throws -> Outcome? {
        var pipeline = PostgresPipeline()
        _ = pipeline.append(AdvancePositions(advances))
        _ = pipeline.append(RequireFlow(apps: fold.events.keys, diverted: []))
        appendTraces(of: fold, to: &pipeline)
        appendBumps(of: fold, to: &pipeline)
        if order.isWanted() { appendLock(of: fold, to: &pipeline) }
        let marks =
            grant.map { appendClaims(of: fold, to: &pipeline, $0) }
            ?? appendMarks(of: fold, to: &pipeline, isStrict: true)
        do throws(PostgresError) {
            let results = try await pool.transaction(pipeline)
            var outcome = Outcome()
            count(marks, results, &outcome)
            return outcome
        } catch {
            guard error.sqlState == LargeAudience.state else { throw error }
            large.met()
            return nil
        }
    }

    /// Halts ingest in the transaction of the batch that was too much: its events are kept, and it is the last one.
    private func halt(
        after outcome: Outcome, _ deadLetter: (RejectedEvent) -> DeadLetter, on connection: PostgresConnection
    ) async throws -> Bool {
        let isNameless = outcome.failures.contains { $0.isOver && $0.appID == CountFailures.nameless }
        guard isNameless || outcome.failures.contains(where: \.isDiverted) else { return false }
        let last = outcome.rejected.last { !isNameless || $0.app == nil }.map(deadLetter)
        let detail = last.map { "the last: \($0.error), \($0.topic)/\($0.partition) offset \($0.offset)" } ?? ""
        var pipeline = PostgresPipeline()
        _ = pipeline.append(LockIngestState())
        let halts =
            isNameless
            ? pipeline.append(HaltIngest(cause: .nameless, detail: detail))
            : pipeline.append(HaltForApps(limits: limits, detail: detail))
        return try await connection.run(pipeline).affected(halts) > 0
    }

    /// Writes what a batch was folded to, in the caller's transaction.
    ///
    /// - Parameters:
    ///   - pipeline: what goes before it, in one round trip with its beginning.
    ///   - settle: adds what becomes of the rejected events, when all of them are known.
    /// - Throws: `PostgresError`, ``LifecycleFoldError``.
    func write(
        _ fold: BatchFold, behind pipeline: PostgresPipeline, on connection: PostgresConnection,
        settle: ([RejectedEvent], inout PostgresPipeline) -> PostgresPipeline.Handle<CountFailures.Row>?
    ) async throws -> Outcome {
        var outcome = Outcome()
        var first = pipeline
        appendBumps(of: fold, to: &first)
        let locksFirst = order.isWanted()
        guard !fold.lifecycle.isEmpty else {
            if locksFirst { appendLock(of: fold, to: &first) }
            let marks = appendMarks(of: fold, to: &first)
            outcome.rejected = fold.rejected
            let failures = settle(outcome.rejected, &first)
            guard !first.isEmpty else { return outcome }
            let results = try await connection.run(first)
            outcome.failures = failures.map { results.rows($0) } ?? []
            try await finish(marks, results, &outcome, on: connection)
            return outcome
        }
        let needed = LifecycleFold.needed(fold.lifecycle)
        let scope = WidgetScope(
            widgets: needed.widgets, devices: needed.devices, deviceLimit: LifecycleFold.deviceLimit + 1)
        _ = first.append(LockWidgets(scope))
        let stored = first.append(ReadWidgets(scope))
        let read = try await connection.run(first)

        var lifecycle = try LifecycleFold(stored: read.rows(stored), directory: fold.directory)
        for step in fold.lifecycle { lifecycle.apply(step) }
        let writes = try lifecycle.writes()
        outcome.rejected = fold.rejected + lifecycle.rejected
        outcome.widgets = writes.inserts.count + writes.updates.count

        var second = PostgresPipeline()
        if locksFirst { appendLock(of: fold, writes.placements.map(\.id) + writes.departures, to: &second) }
        let placed = append(writes, to: &second)
        let marks = appendMarks(of: fold, to: &second)
        let failures = settle(outcome.rejected, &second)
        // Last: whoever waits for one of these rows holds nothing that their owner still needs.
        if !writes.placeholders.isEmpty { _ = second.append(RecordPlaceholders(writes.placeholders)) }
        if !second.isEmpty {
            let results = try await connection.run(second)
            outcome.timelines = placed.flatMap { results.rows($0).first }.map { Int($0) } ?? 0
            outcome.due = outcome.timelines
            outcome.failures = failures.map { results.rows($0) } ?? []
            try await finish(marks, results, &outcome, on: connection)
        }
        return outcome
    }

    /// Most trace contexts that are kept of one transaction: the newest.
    private static let maximumTraces = 1_000

    private func appendTraces(of fold: BatchFold, to pipeline: inout PostgresPipeline) {
        guard !fold.traces.isEmpty else { return }
        _ = pipeline.append(InsertEventTraces(Array(fold.traces.suffix(Self.maximumTraces))))
    }

    private func appendBumps(of fold: BatchFold, to pipeline: inout PostgresPipeline) {
        if !fold.appBumps.isEmpty { _ = pipeline.append(BumpApps(Array(fold.appBumps.values))) }
        if !fold.kindBumps.isEmpty { _ = pipeline.append(BumpKinds(Array(fold.kindBumps.values))) }
        // In one order everywhere: equal sweeps of two processes are one row.
        for sweep in fold.sweeps.values.sorted(by: SweepRequest.areInOrder) { _ = pipeline.append(InsertSweep(sweep)) }
    }

    private func append(
        _ writes: LifecycleWrites, to pipeline: inout PostgresPipeline
    ) -> PostgresPipeline.Handle<Int64>? {
        let touched = writes.placements.map(\.id) + writes.departures
        // Locked before anything is looked at: so the last of several removals sees the others, and nothing is
        // collected that is placed here.
        if !touched.isEmpty { _ = pipeline.append(LockTimelines(touched)) }
        let placed = writes.placements.isEmpty ? nil : pipeline.append(PlaceTimelines(writes.placements))
        if !writes.inserts.isEmpty { _ = pipeline.append(InsertWidgets(writes.inserts)) }
        if !writes.updates.isEmpty { _ = pipeline.append(UpdateWidgets(writes.updates)) }
        if !writes.departures.isEmpty { _ = pipeline.append(OrphanTimelines(writes.departures)) }
        return placed
    }

    private func append(_ letters: [DeadLetter], to pipeline: inout PostgresPipeline) {
        for letter in letters { _ = pipeline.append(InsertDeadLetter(letter)) }
    }

    // MARK: Marks

    /// What of a pipeline's answers is of its marks.
    private struct Marks {
        /// To name the audiences that have too many widgets.
        let input: MarkAudiences
        var outcome: PostgresPipeline.Handle<MarkOutcome>?
        /// Instead of the outcome, where the statement also claims.
        var claims: PostgresPipeline.Handle<MarkedClaim>?
        var views: PostgresPipeline.Handle<RecordViews.Outcome>?
        var marked: PostgresPipeline.Handle<MarkedTimeline>?
    }

    /// What the marks, the views and these lifecycle events may lock.
    private func appendLock(of fold: BatchFold, _ ids: [TimelineID] = [], to pipeline: inout PostgresPipeline) {
        let audiences = fold.locked
        guard !ids.isEmpty || !audiences.isEmpty else { return }
        _ = pipeline.append(LockMarked(audiences, ids: ids, limit: audienceLimit))
    }

    private func appendMarks(
        of fold: BatchFold, to pipeline: inout PostgresPipeline, isStrict: Bool = false
    ) -> Marks {
        var marks = Marks(input: fold.marks)
        if !marks.input.isEmpty {
            let input = marks.input.marks
            marks.outcome =
                switch marks.input.onlySort {
                case .user: pipeline.append(MarkUsers(input, limit: audienceLimit, isStrict: isStrict))
                case .device: pipeline.append(MarkDevices(input, limit: audienceLimit, isStrict: isStrict))
                case .widget: pipeline.append(MarkWidgets(input))
                case nil: pipeline.append(MarkTimelines(marks.input, limit: audienceLimit, isStrict: isStrict))
                }
            if recordsDecisions {
                marks.marked = pipeline.append(MarkedTimelines(marks.input, limit: audienceLimit))
            }
        }
        if !fold.views.isEmpty { marks.views = pipeline.append(RecordViews(Array(fold.views.values))) }
        return marks
    }

    /// Marks, and claims what is granted.
    private func appendClaims(
        of fold: BatchFold, to pipeline: inout PostgresPipeline, _ grant: MarkGrant
    ) -> Marks {
        var marks = Marks(input: fold.marks)
        let input = marks.input.marks
        guard !input.isEmpty else { return marks }
        marks.claims =
            switch marks.input.onlySort {
            case .user: pipeline.append(MarkAndClaimUsers(input, limit: audienceLimit, grant: grant))
            case .device: pipeline.append(MarkAndClaimDevices(input, limit: audienceLimit, grant: grant))
            case .widget: pipeline.append(MarkAndClaimWidgets(input, grant: grant))
            case nil: pipeline.append(MarkAndClaimTimelines(marks.input, limit: audienceLimit, grant: grant))
            }
        return marks
    }

    /// Sums what the marks did.
    private func count(_ marks: Marks, _ results: PostgresPipelineResults, _ outcome: inout Outcome) {
        if let views = marks.views, let done = results.rows(views).first { outcome.due += Int(done.woken) }
        if let marked = marks.marked { outcome.marks = results.rows(marked) }
        var done = marks.outcome.flatMap { results.rows($0).first }
        if let claims = marks.claims {
            let rows = results.rows(claims)
            outcome.claimed = rows.compactMap(\.timeline)
            done = rows.first?.outcome
        }
        guard let done else { return }
        outcome.marked += Int(done.marked)
        outcome.due += Int(done.due)
    }

    /// Sums what the marks did, and records the audiences that were too large as sweeps.
    private func finish(
        _ marks: Marks, _ results: PostgresPipelineResults, _ outcome: inout Outcome, on connection: PostgresConnection
    ) async throws {
        count(marks, results, &outcome)
        var sweeps = PostgresPipeline()
        for index in marks.outcome.flatMap({ results.rows($0).first })?.tooMany ?? [] {
            let mark = marks.input.marks[index]
            let target: SweepRequest.Audience
            switch marks.input.sorts[index] {
            case .user: target = .user(mark.audienceID)
            case .device: target = .device(mark.audienceID)
            case .widget: continue
            }
            _ = sweeps.append(
                InsertSweep(
                    SweepRequest(
                        appID: mark.appID, audience: target, kindIDs: mark.kindID.map { [$0] } ?? [],
                        matching: mark.matching, events: mark.events, urgency: mark.urgency, cause: mark.cause,
                        reason: mark.reason)))
            outcome.sweeps += 1
        }
        if !sweeps.isEmpty { _ = try await connection.run(sweeps) }
    }
}
