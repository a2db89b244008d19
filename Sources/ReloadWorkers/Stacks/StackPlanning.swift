// SPDX-License-Identifier: Apache-2.0

import JSON
import KafkaClient
import Logging
import PostgresClient
import Waiting
import WidgetEvents
import WidgetModel
import WidgetStore

/// Plans the schedules of stacks that are due, stores and publishes those that have changed, and has the widgets of
/// suggestions placed and removed. Any number of processes may do it at once.
struct StackPlanning {
    private static let batch = 64
    /// Most changes of timelines that are gathered in one transaction, and most schedules that they make due.
    private static let changes = 200
    private static let changedSchedules = 1_000
    static let lease = Duration.seconds(30)
    /// Time after which a store that began before a timeline's relevance was recorded, and noted no change, has ended.
    static let quietTime = Duration.seconds(60)
    /// Time without a reader after which a schedule is given up.
    static let patience = Duration.seconds(7 * 86_400)
    private static let source = "/freshet/stacks"

    let context: WorkerContext
    let directory: DirectoryCache

    /// Plans until the task is cancelled.
    ///
    /// - Throws: `CancellationError`; an error that is not transient.
    func run() async throws {
        try await context.repeatedly("plan stacks") {
            while true {
                let hasMoreChanges = try await gather()
                let due = try await pass()
                // An app that has used up its part of the claim may have more.
                let apps = Dictionary(grouping: due, by: \.appID).mapValues(\.count)
                let part = Self.batch / max(1, apps.count)
                guard hasMoreChanges || apps.values.contains(where: { $0 >= part }) else { break }
            }
            try await context.clock.sleep(for: context.configuration.pollInterval.jittered)
        }
    }

    /// Records changes of relevance, and makes the stacks due that they are about. Returns whether changes may be left.
    func gather() async throws -> Bool {
        try await WidgetStore(pool: context.pool).gatherRelevanceChanges(
            limit: Self.changes, schedules: Self.changedSchedules)
    }

    /// Plans a batch, and returns the schedules that were due.
    @discardableResult
    func pass() async throws -> [DueSchedule] {
        let claim = Statements.claimSchedules(limit: Self.batch, lease: Self.lease, unread: Self.patience)
        let due = try await context.pool.query(claim)
        guard !due.isEmpty else { return [] }
        let directory = try await directory.directory(maximumAge: context.configuration.directoryAge)
        let material = try await StackMaterial.read(
            due.map { ($0.appID, $0.key.user) }, from: context.pool, directory)
        if !material.relevanceWrites.isEmpty {
            _ = try await context.pool.execute(.writeRelevance(material.relevanceWrites))
        }
        let begun = due.flatMap { schedule in
            material.unrecorded(
                of: schedule.previous, person: (schedule.appID, schedule.key.user), before: schedule.claimedAt)
        }
        // Before the plans that they are in are replaced.
        if !begun.isEmpty { _ = try await context.pool.execute(.recordSuggestions(begun)) }
        let readable = due.filter { material.isReadable(($0.appID, $0.key.user)) }
        reportUnreadable(due.filter { !material.isReadable(($0.appID, $0.key.user)) })
        var results: [Result] = []
        for schedule in readable { results.append(plan(schedule, material)) }
        try await store(results)
        return due
    }

    /// Counts and logs schedules of people whose stored state cannot be read. They are due again when their leases end.
    private func reportUnreadable(_ schedules: [DueSchedule]) {
        guard !schedules.isEmpty else { return }
        context.metrics.stacksUnreadable.increment(by: schedules.count)
        for schedule in schedules {
            context.logger.error(
                "a stack is not planned: the stored state of its person cannot be read",
                metadata: ["app": "\(schedule.key.app)", "schedule": "\(schedule.id)"])
        }
    }

    /// New plan of a schedule, with its effects.
    private struct Result {
        let due: DueSchedule
        /// Nil: the schedule ends.
        var plan: StackPlan?
        var isChanged = false
        /// Whether to notify the device because a suggestion is withdrawn. No content changes then, so nothing else
        /// notifies it.
        var withdraws = false
        var ends: Bool { plan == nil }
        var nextLook = Timestamp.distantFuture
        var timelines: [Int64] = []
        /// Events that have the widgets of suggestions placed and removed.
        var events: [FreshetEvent] = []
    }

    // MARK: Plans

    private func plan(_ due: DueSchedule, _ material: StackMaterial) -> Result {
        let person = (due.appID, due.key.user)
        let placed = material.placed(on: due.key.device, of: person)
        var result = Result(due: due)
        if !due.isUnread {
            let planner = material.planner(
                for: due.key.device, of: person, app: due.key.app, policy: context.configuration.rotation,
                at: due.claimedAt)
            result.plan = planner.plan(due.key, after: due.previous, at: due.claimedAt)
        }
        let plan = result.plan ?? StackPlan(key: due.key, schedule: StackSchedule(), plannedAt: due.claimedAt)
        result.isChanged = due.previous.map { !plan.continues($0) } ?? true
        result.withdraws = due.previous.map { plan.withdraws(from: $0) } ?? false
        let stack = material.stacks(of: person).first {
            Text.equal($0.device, due.key.device) && Text.equal($0.name, due.key.stack)
        }
        // The first one has the family of suggestions.
        let members = (stack?.widgets ?? []).compactMap { id in placed.first { Text.equal($0.widget, id) } }
        if !result.ends {
            let shown = members + placed.filter { plan.isSuggestion(widget: $0.widget) }
            result.timelines = Array(Set(shown.map(\.timeline))).sorted()
            let isRecorded = shown.allSatisfy(\.stored.isRecorded)
            result.nextLook = isRecorded ? plan.nextLook : min(plan.nextLook, plan.plannedAt + Self.quietTime)
        }
        let changes = plan.suggestionChanges(
            present: placed.map(\.widget), beside: members.first.map { ($0.family, $0.environment) })
        result.events =
            changes.removed.map { FreshetEvent(app: due.key.app, .widget(.removed(widget: $0))) }
            + changes.placed.map(FreshetEvent.init)
        return result
    }

    // MARK: Effects

    private func store(_ results: [Result]) async throws {
        guard !results.isEmpty else { return }
        var pipeline = PostgresPipeline()
        let written = pipeline.append(.writeSchedules(results.map(write)))
        let withdrawn = results.filter(\.withdraws).map { ($0.due.appID, $0.due.key) }
        if !withdrawn.isEmpty { _ = pipeline.append(.notifyDevices(of: withdrawn)) }
        let rows = Dictionary(try await context.pool.run(pipeline).rows(written).map { ($0.id, $0) }) { $1 }
        let missed = results.filter { rows[$0.due.id] == nil }.map { ($0.due.id, $0.due.revision, $0.due.leaseEnds) }
        if !missed.isEmpty { _ = try await context.pool.execute(.releaseSchedules(missed)) }
        var messages: [KafkaMessage] = []
        // Index of the first message of each schedule, and the number of its messages.
        var sent: [(result: Result, revision: Int64, range: Range<Int>)] = []
        for result in results {
            guard let row = rows[result.due.id] else { continue }
            let first = messages.count
            let key = result.due.key
            let plan = result.plan ?? StackPlan(key: key, schedule: StackSchedule(), plannedAt: result.due.claimedAt)
            messages += result.events.map { message($0, plan) }
            if !row.isPublished {
                let json = result.isChanged ? result.plan?.json : result.due.previous?.json ?? plan.json
                messages.append(message(result.due.id, json, revision: row.revision))
            }
            if messages.count > first { sent.append((result, row.revision, first..<messages.count)) }
        }
        let outcome = await context.output.publish(messages)
        // A message that Kafka refuses for its size would be refused again.
        let done = Set(outcome.acknowledged + outcome.refused.map(\.index))
        let complete = sent.filter { $0.range.allSatisfy(done.contains) }
        context.metrics.stacksPlanned.increment(by: results.count)
        context.metrics.stacksPublished.increment(by: complete.count)
        try await finish(
            complete.map { ($0.result.due, $0.revision) }, ended: Set(results.lazy.filter(\.ends).map(\.due.id)))
    }

    private func write(_ result: Result) -> ScheduleWrite {
        let json = result.isChanged ? result.plan?.json : nil
        return ScheduleWrite(
            schedule: result.due, changed: json.map { String(decoding: $0.encoded, as: UTF8.self) },
            ends: result.ends, plannedAt: result.due.claimedAt, nextLook: result.nextLook, timelines: result.timelines,
            suggests: result.plan?.schedule.insertions.isEmpty == false, hasEvents: !result.events.isEmpty)
    }

    private func finish(_ published: [(due: DueSchedule, revision: Int64)], ended: Set<TimelineID>) async throws {
        guard !published.isEmpty else { return }
        let record = Statements.recordPublished(published.map { ($0.due.id, $0.revision, $0.due.leaseEnds) })
        let present = Set(try await context.pool.query(record))
        let ids = published.map(\.due.id).filter { present.contains($0) && ended.contains($0) }
        if !ids.isEmpty {
            let people = try await context.pool.query(.deleteSchedules(ids))
            _ = try await context.pool.query(.replanStacks(of: people))
        }
        // This process was so late that another one has published the tombstone meanwhile, perhaps before the message.
        let late = published.filter { !present.contains($0.due.id) }
        if !late.isEmpty {
            _ = await context.output.publish(late.map { message($0.due.id, nil, revision: $0.revision + 1) })
        }
    }

    // MARK: Messages

    /// An event for ingest, ordered by its arrival.
    private func message(_ event: FreshetEvent, _ plan: StackPlan) -> KafkaMessage {
        var encoded = event.encode(
            id: String.randomID(), source: Self.source, time: plan.plannedAt, key: plan.key.user)
        encoded.append(headers: EventHandling(isOrderedByArrival: true).headers)
        return KafkaMessage(encoded, topic: context.configuration.widgetsTopic)
    }

    /// A schedule, or its tombstone. The revision rises with each schedule of the stack.
    private func message(_ id: TimelineID, _ json: JSONValue?, revision: Int64) -> KafkaMessage {
        let value = json.map { schedule in
            JSONWriter.object(capacity: 1_024) { members in
                members.appendMembers(of: schedule.encoded)
                members.append("revision", revision)
            }
        }
        return KafkaMessage(
            EncodedEvent(EncodedEvent.stackScheduled, of: id, revision: revision, source: Self.source, value: value),
            topic: context.configuration.suggestionsTopic)
    }
}
