import KafkaClient
import Logging
import PostgresClient
import WidgetEvents
import WidgetModel
import WidgetStore

/// Plans the schedules of stacks that are due, stores and publishes those that have changed, and has the widgets of
/// suggestions placed and removed. Any number of processes may do it at once.
struct StackPlanning {
    private static let batch = 64
    /// Most changes of timelines that are gathered in one statement.
    private static let changes = 1_000
    static let lease = Duration.seconds(30)
    /// Time after which a store that began before a timeline's relevance was recorded, and noted no change, has ended.
    static let settling = Duration.seconds(60)
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
            let gather = Statements.gatherRelevanceChanges(limit: Self.changes)
            while try await context.pool.query(gather).first == Int64(Self.changes) {}
            while try await pass() == Self.batch {}
            try await context.clock.sleep(for: WorkerClock.jittered(context.configuration.pollInterval))
        }
    }

    /// Plans a batch, and returns the number of due schedules.
    func pass() async throws -> Int {
        let claim = Statements.claimSchedules(limit: Self.batch, lease: Self.lease, unread: Self.patience)
        let due = try await context.pool.query(claim)
        guard !due.isEmpty else { return 0 }
        let directory = try await directory.directory(maximumAge: context.configuration.directoryAge)
        let material = try await StackMaterial.read(
            due.map { ($0.appID, $0.key.user) }, from: context.pool, directory)
        if !material.relevanceWrites.isEmpty {
            _ = try await context.pool.execute(.writeRelevance(material.relevanceWrites))
        }
        let readable = due.filter { material.isReadable(($0.appID, $0.key.user)) }
        reportUnreadable(due.filter { !material.isReadable(($0.appID, $0.key.user)) })
        var results: [Result] = []
        for schedule in readable { results.append(plan(schedule, material)) }
        try await store(results)
        return due.count
    }

    /// Counts and logs schedules of people whose stored state cannot be read. They are due again when their leases end.
    private func reportUnreadable(_ schedules: [DueSchedule]) {
        guard !schedules.isEmpty else { return }
        context.statistics.count { $0.stacksUnreadable += schedules.count }
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
                for: due.key.device, of: person, app: due.key.app, policy: context.configuration.rotation)
            result.plan = planner.plan(due.key, after: due.previous, at: due.claimedAt)
        }
        let plan = result.plan ?? StackPlan(key: due.key, schedule: StackSchedule(), plannedAt: due.claimedAt)
        result.isChanged = due.previous.map { !plan.continues($0) } ?? true
        let stack = material.stacks(of: person).first {
            Text.equal($0.device, due.key.device) && Text.equal($0.name, due.key.stack)
        }
        let members = placed.filter { widget in stack?.widgets.contains { Text.equal($0, widget.widget) } ?? false }
        result.timelines = members.map(\.timeline)
        let isRecorded = members.allSatisfy(\.hasRelevance)
        result.nextLook = isRecorded ? plan.nextLook : min(plan.nextLook, plan.plannedAt + Self.settling)
        let changes = plan.suggestionChanges(
            present: placed.map(\.widget), beside: members.first.map { ($0.family, $0.environment) })
        result.events =
            changes.removed.map { .removed(app: due.key.app, widget: $0) } + changes.placed.map { .placed($0) }
        return result
    }

    // MARK: Effects

    private func store(_ results: [Result]) async throws {
        var revisions: [TimelineID: (revision: Int64, isPublished: Bool)] = [:]
        let writes = results.compactMap { result in result.plan.map { write(result, $0) } }
        if !writes.isEmpty {
            for row in try await context.pool.query(.writeSchedules(writes)) {
                revisions[row.id] = (row.revision, row.isPublished)
            }
        }
        var messages: [KafkaMessage] = []
        // Index of the first message of each schedule, and the number of its messages.
        var sent: [(result: Result, range: Range<Int>)] = []
        for result in results {
            let first = messages.count
            if let plan = result.plan {
                guard let row = revisions[result.due.id] else { continue }
                messages += result.events.map { message($0, plan) }
                if !row.isPublished {
                    let json = result.isChanged ? plan.json : result.due.previous?.json ?? plan.json
                    messages.append(message(result.due.id, json, revision: row.revision))
                }
            } else {
                let plan = StackPlan(key: result.due.key, schedule: StackSchedule(), plannedAt: result.due.claimedAt)
                messages += result.events.map { message($0, plan) }
                messages.append(message(result.due.id, nil, revision: result.due.revision + 1))
            }
            if messages.count > first { sent.append((result, first..<messages.count)) }
        }
        let outcome = await context.output.publish(messages)
        // A message that Kafka refuses for its size would be refused again.
        let done = Set(outcome.acknowledged + outcome.refused.map(\.index))
        let complete = sent.filter { $0.range.allSatisfy(done.contains) }.map(\.result)
        context.statistics.count { counts in
            counts.stacksPlanned += results.count
            counts.stacksPublished += complete.count
        }
        try await finish(complete, revisions.mapValues(\.revision))
    }

    private func write(_ result: Result, _ plan: StackPlan) -> ScheduleWrite {
        ScheduleWrite(
            schedule: result.due,
            changed: result.isChanged ? String(decoding: plan.json.encoded, as: UTF8.self) : nil,
            plannedAt: plan.plannedAt, nextLook: result.events.isEmpty ? result.nextLook : result.due.leaseEnds,
            timelines: result.timelines)
    }

    private func finish(_ results: [Result], _ revisions: [TimelineID: Int64]) async throws {
        let ended = results.filter { $0.plan == nil }.map(\.due)
        let published: [PublishedSchedule] = results.compactMap { result in
            guard result.plan != nil, let revision = revisions[result.due.id] else { return nil }
            return (result.due.id, revision, result.due.leaseEnds, result.nextLook)
        }
        if !ended.isEmpty { _ = try await context.pool.execute(.deleteSchedules(ended)) }
        if !published.isEmpty { _ = try await context.pool.execute(.recordPublished(published)) }
    }

    // MARK: Messages

    /// An event for ingest, ordered by its arrival.
    private func message(_ event: FreshetEvent, _ plan: StackPlan) -> KafkaMessage {
        let encoded = EventEncoder.encode(
            event, id: RandomID.make(), source: Self.source, time: plan.plannedAt, key: plan.key.user)
        let headers = encoded.headers + EventHandling(isOrderedByArrival: true).headers
        return KafkaMessage(
            topic: context.configuration.widgetsTopic, key: encoded.key, value: encoded.value,
            headers: headers.map { KafkaHeader(name: $0.name, value: $0.value) })
    }

    /// A schedule, or its tombstone.
    private func message(_ id: TimelineID, _ json: JSONValue?, revision: Int64) -> KafkaMessage {
        let encoded = StackScheduledEvent.encode(id, revision: revision, schedule: json, source: Self.source)
        return KafkaMessage(
            topic: context.configuration.suggestionsTopic, key: encoded.key, value: encoded.value,
            headers: encoded.headers.map { KafkaHeader(name: $0.name, value: $0.value) })
    }
}
