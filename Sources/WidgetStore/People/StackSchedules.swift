// SPDX-License-Identifier: Apache-2.0

import JSON
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
    /// Whether the schedule has not been read for a long time.
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
    /// Relevance of the timeline that it shows.
    package let stored: StoredRelevance

    /// Primary key of the timeline.
    package var timeline: Int64 { stored.timeline }
    /// Whether the timeline has content.
    package var isRendered: Bool { stored.contentRevision > 0 }
}

/// A new plan of a leased schedule.
package struct ScheduleWrite: Sendable {
    package var schedule: DueSchedule
    /// JSON of the plan if it differs from the last one, or if the schedule ends; nil: it goes on.
    package var changed: String?
    /// Whether the stack is gone, or nobody reads its schedule: a tombstone is published.
    package var ends: Bool
    package var plannedAt: Timestamp
    package var nextLook: Timestamp
    package var timelines: [Int64]
    /// Whether the plan has suggestions.
    package var suggests: Bool
    /// Whether the lease goes on, since events are to be published.
    package var hasEvents: Bool

    package init(
        schedule: DueSchedule, changed: String?, ends: Bool = false, plannedAt: Timestamp, nextLook: Timestamp,
        timelines: [Int64] = [], suggests: Bool = false, hasEvents: Bool = false
    ) {
        self.schedule = schedule
        self.changed = changed
        self.ends = ends
        self.plannedAt = plannedAt
        self.nextLook = nextLook
        self.timelines = timelines
        self.suggests = suggests
        self.hasEvents = hasEvents
    }
}

/// Apps with due schedules take equal parts of a claim. If there are more apps than schedules to claim, chance decides.
private let claimSQL = """
    WITH busy AS MATERIALIZED (
        SELECT a.id, a.name, count(*) OVER () AS apps FROM app a
        WHERE EXISTS (
            SELECT FROM stack_schedule s WHERE s.app_id = a.id AND coalesce(s.leased_until, s.due_at) <= now())
        ORDER BY random() LIMIT $1::int8
    ), due AS MATERIALIZED (
        SELECT p.id, b.name FROM busy b CROSS JOIN LATERAL (
            SELECT s.id FROM stack_schedule s
            WHERE s.app_id = b.id AND coalesce(s.leased_until, s.due_at) <= now()
            ORDER BY coalesce(s.leased_until, s.due_at) LIMIT ceil($1::int8 / b.apps::float8)::int8
            FOR NO KEY UPDATE SKIP LOCKED
        ) p
    )
    UPDATE stack_schedule s
    SET due_at = 'infinity', leased_until = now() + $2::int8 * interval '1 millisecond'
    FROM due d WHERE s.id = d.id
    RETURNING s.id, s.app_id, d.name AS app, s.user_id, s.device_id, s.stack, s.leased_until, s.revision, s.published,
        s.schedule, s.read_at < now() - $3::int8 * interval '1 millisecond' AS unread, now() AS claimed_at
    """

private let names = InputColumns<StackMaterial.Person>([.init("app_id") { $0.appID }, .init("user_id") { $0.user }])

private let peopleSQL = """
    SELECT p.app_id, p.user_id, p.habits, p.arrangement, NULL::text AS time_zone, p.suggested
    FROM \(names.rows("i")) JOIN person p ON p.app_id = i.app_id AND p.user_id = i.user_id
    """

private let schedulesSQL = """
    SELECT s.app_id, a.name AS app, s.user_id, s.device_id, s.stack, CASE WHEN s.suggests THEN s.schedule END AS schedule
    FROM \(names.rows("i")) JOIN stack_schedule s ON s.app_id = i.app_id AND s.user_id = i.user_id
    JOIN app a ON a.id = s.app_id
    """

private let widgetsSQL = """
    SELECT w.app_id, w.user_id, w.device_id, w.id, w.kind_id, w.family, w.locale, w.time_zone,
           coalesce(w.configuration, t.configuration) AS configuration, \(StoredRelevance.columns)
    FROM \(names.rows("i")) JOIN widget w ON w.app_id = i.app_id AND w.user_id = i.user_id
    JOIN timeline t ON t.id = w.timeline_id
    LEFT JOIN relevance r ON r.timeline_id = t.id
    WHERE \(isKnownFamily("w.family"))
    """

private let writeInput = InputColumns<ScheduleWrite>([
    .init("id") { $0.schedule.id }, .init("lease") { $0.schedule.leaseEnds },
    .init("read_revision") { $0.schedule.revision }, .init("changed") { $0.changed }, .init("ends") { $0.ends },
    .init("planned_at") { $0.plannedAt }, .init("next_look") { $0.nextLook },
    .init("timelines") { "{\($0.timelines.map(String.init).joined(separator: ","))}" },
    .init("suggests") { $0.suggests }, .init("has_events") { $0.hasEvents },
])

/// A schedule with something to publish keeps its lease until that is acknowledged, so that nobody else publishes
/// meanwhile. The schedule that ends loses its content before its tombstone goes out: if it is wanted again, it is
/// published again. A schedule with a new timeline is planned again soon: a change of its content before the link has
/// reached no schedule.
private let writeSQL = """
    WITH input AS MATERIALIZED (
        SELECT i.id, i.lease, i.read_revision, i.changed, i.ends, i.planned_at, i.next_look, i.suggests, i.has_events,
               i.timelines::bigint[] AS timelines, s.timelines AS earlier,
               i.ends OR i.changed IS NOT NULL OR \(isOfEarlierHistory("s.revision")) AS is_new
        FROM \(writeInput.rows("i")) JOIN stack_schedule s ON s.id = i.id
        ORDER BY s.id
        FOR NO KEY UPDATE OF s
    ), written AS (
        UPDATE stack_schedule s
        SET planned_at = i.planned_at, timelines = i.timelines, suggests = i.suggests,
            schedule = CASE WHEN i.ends THEN NULL ELSE coalesce(i.changed, s.schedule) END,
            revision = CASE WHEN i.is_new THEN nextval('token') ELSE s.revision END,
            published = s.published AND NOT i.is_new,
            due_at = least(s.due_at, i.next_look,
                CASE WHEN NOT i.timelines <@ i.earlier THEN i.planned_at + interval '60 seconds' END),
            leased_until = CASE WHEN s.published AND NOT i.is_new AND NOT i.has_events THEN NULL
                           ELSE s.leased_until END
        FROM input i
        WHERE s.id = i.id AND s.leased_until = i.lease AND s.revision = i.read_revision
        RETURNING s.id, s.revision, s.published, i.timelines, i.earlier
    ), linked AS (
        INSERT INTO stack_timeline (timeline_id, schedule_id)
        SELECT t.id, w.id FROM written w, unnest(w.timelines) t (id) WHERE NOT t.id = ANY (w.earlier)
        ORDER BY t.id, w.id
        ON CONFLICT DO NOTHING
    ), unlinked AS (
        DELETE FROM stack_timeline l USING written w, unnest(w.earlier) t (id)
        WHERE l.timeline_id = t.id AND l.schedule_id = w.id AND NOT t.id = ANY (w.timelines)
    )
    SELECT id, revision, published FROM written
    """

package typealias PublishedSchedule = (id: TimelineID, revision: Int64, lease: Timestamp)

private let publishedInput = InputColumns<PublishedSchedule>([
    .init("id") { $0.id }, .init("revision") { $0.revision }, .init("lease") { $0.lease },
])

/// Behind a lease that is over, another process may have published before: its schedule is published once more.
private let publishedSQL = """
    WITH locked AS MATERIALIZED (
        SELECT s.id, s.leased_until IS NOT DISTINCT FROM i.lease AND s.revision = i.revision AS current
        FROM \(publishedInput.rows("i")) JOIN stack_schedule s ON s.id = i.id
        ORDER BY s.id
        FOR NO KEY UPDATE OF s
    )
    UPDATE stack_schedule s
    SET published = l.current,
        due_at = CASE WHEN l.current THEN s.due_at ELSE least(s.due_at, now()) END,
        leased_until = CASE WHEN l.current THEN NULL ELSE s.leased_until END
    FROM locked l WHERE s.id = l.id
    RETURNING s.id
    """

private let releaseSQL = """
    WITH locked AS MATERIALIZED (
        SELECT s.id FROM \(publishedInput.rows("i")) JOIN stack_schedule s ON s.id = i.id
        WHERE s.leased_until = i.lease AND s.revision <> i.revision
        ORDER BY s.id
        FOR NO KEY UPDATE OF s
    )
    UPDATE stack_schedule s SET leased_until = NULL FROM locked l WHERE s.id = l.id
    """

/// Without duplicates: users of many widgets in a batch are looked up once. Schedules that are due already are locked
/// as well, as in writes of people.
private let replanSQL = """
    WITH locked AS (
        SELECT s.id, s.due_at > now() AS is_later FROM stack_schedule s
        JOIN (SELECT DISTINCT i.app_id, i.user_id FROM \(names.rows("i"))) i
            ON s.app_id = i.app_id AND s.user_id = i.user_id
        ORDER BY s.id
        FOR NO KEY UPDATE OF s
    )
    UPDATE stack_schedule s SET due_at = now() FROM locked l WHERE s.id = l.id AND l.is_later
    """

extension PostgresStatement where Self == Statements {
    /// Makes the schedules of people due, after a change of their widgets or of the schedules that are read.
    package static func replanStacks(of people: [StackMaterial.Person]) -> PostgresQuery<Void> {
        PostgresQuery(replanSQL, binding: names.parameters(people))
    }

    /// Leases schedules that are due or whose leases are over, as many of each app. Those that somebody else has locked
    /// are left out.
    ///
    /// - Parameter unread: time without a reader after which a schedule is given up.
    package static func claimSchedules(limit: Int, lease: Duration, unread: Duration) -> PostgresQuery<DueSchedule> {
        PostgresQuery(claimSQL, limit, lease.wholeMilliseconds, unread.wholeMilliseconds) { row in
            let key = try StackPlan.Key(
                app: row.value("app"), user: row.value("user_id"), device: row.value("device_id"),
                stack: row.value("stack"))
            return try DueSchedule(
                id: row.value("id"), appID: row.value("app_id"), key: key, leaseEnds: row.value("leased_until"),
                previous: row.optional("schedule", as: String.self).flatMap { StackPlan(stored: $0, key: key) },
                revision: row.value("revision"), isPublished: row.value("published"), isUnread: row.value("unread"),
                claimedAt: row.value("claimed_at"))
        }
    }

    /// Reads people without locking them.
    package static func readPeople(of schedules: [StackMaterial.Person]) -> PostgresQuery<StoredPerson> {
        PostgresQuery(peopleSQL, binding: names.parameters(schedules)) { row in try StoredPerson(row) }
    }

    /// Reads which stacks of people have a schedule, with the plans that have suggestions.
    package static func readSchedules(
        of people: [StackMaterial.Person]
    ) -> PostgresQuery<(appID: Int32, key: StackPlan.Key, plan: StackPlan?)> {
        PostgresQuery(schedulesSQL, binding: names.parameters(people)) { row in
            let key = try StackPlan.Key(
                app: row.value("app"), user: row.value("user_id"), device: row.value("device_id"),
                stack: row.value("stack"))
            let plan = try row.optional("schedule", as: String.self).flatMap { StackPlan(stored: $0, key: key) }
            return try (appID: row.value("app_id"), key: key, plan: plan)
        }
    }

    /// Reads the widgets of people with their relevance, and the content that it does not know.
    package static func readPlannedWidgets(of people: [StackMaterial.Person]) -> PostgresQuery<PlannedWidget> {
        PostgresQuery(widgetsSQL, binding: names.parameters(people)) { row in
            try PlannedWidget(
                appID: row.value("app_id"), user: row.value("user_id"), device: row.value("device_id"),
                widget: row.value("id"), kindID: row.value("kind_id"), family: row.value("family"),
                environment: WidgetEnvironment(storedLocale: row.value("locale"), timeZone: row.value("time_zone")),
                configuration: WidgetConfiguration(storedCanonical: row.value("configuration")),
                stored: StoredRelevance(row))
        }
    }

    /// Stores plans, except those whose schedule has another lease or another revision now. Returns the revisions, and
    /// whether Kafka has acknowledged them.
    package static func writeSchedules(_ writes: [ScheduleWrite]) -> PostgresQuery<
        (id: TimelineID, revision: Int64, isPublished: Bool)
    > {
        PostgresQuery(writeSQL, binding: writeInput.parameters(writes)) { row in
            try (id: row.value("id"), revision: row.value("revision"), isPublished: row.value("published"))
        }
    }

    /// Records that Kafka has acknowledged schedules, and ends their leases. Returns the schedules that are still
    /// there.
    package static func recordPublished(_ schedules: [PublishedSchedule]) -> PostgresQuery<TimelineID> {
        PostgresQuery(publishedSQL, binding: publishedInput.parameters(schedules)) { row in try row.value("id") }
    }

    /// Ends the leases of schedules that have another revision now, so that a plan was not stored.
    package static func releaseSchedules(_ schedules: [PublishedSchedule]) -> PostgresQuery<Void> {
        PostgresQuery(releaseSQL, binding: publishedInput.parameters(schedules))
    }

    /// Deletes schedules whose tombstones Kafka has acknowledged; not those that are wanted again. Returns their
    /// people, whose other stacks may take their suggestions.
    package static func deleteSchedules(_ ids: [TimelineID]) -> PostgresQuery<StackMaterial.Person> {
        PostgresQuery(
            """
            WITH locked AS MATERIALIZED (
                SELECT s.id FROM stack_schedule s
                WHERE s.id = ANY ($1::uuid[]) AND s.schedule IS NULL AND s.published AND s.leased_until IS NULL
                    AND s.due_at = 'infinity'
                ORDER BY s.id
                FOR UPDATE
            )
            DELETE FROM stack_schedule s USING locked l WHERE s.id = l.id
            RETURNING s.app_id, s.user_id
            """, PostgresArray(ids)
        ) { row in try (appID: row.value("app_id"), user: row.value("user_id")) }
    }
}

extension StackPlan {
    init?(stored text: String, key: Key) {
        guard let json = try? JSONValue.parse(text) else { return nil }
        self.init(stored: json, key: key)
    }
}

/// A schedule as its readers see it.
package struct ReadSchedule: Sendable {
    package let device: String
    /// Identity; nil if the schedule was never read.
    package let id: TimelineID?
    /// JSON of the plan; nil: not planned yet.
    package let schedule: String?
    package let revision: Int64
    /// Whether the time of the last reader is to be recorded.
    package let isReadLongAgo: Bool
}

/// A person's stack of a name is looked up in the arrangement only where no schedule answers.
private let readSQL = """
    SELECT s.device_id, s.id, s.schedule, s.revision, s.read_at < now() - interval '1 hour' AS long_ago
    FROM stack_schedule s JOIN app a ON a.id = s.app_id
    WHERE a.name = $1::text AND s.user_id = $2::text AND s.stack = $3::text
        AND ($4::text IS NULL OR s.device_id = $4::text)
    ORDER BY s.device_id
    """

private let wantSQL = """
    INSERT INTO stack_schedule AS s (id, app_id, user_id, device_id, stack)
    SELECT $1::uuid, a.id, $3::text, $4::text, $5::text FROM app a WHERE a.name = $2::text
    ON CONFLICT (id) DO UPDATE
        SET read_at = now(), due_at = CASE WHEN s.schedule IS NULL THEN least(s.due_at, now()) ELSE s.due_at END
        WHERE s.read_at < now() - interval '1 hour' OR s.schedule IS NULL
    RETURNING s.app_id, xmax = 0 AS is_new
    """

/// Schedule of a stack on a device, for readers that are notified of changes.
package struct DeviceSchedule: Hashable, Sendable {
    package let id: TimelineID
    package let user: String
    package let stack: String
    package let revision: Int64
}

extension PostgresStatement where Self == Statements {
    /// The planned schedules of users on a device.
    package static func deviceSchedules(app: String, device: String, users: [String]) -> PostgresQuery<DeviceSchedule> {
        PostgresQuery(
            """
            SELECT s.id, s.user_id, s.stack, s.revision FROM stack_schedule s JOIN app a ON a.id = s.app_id
            WHERE a.name = $1::text AND s.device_id = $2::text AND s.user_id = ANY ($3::text[])
                AND s.schedule IS NOT NULL
            ORDER BY s.user_id, s.stack
            """, app, device, PostgresArray(users)
        ) { row in
            try DeviceSchedule(
                id: row.value("id"), user: row.value("user_id"), stack: row.value("stack"),
                revision: row.value("revision"))
        }
    }

    /// Reads the schedules of a user's stacks of a name.
    ///
    /// - Parameter device: nil: on any device.
    package static func readSchedules(
        app: String, user: String, stack: String, device: String?
    ) -> PostgresQuery<ReadSchedule> {
        PostgresQuery(readSQL, app, user, stack, device) { row in
            try ReadSchedule(
                device: row.value("device_id"), id: row.optional("id"), schedule: row.optional("schedule"),
                revision: row.value("revision"), isReadLongAgo: row.value("long_ago"))
        }
    }

    /// The arrangement of a user's stacks.
    package static func readArrangement(app: String, user: String) -> PostgresQuery<String?> {
        PostgresQuery(
            """
            SELECT p.arrangement FROM person p JOIN app a ON a.id = p.app_id
            WHERE a.name = $1::text AND p.user_id = $2::text
            """, app, user
        ) { row in try row.optional("arrangement") }
    }

    /// Requests plans of a stack from now on, as long as its schedule is read. Returns whether it was not planned
    /// before.
    package static func wantSchedule(_ key: StackPlan.Key) -> PostgresQuery<(appID: Int32, isNew: Bool)> {
        PostgresQuery(wantSQL, key.id, key.app, key.user, key.device, key.stack) { row in
            try (appID: row.value("app_id"), isNew: row.value("is_new"))
        }
    }
}

extension WidgetStore {
    /// Requests plans of a stack from now on, as long as its schedule is read.
    ///
    /// The user's other schedules are planned again after the first read, because the stack may take suggestions from
    /// them.
    package func wantSchedule(_ key: StackPlan.Key) async throws {
        guard let wanted = try await query(.wantSchedule(key)).first, wanted.isNew else { return }
        try await retryingConflicts {
            _ = try await pool.query(.replanStacks(of: [(wanted.appID, key.user)]))
        }
    }

    /// A user's stacks that have widgets.
    package func stacks(of user: String, app: String) async throws(PostgresError) -> [StackArrangement] {
        guard let text = try await query(.readArrangement(app: app, user: user)).first ?? nil else { return [] }
        guard let person = PersonRecord(app: app, habits: nil, arrangement: text) else {
            throw PostgresError(.decoding, "stored stacks of a person of app \(app)")
        }
        return person.stacks.map(\.arrangement).filter { !$0.widgets.isEmpty }
    }
}

/// A stack with its plan, and why its widgets are where they are.
package struct ExplainedStack: Sendable {
    package let stack: StackArrangement
    package let plan: StackPlan
    package let explanation: StackExplanation
}

extension WidgetStore {
    /// Explains a user's stacks as they are planned at a time. A schedule that is published is the one planned from.
    package func explainStacks(
        named name: String, of user: String, app: String, policy: RotationPolicy, at time: Timestamp
    ) async throws -> [ExplainedStack] {
        let directory = try await DirectoryCache(pool: pool).refresh()
        guard let registered = directory.apps[app] else { return [] }
        let person = (appID: registered.id, user: user)
        let material = try await StackMaterial.read([person], from: pool, directory)
        guard material.isReadable(person) else {
            throw PostgresError(.decoding, "stored state of a person of app \(app)")
        }
        let stored = try await query(.readSchedules(app: app, user: user, stack: name, device: nil))
        return material.stacks(of: person).filter { Text.equal($0.name, name) }.compactMap { stack in
            let key = StackPlan.Key(app: app, user: user, device: stack.device, stack: name)
            let schedule = stored.first { Text.equal($0.device, stack.device) }
            let previous = schedule?.schedule.flatMap { StackPlan(stored: $0, key: key) }
            let planner = material.planner(for: stack.device, of: person, app: app, policy: policy, at: time)
            let suggestions = planner.suggestions(with: previous, before: time)
            guard let plan = planner.plan(key, after: previous, at: time),
                let own = planner.planner(of: name, suggestions: suggestions, at: time)
            else { return nil }
            var explanation = StackExplanation(of: own, plan: plan, at: time)
            if previous == nil { explanation.hold = StackExplanation.unplannedHold(isRead: schedule != nil) }
            return ExplainedStack(stack: stack, plan: plan, explanation: explanation)
        }
    }
}
