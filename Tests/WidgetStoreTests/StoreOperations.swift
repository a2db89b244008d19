// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

/// Steps of ingest and workers, one or two statements each, for tests that control their order.
extension TestStore {
    func kind(_ name: String = "Purchases", app: String = TestKinds.app) async throws -> RegisteredKind {
        let kinds = try await pool.query(.listKinds(app: app)).readable
        return try #require(kinds.first { $0.definition.name == name })
    }

    func mark(
        _ audience: TimelineMark.Audience, _ id: String, kind: String? = nil, matching: String? = nil,
        events: Int64 = 1,
        urgency: RequestUrgency = .budgeted, lane: ReloadLane = .push, offset: Int64 = 1, app: String = TestKinds.app
    ) async throws -> TimelineMark {
        let any = try await self.kind(app: app)
        var kindID: Int32?
        if let kind { kindID = try await self.kind(kind, app: app).id }
        return TimelineMark(
            audience: audience, appID: any.appID, audienceID: id, kindID: kindID, matching: matching, events: events,
            urgency: urgency, lane: lane, cause: EventPosition(topic: 0, partition: 1, offset: offset),
            reason: urgency == .budgeted ? .push : urgency == .free ? .foreground : .operator)
    }

    /// Marks timelines and returns the first row.
    @discardableResult
    func apply(_ marks: [TimelineMark], limit: Int = 100) async throws -> MarkRow {
        var input = MarkInput()
        input.marks = marks
        return try #require(try await pool.query(.markTimelines(input, limit: limit)).first)
    }

    @discardableResult
    func view(_ widget: String, at times: [Timestamp]) async throws -> MarkRow {
        let appID = try await kind().appID
        var input = MarkInput()
        input.views = times.map { (appID: appID, widget: widget, time: $0) }
        return try #require(try await pool.query(.markTimelines(input, limit: 100)).first)
    }

    /// Claims lists of all kinds in a lane.
    func claim(_ lane: ReloadLane, lists: Int = 100, lease: Duration = .seconds(600)) async throws -> [LeasedList] {
        let requests = try await directory().kinds.keys.sorted().map {
            ClaimRequest(KindLane(kindID: $0, lane: lane), lists: lists)
        }
        return Claim(try await pool.query(.claimLists(requests, lease: lease)))?.lists ?? []
    }

    /// Claims all lists that are ready.
    func claimAll() async throws -> [LeasedList] {
        var lists: [LeasedList] = []
        for lane in ReloadLane.allCases { lists += try await claim(lane) }
        return lists
    }

    /// The timelines of a list, as a worker has them under way.
    func jobs(_ list: LeasedList, token: Int64? = nil) async throws -> [TimelineJob] {
        let known = try await directory()
        let kind = try #require(known.kinds[list.kindID])
        let claim = ListClaim(
            list, app: try #require(known.apps[kind.app]), kind: kind, token: token ?? list.lease, startedAt: .zero,
            leaseEnds: .zero)
        return list.timelines.map { TimelineJob($0, of: claim) }
    }

    /// Stores fetched content for each timeline of a list.
    @discardableResult
    func complete(
        _ list: LeasedList, content: String? = "{}", hash: UInt64 = 1, token: Int64? = nil,
        eligibleAt: Timestamp = .distantPast, freeAt: Timestamp = .distantPast, policyAt: Timestamp = .distantFuture
    ) async throws -> [WrittenTimeline] {
        var jobs = try await jobs(list, token: token)
        for index in jobs.indices {
            jobs[index].content = content.map { Array($0.utf8) }
            jobs[index].hash = ContentHash(high: 0, low: hash)
            jobs[index].next = ReloadRules.Next(eligibleAt: eligibleAt, freeAt: freeAt, policyAt: policyAt)
            jobs[index].rule = .first
            jobs[index].fetchTime = .milliseconds(5)
        }
        return try await pool.query(.storeTimelines(jobs))
    }

    /// Reschedules the timelines of a list.
    @discardableResult
    func finish(_ list: LeasedList, _ outcome: LookOutcome) async throws -> [WrittenTimeline] {
        var jobs = try await jobs(list)
        for index in jobs.indices { jobs[index].outcome = outcome }
        return try await pool.query(.rescheduleTimelines(jobs))
    }

    /// Records failed fetches of the timelines of a list.
    @discardableResult
    func fail(_ list: LeasedList, retryAt: Timestamp) async throws -> [WrittenTimeline] {
        var jobs = try await jobs(list)
        for index in jobs.indices {
            jobs[index].failure = ProviderFailure(.status, "answered with status 503")
            jobs[index].retryAt = retryAt
        }
        return try await pool.query(.rescheduleTimelines(jobs))
    }

    @discardableResult
    func end(_ list: LeasedList, isCompared: Bool = true) async throws -> ListEndOutcome? {
        let ends = [(hold: list.hold, isCompared: isCompared)]
        return try await pool.query(.endLists(ends, worker: 1)).first?.outcome
    }

    /// Removes widgets as ingest does.
    func remove(_ widgets: [String], on connection: PostgresConnection) async throws {
        let appID = try await kind().appID
        let scope = WidgetScope(widgets: widgets.map { (appID: appID, id: $0) })
        _ = try await connection.query(.lockWidgets(scope))
        let stored = try await connection.query(.readWidgets(scope))
        _ = try await connection.query(
            .updateWidgets(
                stored.map {
                    WidgetWrite(
                        appID: $0.appID, id: $0.id, kindID: $0.kindID, family: $0.family ?? .systemSmall,
                        timelineID: nil,
                        user: $0.user,
                        device: $0.device, environment: $0.environment, changedAt: Timestamp(microseconds: 9))
                }))
        var input = MarkInput()
        input.departed = Array(Set(stored.compactMap(\.timeline?.row)))
        var pipeline = PostgresPipeline()
        _ = pipeline.append(.markTimelines(input, limit: 100))
        _ = pipeline.append(.orphanTimelines(input.departed))
        _ = try await connection.run(pipeline)
    }

    func remove(_ widgets: [String]) async throws {
        try await pool.withTransaction { try await remove(widgets, on: $0) }
    }

    /// Assigns revisions for the tombstones of a list's orphans.
    func bury(_ list: LeasedList) async throws -> [TimelineRevision] {
        try await pool.query(.buryOrphans(list.timelines.map(\.row)))
    }

    /// Collects the orphans of a list and returns the rows that stay.
    @discardableResult
    func collect(_ list: LeasedList) async throws -> [Int64] {
        let orphans = try await bury(list)
        return try await pool.withTransaction { connection in
            let rows = try await connection.query(.lockOrphans(orphans))
            return try await connection.query(.collectTimelines(rows))
        }
    }

    func lists(_ condition: String = "true") async throws -> Int {
        try await integer("SELECT count(*) FROM work WHERE \(condition)")
    }

    /// Waits for the next hour if less than a minute is left of the database's, so that a test stays within one hour
    /// and day in UTC.
    func stayWithinHour() async throws {
        try await eventually("the next hour begins", every: .milliseconds(200)) {
            try await integer("SELECT extract(minute FROM now() AT TIME ZONE 'UTC')::bigint") < 59
        }
    }

    /// The database's time.
    func now() async throws -> Timestamp {
        Timestamp(
            microseconds: Int64(try await integer("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")))
    }
}

/// Changes of kinds and moves of their widgets.
extension TestStore {
    /// Applies a change of a kind and returns the kind's row ID.
    func change(_ kind: String = "Purchases", _ change: (inout KindDefinition) -> Void) async throws -> Int32 {
        try await apply(try await changing(kind, change))
        let directory = try await directory()
        return try #require(directory.apps[TestKinds.app].flatMap { directory.kind(kind, of: $0) }).id
    }

    /// Moves widgets until no work is due.
    func moveAll(_ kindID: Int32, limit: Int = 100, grace: Duration = .zero) async throws {
        var chunks = 0
        while try await store.changeChunk(kindID: kindID, limit: limit, grace: grace) != nil {
            chunks += 1
            try #require(chunks < 1_000, "it ends")
        }
    }

    /// Number of moves under way.
    func moves() async throws -> Int { try await integer("SELECT count(*) FROM kind_change WHERE NOT retires") }

    /// Returns the timeline that a widget shows.
    func shown(_ widget: String) async throws -> TimelineDetail {
        let id = try #require(try await self.widget(widget)?.timelineID)
        return try #require(try await timeline(id))
    }
}

/// The appointments of all timelines.
struct ListedAt: PostgresStatement {
    let sql = "SELECT listed_at FROM timeline"
    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Timestamp { try row.value("listed_at") }
}
