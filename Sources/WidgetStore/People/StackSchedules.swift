package import PostgresClient
package import WidgetModel

/// A schedule that is to be planned, leased to this process.
package struct DueSchedule: Sendable {
    package let id: TimelineID
    package let appID: Int32
    package let key: StackPlan.Key
    /// End of the lease.
    package let leaseEnds: Timestamp
    /// Last plan; nil: none yet.
    package let previous: StackPlan?
    package let revision: Int64
    /// Whether Kafka has acknowledged the last plan.
    package let isPublished: Bool
    /// Whether nobody has read it for a long time.
    package let isUnread: Bool
    /// The database's time of the claim.
    package let claimedAt: Timestamp
}

/// A widget of a person with what its schedule depends on.
package struct PlannedWidget: Sendable {
    package let appID: Int32
    package let user: String
    package let device: String
    package let widget: String
    package let kindID: Int32
    package let family: WidgetFamily
    package let environment: WidgetEnvironment
    package let configuration: WidgetConfiguration
    /// Primary key of the timeline.
    package let timeline: Int64
    package let contentRevision: Int64
    package let storedAt: Timestamp?
    /// Whether relevance is stored, so that changes of the content are noted.
    package let hasRelevance: Bool
    /// Stored relevance; nil: none that can be read.
    package let relevance: RelevanceRecord?
    /// Canonical content that the relevance does not know.
    package let content: [UInt8]?
}

/// Relevance of a timeline to be stored.
package typealias RelevanceWrite = (timeline: Int64, revision: Int64, relevance: RelevanceRecord)

/// A new plan of a leased schedule.
package struct ScheduleWrite: Sendable {
    package var schedule: DueSchedule
    /// JSON of the plan if it differs from the last one; nil: it goes on.
    package var changed: String?
    package var plannedAt: Timestamp
    package var nextLook: Timestamp
    package var timelines: [Int64]

    package init(
        schedule: DueSchedule, changed: String?, plannedAt: Timestamp, nextLook: Timestamp, timelines: [Int64]
    ) {
        self.schedule = schedule
        self.changed = changed
        self.plannedAt = plannedAt
        self.nextLook = nextLook
        self.timelines = timelines
    }
}

private let claimSQL = """
    WITH due AS (
        SELECT s.id FROM stack_schedule s WHERE s.due_at <= now() ORDER BY s.due_at LIMIT $1::int8
        FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE stack_schedule s SET due_at = now() + $2::int8 * interval '1 millisecond'
    FROM due d JOIN stack_schedule o ON o.id = d.id JOIN app a ON a.id = o.app_id
    WHERE s.id = d.id
    RETURNING s.id, s.app_id, a.name AS app, s.user_id, s.device_id, s.stack, s.due_at, s.revision, s.published,
        s.schedule, s.read_at < now() - $3::int8 * interval '1 millisecond' AS unread, now() AS claimed_at
    """

private typealias PersonName = (appID: Int32, user: String)

private let names = InputColumns<PersonName>([.init("app_id") { $0.appID }, .init("user_id") { $0.user }])

private let peopleSQL = """
    SELECT p.app_id, p.user_id, p.habits, p.arrangement, NULL::text AS time_zone
    FROM \(names.rows("i")) JOIN person p ON p.app_id = i.app_id AND p.user_id = i.user_id
    """

private let widgetsSQL = """
    SELECT w.app_id, w.user_id, w.device_id, w.id, w.kind_id, w.family, w.locale, w.time_zone,
           coalesce(w.configuration, t.configuration) AS configuration, w.timeline_id, t.content_revision, t.stored_at,
           r.history, r.points,
           CASE WHEN t.content_revision > coalesce(r.revision, 0) THEN t.content END AS content
    FROM \(names.rows("i")) JOIN widget w ON w.app_id = i.app_id AND w.user_id = i.user_id
    JOIN timeline t ON t.id = w.timeline_id
    LEFT JOIN relevance r ON r.timeline_id = t.id
    """

private let relevanceInput = InputColumns<RelevanceWrite>([
    .init("timeline_id") { $0.timeline }, .init("revision") { $0.revision },
    .init("history") { $0.relevance.history.encoded }, .init("points") { $0.relevance.curve.encoded },
])

private let writeRelevanceSQL = """
    INSERT INTO relevance AS r (timeline_id, revision, history, points)
    SELECT i.timeline_id, i.revision, i.history, i.points FROM \(relevanceInput.rows("i")) ORDER BY i.timeline_id
    ON CONFLICT (timeline_id) DO UPDATE
        SET revision = excluded.revision, history = excluded.history, points = excluded.points
        WHERE r.revision < excluded.revision
    """

private let writeInput = InputColumns<ScheduleWrite>([
    .init("id") { $0.schedule.id }, .init("lease") { $0.schedule.leaseEnds },
    .init("read_revision") { $0.schedule.revision }, .init("changed") { $0.changed },
    .init("planned_at") { $0.plannedAt }, .init("next_look") { $0.nextLook },
    .init("timelines") { "{\($0.timelines.map(String.init).joined(separator: ","))}" },
])

/// A schedule that is to be published keeps its lease until that is acknowledged.
private let writeSQL = """
    UPDATE stack_schedule s
    SET planned_at = i.planned_at, timelines = i.timelines::bigint[],
        schedule = coalesce(i.changed, s.schedule),
        revision = CASE WHEN i.changed IS NULL THEN s.revision ELSE nextval('token') END,
        published = s.published AND i.changed IS NULL,
        due_at = CASE WHEN s.due_at = i.lease AND s.published AND i.changed IS NULL THEN i.next_look ELSE s.due_at END
    FROM \(writeInput.rows("i"))
    WHERE s.id = i.id AND s.revision = i.read_revision
    RETURNING s.id, s.revision, s.published
    """

package typealias PublishedSchedule = (id: TimelineID, revision: Int64, lease: Timestamp, nextLook: Timestamp)

private let publishedInput = InputColumns<PublishedSchedule>([
    .init("id") { $0.id }, .init("revision") { $0.revision }, .init("lease") { $0.lease },
    .init("next_look") { $0.nextLook },
])

private let publishedSQL = """
    UPDATE stack_schedule s
    SET published = true, due_at = CASE WHEN s.due_at = i.lease THEN i.next_look ELSE s.due_at END
    FROM \(publishedInput.rows("i")) WHERE s.id = i.id AND s.revision = i.revision
    """

private let gatherSQL = """
    WITH taken AS (
        DELETE FROM relevance_change c
        WHERE c.seq IN (SELECT c.seq FROM relevance_change c ORDER BY c.seq LIMIT $1::int8 FOR UPDATE SKIP LOCKED)
        RETURNING c.timeline_id
    ), locked AS (
        SELECT s.id FROM stack_schedule s
        WHERE s.timelines && (SELECT array_agg(DISTINCT t.timeline_id) FROM taken t) AND s.due_at > now()
        ORDER BY s.id
        FOR NO KEY UPDATE
    ), due AS (
        UPDATE stack_schedule s SET due_at = now() FROM locked l WHERE s.id = l.id
    )
    SELECT count(*) AS taken FROM taken
    """

/// Without duplicates: users of many widgets in a batch are looked up once.
private let replanSQL = """
    WITH locked AS (
        SELECT s.id FROM stack_schedule s
        JOIN (SELECT DISTINCT i.app_id, i.user_id FROM \(names.rows("i"))) i
            ON s.app_id = i.app_id AND s.user_id = i.user_id
        WHERE s.due_at > now()
        ORDER BY s.id
        FOR NO KEY UPDATE OF s
    )
    UPDATE stack_schedule s SET due_at = now() FROM locked l WHERE s.id = l.id
    """

extension PostgresStatement where Self == Statements {
    /// Makes the schedules due of people whose widgets were placed, changed or removed.
    package static func replanStacks(of people: [(appID: Int32, user: String)]) -> PostgresQuery<Void> {
        PostgresQuery(replanSQL, binding: names.parameters(people))
    }

    /// Leases schedules that are due. Those that somebody else has locked are left out.
    ///
    /// - Parameter unread: time without a reader after which a schedule is given up.
    package static func claimSchedules(limit: Int, lease: Duration, unread: Duration) -> PostgresQuery<DueSchedule> {
        PostgresQuery(claimSQL, limit, lease.wholeMilliseconds, unread.wholeMilliseconds) { row in
            let key = StackPlan.Key(
                app: try row.value("app"), user: try row.value("user_id"), device: try row.value("device_id"),
                stack: try row.value("stack"))
            return DueSchedule(
                id: try row.value("id"), appID: try row.value("app_id"), key: key,
                leaseEnds: try row.value("due_at"),
                previous: try row.optional("schedule", as: String.self).flatMap { StackPlan(stored: $0, key: key) },
                revision: try row.value("revision"), isPublished: try row.value("published"),
                isUnread: try row.value("unread"), claimedAt: try row.value("claimed_at"))
        }
    }

    /// Reads people without locking them.
    package static func readPeople(of schedules: [(appID: Int32, user: String)]) -> PostgresQuery<StoredPerson> {
        PostgresQuery(peopleSQL, binding: names.parameters(schedules)) { row in try StoredPerson(row) }
    }

    /// Reads the widgets of people with their relevance, and the content that it does not know.
    package static func readPlannedWidgets(of people: [(appID: Int32, user: String)]) -> PostgresQuery<PlannedWidget> {
        PostgresQuery(widgetsSQL, binding: names.parameters(people)) { row in
            var relevance: RelevanceRecord?
            let storedHistory = try row.optional("history", as: [UInt8].self)
            if let storedHistory {
                let points: [UInt8] = try row.value("points")
                // Unreadable relevance counts as none until the timeline's content changes.
                if let history = RelevanceHistory(encoded: storedHistory), let curve = RelevanceCurve(encoded: points) {
                    relevance = RelevanceRecord(curve: curve, history: history)
                }
            }
            return PlannedWidget(
                appID: try row.value("app_id"), user: try row.value("user_id"), device: try row.value("device_id"),
                widget: try row.value("id"), kindID: try row.value("kind_id"), family: try row.value("family"),
                environment: WidgetEnvironment(
                    storedLocale: try row.value("locale"), timeZone: try row.value("time_zone")),
                configuration: WidgetConfiguration(storedCanonical: try row.value("configuration")),
                timeline: try row.value("timeline_id"), contentRevision: try row.value("content_revision"),
                storedAt: try row.optional("stored_at"), hasRelevance: storedHistory != nil, relevance: relevance,
                content: try row.optional("content", as: PostgresTextBytes.self)?.bytes)
        }
    }

    /// Stores relevance unless that of later content is stored. From then on, changes of the timeline's content are noted.
    package static func writeRelevance(_ writes: [RelevanceWrite]) -> PostgresQuery<Void> {
        PostgresQuery(writeRelevanceSQL, binding: relevanceInput.parameters(writes))
    }

    /// Stores plans, except those that another process has stored meanwhile. Returns the revisions, and whether Kafka has
    /// acknowledged them.
    package static func writeSchedules(_ writes: [ScheduleWrite]) -> PostgresQuery<
        (id: TimelineID, revision: Int64, isPublished: Bool)
    > {
        PostgresQuery(writeSQL, binding: writeInput.parameters(writes)) { row in
            (id: try row.value("id"), revision: try row.value("revision"), isPublished: try row.value("published"))
        }
    }

    /// Records that Kafka has acknowledged schedules.
    package static func recordPublished(_ schedules: [PublishedSchedule]) -> PostgresQuery<Void> {
        PostgresQuery(publishedSQL, binding: publishedInput.parameters(schedules))
    }

    /// Deletes schedules whose tombstones Kafka has acknowledged, and relevance that no other schedule needs; not those that a
    /// reader wants again.
    package static func deleteSchedules(_ schedules: [DueSchedule]) -> PostgresQuery<Void> {
        PostgresQuery(
            """
            WITH gone AS (
                DELETE FROM stack_schedule s WHERE s.id = ANY ($1::uuid[]) AND s.due_at > now() RETURNING s.timelines
            )
            DELETE FROM relevance r USING (SELECT DISTINCT unnest(g.timelines) AS id FROM gone g) t
            WHERE r.timeline_id = t.id AND NOT EXISTS (
                SELECT FROM stack_schedule s WHERE s.timelines @> ARRAY[t.id] AND s.id <> ALL ($1::uuid[]))
            """, PostgresArray(schedules.map(\.id)))
    }

    /// Makes the schedules due whose timelines have changed, and returns the number of changes.
    package static func gatherRelevanceChanges(limit: Int) -> PostgresQuery<Int64> {
        PostgresQuery(gatherSQL, limit) { row in try row.value("taken") }
    }
}

extension StackPlan {
    init?(stored text: String, key: Key) {
        guard let json = try? JSONValue.parse(text) else { return nil }
        self.init(stored: json, key: key)
    }
}
