// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import WidgetEvents
import WidgetModel
import WidgetStore

/// Applies a folded batch in one transaction, the consumer positions included (DESIGN.md, “Ingest”).
///
/// Existing timelines are written by one statement of the transaction, in id order
/// (``PostgresStatement/markUsers`` or ``PostgresStatement/markTimelines``).
struct BatchApplier: Sendable {
    /// Effects of a committed batch.
    struct Outcome: Sendable {
        var marked = 0
        /// Appended lists that are ready and not handed over to workers.
        var lists = 0
        /// Recorded or raised sweeps.
        var sweeps = 0
        var rejected: [RejectedEvent] = []
        /// Lifecycle events without effect.
        var ignored: [IgnoredEvent] = []
        /// Marked timelines, if decisions are recorded.
        var marks: [MarkedTimeline] = []
        /// Failures within the current window, for the apps with failures in the batch.
        var failures: [FailureCount] = []
        /// Lists that were appended with a lease for this process; nil for none.
        var claim: Claim?
        /// New widgets whose providers are to be asked for dynamic defaults.
        var undecided: [UndecidedWidget] = []
    }

    /// Makes the outcomes to be stored from the ignored and the rejected events.
    typealias Outcomes = @Sendable ([IgnoredEvent], [RejectedEvent]) -> [EventOutcome]

    let pool: PostgresPool
    let audienceLimit: Int
    /// Whether the outcome names every marked timeline.
    var recordsDecisions = false
    var limits = DeadLetterLimits()
    /// Delay of a new widget's timeline while its provider is asked for dynamic defaults. Nil if the definition's
    /// defaults apply.
    var defaultsPatience: Duration?
    /// Keys that seal the tokens of registered devices. If nil, registrations with tokens are rejected.
    var tokenKeys: DeviceTokenKeys?
    var registrations = RegistrationRules()

    /// Applies a batch and moves the positions.
    ///
    /// - Parameters:
    ///   - handOver: capacity of this process's workers, for a plain batch.
    ///   - failures: counts the rejected events by app.
    ///   - outcomes: makes the outcomes to be stored.
    ///   - deadLetter: makes the dead letter of a rejected event.
    /// - Throws: `PostgresError`, ``ApplyFailure``.
    func apply(
        _ fold: BatchFold, advancing advances: [PositionAdvance], handOver: HandOver? = nil,
        failures: @Sendable ([RejectedEvent]) -> [FailureCount] = { _ in [] },
        outcomes: @escaping Outcomes = { _, _ in [] },
        deadLetter: @Sendable (RejectedEvent) -> DeadLetter
    ) async throws -> Outcome {
        var first = PostgresPipeline()
        let apps = AppliedApps(all: Array(fold.events.keys), diverted: fold.divertedAppsOfBatch)
        _ = first.append(.advancePositions(advances, applying: apps))
        appendTraces(of: fold, to: &first)
        if fold.isPlain {
            do {
                return try await applyAtOnce(fold, behind: first, outcomes([], []), handOver, asUsers: fold.isOfUsers)
            } catch let error as PostgresError where error.findsTooManyWidgets {
                return try await applyAtOnce(fold, behind: first, outcomes([], []), handOver, asUsers: false)
            }
        }
        let pipeline = first
        return try await pool.withTransaction { connection in
            let outcome = try await write(fold, behind: pipeline, on: connection, outcomes) { rejected, pipeline in
                for event in fold.diverted + rejected { _ = pipeline.append(.insertDeadLetter(deadLetter(event))) }
                let counts = failures(rejected)
                return counts.isEmpty ? nil : pipeline.append(.countFailures(counts, limits: limits))
            }
            try await halt(after: outcome, deadLetter, on: connection)
            return outcome
        }
    }

    /// Applies a plain batch in one round trip, COMMIT included.
    ///
    /// - Parameter asUsers: whether to use the statement for marks of users only, which fails if one of them has too
    ///   many widgets.
    private func applyAtOnce(
        _ fold: BatchFold, behind first: PostgresPipeline, _ outcomes: [EventOutcome], _ handOver: HandOver?,
        asUsers: Bool
    ) async throws -> Outcome {
        var (pipeline, outcome) = (first, Outcome())
        appendReloadsOfEveryone(fold, to: &pipeline, &outcome)
        var input = MarkInput()
        (input.marks, input.views) = (fold.marks, fold.views)
        var marks: PostgresPipeline.Handle<MarkRow>?
        if asUsers, !input.isEmpty {
            marks = pipeline.append(
                .markUsers(input.marks, limit: audienceLimit, handOver: handOver, reports: recordsDecisions))
        } else if !input.isEmpty {
            marks = pipeline.append(
                .markTimelines(input, limit: audienceLimit, handOver: handOver, reports: recordsDecisions))
        }
        appendOutcomes(outcomes, to: &pipeline)
        let results = try await pool.run(pipeline, commits: true)
        count(marks, results, &outcome)
        if let marks, handOver != nil {
            outcome.claim = Claim(handedOver: results.rows(marks).compactMap(\.timeline))
            outcome.lists -= outcome.claim?.lists.count ?? 0
        }
        return outcome
    }

    /// Halts the topics on which the batch exceeds a limit, in the batch's transaction.
    private func halt(
        after outcome: Outcome, _ deadLetter: (RejectedEvent) -> DeadLetter, on connection: PostgresConnection
    ) async throws {
        let nameless = Set(outcome.failures.filter { $0.isOver && $0.appID == FailureCount.nameless }.map(\.topic))
        let topics = nameless.union(outcome.failures.filter(\.isDiverted).map(\.topic))
        guard !topics.isEmpty else { return }
        var pipeline = PostgresPipeline()
        for topic in topics.sorted() {
            let last = outcome.rejected.reversed().lazy.map(deadLetter).first { $0.topic == topic }
            let detail = last.map { "the last: \($0.code): \($0.error), at \($0.partition)@\($0.offset)" } ?? ""
            _ = pipeline.append(.lockTopicState(topic: topic))
            if nameless.contains(topic) {
                _ = pipeline.append(.haltTopic(topic: topic, cause: .nameless, detail: detail))
            } else {
                _ = pipeline.append(.haltForApps(topic: topic, limits: limits, detail: detail))
            }
        }
        _ = try await connection.run(pipeline)
    }

    /// Writes a fold in the caller's transaction.
    ///
    /// - Parameters:
    ///   - pipeline: statements to run first, in the same round trip.
    ///   - outcomes: makes the outcomes to be stored.
    ///   - rejected: appends the statements for the rejected events once all of them are known.
    /// - Throws: `PostgresError`, ``ApplyFailure``.
    func write(
        _ fold: BatchFold, behind pipeline: PostgresPipeline, on connection: PostgresConnection,
        _ outcomes: Outcomes,
        rejected: ([RejectedEvent], inout PostgresPipeline) -> PostgresPipeline.Handle<FailureCount>?
    ) async throws -> Outcome {
        var (last, outcome) = (pipeline, Outcome())
        appendReloadsOfEveryone(fold, to: &last, &outcome)
        outcome.rejected = fold.rejected
        var people = try await lockPeople(of: fold, behind: &last, on: connection)
        let devices = try await readDevices(of: fold, behind: &last, on: connection)
        outcome.rejected += devices.rejected
        outcome.ignored += devices.ignored
        let lifecycle = try await applyChanges(of: fold, to: &people, behind: &last, on: connection)
        outcome.rejected += people.rejected
        outcome.ignored += people.ignored
        if !people.writes.isEmpty { _ = last.append(.writePeople(people.writes)) }
        var (input, writes) = (MarkInput(), LifecycleWrites())
        (input.marks, input.views) = (fold.marks, fold.views)
        if let lifecycle {
            writes = try lifecycle.writes(awaitingDefaults: defaultsPatience)
            outcome.undecided = writes.undecided
            outcome.rejected += lifecycle.rejected
            outcome.ignored += lifecycle.ignored
            input.views += lifecycle.views
            try await place(writes, on: connection, followedBy: &last, &input, &outcome)
            input.departed = writes.departures
        }
        let marks =
            input.isEmpty
            ? nil : last.append(.markTimelines(input, limit: audienceLimit, handOver: nil, reports: recordsDecisions))
        let orphaned = input.departed.isEmpty ? nil : last.append(.orphanTimelines(input.departed))
        var timelines: PostgresPipelineResults?
        if let written = appendRegistrations(of: devices, to: &last) {
            let results = try await connection.run(last)
            outcome.ignored += devices.older(written: results.rows(written))
            (timelines, last) = (results, PostgresPipeline())
        }
        let failures = rejected(outcome.rejected, &last)
        appendOutcomes(outcomes(outcome.ignored, outcome.rejected), to: &last)
        // Appended last, so that a transaction that waits for one of these rows holds no lock that the rows' owner
        // still needs.
        if !writes.placeholders.isEmpty { _ = last.append(.recordPlaceholders(writes.placeholders)) }
        let results = last.isEmpty ? nil : try await connection.run(last)
        if let timelines = timelines ?? results {
            count(marks, timelines, &outcome)
            outcome.lists += orphaned.flatMap { timelines.rows($0).first }.map { Int($0) } ?? 0
        }
        outcome.failures = failures.flatMap { results?.rows($0) } ?? []
        return outcome
    }

    /// Appends outcomes after the marks in every transaction, so that all transactions take these locks in one order.
    private func appendOutcomes(_ outcomes: [EventOutcome], to pipeline: inout PostgresPipeline) {
        if !outcomes.isEmpty { _ = pipeline.append(.insertEventOutcomes(outcomes)) }
    }

    /// Largest number of trace contexts that are kept from one transaction, the newest ones.
    private static let maximumTraces = 1_000

    private func appendTraces(of fold: BatchFold, to pipeline: inout PostgresPipeline) {
        guard !fold.traces.isEmpty else { return }
        _ = pipeline.append(.insertEventTraces(Array(fold.traces.suffix(Self.maximumTraces))))
    }

    private func appendReloadsOfEveryone(
        _ fold: BatchFold, to pipeline: inout PostgresPipeline, _ outcome: inout Outcome
    ) {
        let (bumps, sweeps) = (fold.bumps, fold.sweeps)
        if !bumps.isEmpty { _ = pipeline.append(.bumpKinds(bumps)) }
        if !sweeps.isEmpty { _ = pipeline.append(.recordSweep(sweeps)) }
        outcome.sweeps = bumps.count + sweeps.count
    }

    // MARK: People

    /// Locks and reads the people of the batch and the owners of widgets that it removes, before any widget.
    private func lockPeople(
        of fold: BatchFold, behind pipeline: inout PostgresPipeline, on connection: PostgresConnection
    ) async throws -> PersonFold {
        let removed = fold.changes.compactMap(\.removedWidget)
        var people = PersonFold(of: fold.directory)
        var needed = PersonFold.needed(fold.changes)
        guard !needed.isEmpty || !removed.isEmpty else { return people }
        if !needed.isEmpty { _ = pipeline.append(.createPeople(needed)) }
        if !removed.isEmpty {
            let owners = pipeline.append(.ownersOfWidgets(removed))
            needed = PersonFold.with(
                needed, rowsOf: try await connection.run(pipeline).rows(owners) + fold.changes.compactMap(\.newOwner))
            pipeline = PostgresPipeline()
        }
        let stored = pipeline.append(.readPeople(needed))
        let clock = pipeline.append(.databaseTime())
        let results = try await connection.run(pipeline)
        pipeline = PostgresPipeline()
        people.now = results.rows(clock).first ?? .distantFuture
        people.add(needed, stored: results.rows(stored))
        return people
    }

    // MARK: Devices

    /// Folds the registrations of the batch onto the devices that are registered.
    private func readDevices(
        of fold: BatchFold, behind pipeline: inout PostgresPipeline, on connection: PostgresConnection
    ) async throws -> DeviceFold {
        var (registered, now) = ([RegisteredDevice](), Timestamp.distantFuture)
        let users = DeviceFold.users(of: fold.changes)
        if !users.isEmpty {
            let clock = pipeline.append(.databaseTime())
            let stored = pipeline.append(.registeredDevices(of: users))
            let results = try await connection.run(pipeline)
            pipeline = PostgresPipeline()
            (registered, now) = (results.rows(stored), results.rows(clock).first ?? .distantFuture)
        }
        return DeviceFold(fold.changes, registered: registered, now: now, sealing: tokenKeys, rules: registrations)
    }

    /// Appends the writes of registrations, behind the marks: a change of a shared timeline is locked by a store that
    /// holds the timeline, and by a walk that needs the registrations.
    private func appendRegistrations(
        of devices: DeviceFold, to pipeline: inout PostgresPipeline
    ) -> PostgresPipeline.Handle<RegisteredDevice>? {
        let writes = devices.writes
        guard !writes.isEmpty else { return nil }
        _ = pipeline.append(.lockTokens(of: writes))
        let written = pipeline.append(.writeRegistrations(writes))
        _ = pipeline.append(.releaseTokens(of: writes))
        return written
    }

    // MARK: Widgets

    /// Locks and reads the widgets of the batch, and applies its events to widgets and people in log order: a turn
    /// counts for what the widget shows then, and a widget that is removed, or given to another user, leaves its stack.
    ///
    /// - Returns: the widgets; nil without any.
    private func applyChanges(
        of fold: BatchFold, to people: inout PersonFold, behind pipeline: inout PostgresPipeline,
        on connection: PostgresConnection
    ) async throws -> LifecycleFold? {
        var lifecycle: LifecycleFold?
        let needed = LifecycleFold.needed(fold)
        if !needed.widgets.isEmpty || !needed.devices.isEmpty {
            let scope = WidgetScope(
                widgets: needed.widgets, devices: needed.devices, deviceLimit: LifecycleFold.deviceLimit + 1)
            _ = pipeline.append(.lockWidgets(scope))
            let stored = pipeline.append(.readWidgets(scope))
            let clock = pipeline.append(.databaseTime())
            let results = try await connection.run(pipeline)
            pipeline = PostgresPipeline()
            people.now = results.rows(clock).first ?? .distantFuture
            lifecycle = try LifecycleFold(
                stored: results.rows(stored), directory: fold.directory, now: people.now)
        }
        for event in fold.changes {
            people.apply(event, turnedTo: lifecycle?.content(turnedToBy: event))
            if let departure = lifecycle?.apply(event) { people.apply(departure) }
            if case .widget(.placed(let placement)) = event.change { people.note(placement, appID: event.app.id) }
        }
        if let (widget, defaults) = fold.defaults { lifecycle?.complete(widget, with: defaults) }
        // Former owners are known only now. Their rows are locked behind those of widgets, against the order: such a
        // batch may meet a deadlock, and is applied again then.
        let missing = people.missing
        if !missing.isEmpty { people.add(missing, stored: try await connection.query(.readPeople(missing))) }
        return lifecycle
    }

    /// Inserts new timelines, protects existing ones from removal, and appends the statements that write the widgets.
    private func place(
        _ writes: LifecycleWrites, on connection: PostgresConnection, followedBy last: inout PostgresPipeline,
        _ input: inout MarkInput, _ outcome: inout Outcome
    ) async throws {
        let placed = try await connection.place(writes.placements)
        outcome.lists += placed.inserted
        input.revived = placed.stale
        let stale = Set(placed.stale)
        for placement in writes.placements {
            guard let cause = placement.cause, let row = placed.rows[placement.id], stale.contains(row),
                input.revival?.cause.precedes(cause) ?? true
            else { continue }
            input.revival = (cause, placement.reason)
        }
        func resolved(_ widget: LifecycleWrites.Widget) -> WidgetWrite {
            var write = widget.write
            if let timeline = widget.timeline { write.timelineID = placed.rows[timeline] }
            return write
        }
        let inserts = writes.inserts.map(resolved)
        let updates = writes.updates.map(resolved)
        if !inserts.isEmpty { _ = last.append(.insertWidgets(inserts)) }
        if !updates.isEmpty { _ = last.append(.updateWidgets(updates)) }
        let changed = inserts + updates
        if !changed.isEmpty { _ = last.append(.replanStacks(of: changed.map { ($0.appID, $0.user) })) }
    }

    // MARK: Marks

    private func count(
        _ marks: PostgresPipeline.Handle<MarkRow>?, _ results: PostgresPipelineResults, _ outcome: inout Outcome
    ) {
        guard let marks, let first = results.rows(marks).first else { return }
        outcome.marked = Int(first.marked)
        outcome.lists += Int(first.due)
        outcome.sweeps += Int(first.swept)
        if recordsDecisions { outcome.marks = results.rows(marks).compactMap(\.timeline) }
    }
}

extension FoldedChange {
    /// The widget that the event removes.
    fileprivate var removedWidget: WidgetScope.Name? {
        if case .widget(.removed(let widget)) = change { (app.id, widget) } else { nil }
    }

    /// The owner of the widget that the event places.
    fileprivate var newOwner: PersonKey? {
        if case .widget(.placed(let placement)) = change { PersonKey(appID: app.id, user: placement.user) } else { nil }
    }
}
