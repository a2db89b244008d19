import PostgresClient
import TestSupport
import WidgetModel
import WidgetStore

/// What ingest would do, and the passing of time.
extension TestStore {
    static let cause = EventPosition(topic: 0, partition: 3, offset: 42)

    /// Requests a reload of a user's timelines.
    func markUser(
        _ user: String, app: String = TestKinds.app, kind: String? = nil, events: Int64 = 1, isFree: Bool = true,
        lane: ReloadLane = .push
    ) async throws {
        let directory = try await directory()
        guard let app = directory.apps[app] else { return }
        let mark = TimelineMark(
            appID: app.id, audienceID: user, kindID: kind.flatMap { directory.kind($0, of: app)?.id }, matching: nil,
            events: events, urgency: isFree ? .free : .budgeted, lane: lane.rawValue, cause: Self.cause,
            reason: isFree ? .foreground : .push)
        _ = try await pool.query(MarkUsers([mark], limit: 1_000))
    }

    func kindID(_ kind: String, app: String = TestKinds.app) async throws -> Int32 {
        let directory = try await directory()
        return directory.apps[app].flatMap { directory.kind(kind, of: $0)?.id } ?? -1
    }

    /// Requests a reload of everyone, one kind.
    func bumpKind(_ kind: String, isFree: Bool = true) async throws {
        let bump = GenerationBump(
            id: try await kindID(kind), events: 1, urgency: isFree ? .free : .budgeted, cause: Self.cause,
            reason: isFree ? .foreground : .push)
        _ = try await pool.execute(BumpKinds([bump]))
    }

    /// Requests a reload of everyone, all kinds of the app.
    func bumpApp(_ app: String = TestKinds.app) async throws {
        let id = try await directory().apps[app]?.id ?? -1
        let bump = GenerationBump(id: id, events: 1, urgency: .free, cause: Self.cause, reason: .foreground)
        _ = try await pool.execute(BumpApps([bump]))
    }

    /// Removes widgets as ingest does: their timelines are left to be collected if nothing shows them.
    func removeWidgets(showing id: TimelineID) async throws {
        try await sql("UPDATE widget SET timeline_id = NULL WHERE timeline_id = '\(id)'")
        var pipeline = PostgresPipeline()
        _ = pipeline.append(LockTimelines([id]))
        _ = pipeline.append(OrphanTimelines([id]))
        _ = try await pool.transaction(pipeline)
    }

    /// Moves every time in the timelines' state into the past, as if this much time had passed.
    func passTime(_ seconds: Int) async throws {
        try await sql(
            """
            UPDATE timeline_state SET due_at = due_at - interval '\(seconds) s',
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
}

extension TimelineDetail {
    /// Seconds from now until it is due; negative when it has been for a while, nil for never.
    var secondsToDue: Double? {
        guard dueAt != .infinity else { return nil }
        return Double(dueAt.microseconds - readAt.microseconds) / 1_000_000
    }
}
