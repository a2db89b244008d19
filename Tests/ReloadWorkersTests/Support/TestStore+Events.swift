// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import WidgetModel
import WidgetStore

/// Requests, views and shifts in time.
extension TestStore {
    static let cause = EventPosition(topic: 0, partition: 3, offset: 42)

    /// Requests a reload of a user's timelines.
    func markUser(
        _ user: String, app: String = TestKinds.app, kind: String? = nil, events: Int64 = 1, isFree: Bool = true,
        lane: ReloadLane = .push
    ) async throws {
        try await mark(user, app: app, kind: kind, events: events, reason: isFree ? .foreground : .push, lane: lane)
    }

    /// Requests a reload of a user's timelines for a reason.
    func mark(
        _ user: String, app: String = TestKinds.app, kind: String? = nil, events: Int64 = 1, reason: ReloadReason,
        lane: ReloadLane? = nil
    ) async throws {
        let directory = try await directory()
        guard let app = directory.apps[app] else { return }
        var input = MarkInput()
        input.marks = [
            TimelineMark(
                audience: .user, appID: app.id, audienceID: user,
                kindID: kind.flatMap { directory.kind($0, of: app)?.id }, matching: nil, events: events,
                urgency: reason.urgency, lane: lane ?? reason.lane, cause: Self.cause, reason: reason)
        ]
        _ = try await pool.query(.markTimelines(input, limit: 1_000))
    }

    func kindID(_ kind: String, app: String = TestKinds.app) async throws -> Int32 {
        let directory = try await directory()
        return directory.apps[app].flatMap { directory.kind(kind, of: $0)?.id } ?? -1
    }

    /// Requests a reload of everyone, one kind.
    func bumpKind(_ kind: String, isFree: Bool = true) async throws {
        let directory = try await directory()
        guard let app = directory.apps[TestKinds.app] else { return }
        try await bump(appID: app.id, kindID: try await kindID(kind), isFree ? .foreground : .push)
    }

    /// Requests a reload of everyone, all kinds of the app.
    func bumpApp(_ app: String = TestKinds.app) async throws {
        guard let app = try await directory().apps[app] else { return }
        try await bump(appID: app.id, kindID: nil, .foreground)
    }

    private func bump(appID: Int32, kindID: Int32?, _ reason: ReloadReason) async throws {
        let bump = EveryoneReload(
            appID: appID, kindID: kindID, events: 1, urgency: reason.urgency, cause: Self.cause, reason: reason)
        _ = try await pool.query(.bumpKinds([bump]))
    }

    /// Records a view of a widget.
    func view(_ widget: String, app: String = TestKinds.app, at time: Timestamp) async throws {
        guard let app = try await directory().apps[app] else { return }
        var input = MarkInput()
        input.views = [(appID: app.id, widget: widget, time: time)]
        _ = try await pool.query(.markTimelines(input, limit: 1_000))
    }

    /// Removes widgets as ingest does: timelines that no widget shows wait for their collection.
    func removeWidgets(showing id: TimelineID) async throws {
        guard let row = try await row(of: id) else { return }
        try await sql("UPDATE widget SET timeline_id = NULL WHERE timeline_id = \(row)")
        var marks = MarkInput()
        marks.departed = [row]
        var pipeline = PostgresPipeline()
        _ = pipeline.append(.markTimelines(marks, limit: 0))
        _ = pipeline.append(.orphanTimelines([row]))
        _ = try await pool.run(pipeline, commits: true)
    }

    /// Moves all times of timelines and lists into the past, as if this much time had passed.
    func passTime(_ seconds: Int) async throws {
        try await sql(
            """
            UPDATE work SET due_at = due_at - interval '\(seconds) s', ready_at = ready_at - interval '\(seconds) s';
            UPDATE timeline SET listed_at = listed_at - interval '\(seconds) s',
                retry_at = retry_at - interval '\(seconds) s', eligible_at = eligible_at - interval '\(seconds) s',
                free_at = free_at - interval '\(seconds) s', policy_at = policy_at - interval '\(seconds) s',
                requested_at = requested_at - interval '\(seconds) s',
                rendered_at = rendered_at - interval '\(seconds) s'
            """)
    }

    func detail(_ id: TimelineID) async throws -> TimelineDetail {
        guard let detail = try await timeline(id) else { throw NoTimeline(id: id) }
        return detail
    }

    struct NoTimeline: Error {
        let id: TimelineID
    }

    /// Whether a worker holds the timeline's list.
    func isLeased(_ id: TimelineID) async throws -> Bool {
        try await integer(
            """
            SELECT count(*) FROM timeline t JOIN work w ON w.kind_id = t.kind_id AND t.id = ANY (w.timelines)
            WHERE t.identity = '\(id)' AND w.lease IS NOT NULL AND w.ready_at > now()
            """) > 0
    }

    func rule(of id: TimelineID) async throws -> ReloadRule? {
        ReloadRule(rawValue: Int16(try await integer("SELECT decision_rule FROM timeline WHERE identity = '\(id)'")))
    }

    /// Number of timelines with a request newer than the stored content.
    func stale() async throws -> Int {
        try await integer(
            """
            SELECT count(*) FROM timeline t JOIN kind k ON k.id = t.kind_id
            WHERE t.requested > t.rendered OR k.generation > t.generation AND k.generation > k.cancelled_generation
            """)
    }

    /// Returns the number of lists, or of the ready lists of a lane.
    func lists(ready lane: ReloadLane? = nil) async throws -> Int {
        guard let lane else { return try await integer("SELECT count(*) FROM work") }
        return try await integer("SELECT count(*) FROM work WHERE lane = \(lane.rawValue) AND ready_at <= now()")
    }
}

extension TimelineDetail {
    /// Seconds until the timeline is due; 0 or less if it is due now, nil if never.
    var secondsToDue: Double? {
        nextLook.map { Double($0.microseconds - readAt.microseconds) / 1_000_000 }
    }

    var text: String { String(decoding: content ?? [], as: UTF8.self) }
}
