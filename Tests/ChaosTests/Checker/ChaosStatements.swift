// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import WidgetModel
import WidgetStore

/// Rows for the checker, read directly from the tables without the product's statements.
struct StoredGenerations: PostgresStatement {
    struct Row: Sendable {
        let app: String
        let kind: String
        let generation: Int64
    }

    let sql = """
        SELECT a.name AS app, k.name AS kind, k.generation FROM app a JOIN kind k ON k.app_id = a.id
        """

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(app: try row.value("app"), kind: try row.value("kind"), generation: try row.value("generation"))
    }
}

struct StoredTimelines: PostgresStatement {
    struct Row: Sendable {
        let id: TimelineID
        let requested: Int64
        let contentRevision: Int64
        let views: Int64
        let content: String?
        /// Row without its content, for explanations.
        let text: String
    }

    let sql = """
        SELECT t.identity, t.requested, t.content_revision, t.views::int8 AS views, t.content,
            (to_jsonb(t) - 'content')::text AS text
        FROM timeline t WHERE \(Condition.runs("t"))
        """

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            id: try row.value("identity"), requested: try row.value("requested"),
            contentRevision: try row.value("content_revision"), views: try row.value("views"),
            content: try row.optional("content"), text: try row.value("text"))
    }
}

struct StoredWidgets: PostgresStatement {
    struct Row: Sendable {
        let app: String
        let id: String
        let kind: String
        let family: Int16
        let timeline: TimelineID?
        let user: String
        let device: String
        let locale: String
        let timeZone: String
        let changedAt: Timestamp
    }

    let sql = """
        SELECT a.name AS app, w.id, k.name AS kind, w.family, t.identity, w.user_id, w.device_id, w.locale, w.time_zone,
               w.changed_at
        FROM widget w JOIN app a ON a.id = w.app_id JOIN kind k ON k.id = w.kind_id
        LEFT JOIN timeline t ON t.id = w.timeline_id
        """

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            app: try row.value("app"), id: try row.value("id"), kind: try row.value("kind"),
            family: try row.value("family"),
            timeline: try row.optional("identity"),
            user: try row.value("user_id"), device: try row.value("device_id"), locale: try row.value("locale"),
            timeZone: try row.value("time_zone"), changedAt: try row.value("changed_at"))
    }
}

/// Times of the registrations of some users' devices.
struct RegistrationTimes: PostgresStatement {
    struct Row: Sendable {
        let user: String
        let registeredAt: Timestamp
    }

    let sql = "SELECT user_id, registered_at FROM registration WHERE user_id = ANY ($1::text[])"

    let users: [String]

    var parameters: PostgresParameters { PostgresParameters(PostgresArray(users)) }

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(user: try row.value("user_id"), registeredAt: try row.value("registered_at"))
    }
}

struct StoredPositions: PostgresStatement {
    struct Row: Sendable {
        let topic: String
        let partition: Int32
        let next: Int64?
    }

    let sql = "SELECT topic, partition, next_offset FROM consumer_position"

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            topic: try row.value("topic"), partition: try row.value("partition"), next: try row.optional("next_offset"))
    }
}

struct StoredDeadLetters: PostgresStatement {
    struct Row: Sendable {
        let place: ChaosModel.Place
        let text: String
    }

    let sql = """
        SELECT topic, partition, "offset", coalesce(app, '') || ' ' || code || ': ' || error AS text FROM dead_letter
        """

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            place: ChaosModel.Place(
                topic: try row.value("topic"), partition: try row.value("partition"), offset: try row.value("offset")),
            text: try row.value("text"))
    }
}

/// Stored content of timelines.
struct StoredContent: PostgresStatement {
    struct Row: Sendable {
        let id: TimelineID
        let placedAt: Timestamp
        let revision: Int64
        /// Stored content; nil if there is none.
        let content: String?
    }

    let sql = """
        SELECT t.identity, t.placed_at, t.content_revision, t.content FROM timeline t WHERE t.identity = ANY ($1::uuid[])
        """

    let ids: [TimelineID]

    var parameters: PostgresParameters { PostgresParameters(PostgresArray(ids)) }

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            id: try row.value("identity"), placedAt: try row.value("placed_at"),
            revision: try row.value("content_revision"), content: try row.optional("content"))
    }
}

/// Conditions on a timeline `t` and its kind `k`, written independently of the product's functions.
private enum Condition {
    /// The kind of a row is not of the paused app, whose many rows wait.
    static func runs(_ row: String) -> String {
        """
        \(row).kind_id = ANY (ARRAY(SELECT r.id FROM kind r JOIN app a ON a.id = r.app_id WHERE a.paused_at IS NULL))
        """
    }

    static let stale = "(t.requested > t.rendered OR k.generation > t.generation)"

    /// The row has work, now or later, apart from reloads of everyone.
    static let hasWork = "(t.orphaned OR t.requested > t.rendered OR t.policy_at < 'infinity' AND NOT t.asleep)"

    /// The list of the row's appointment contains it.
    static let isAppointed = """
        EXISTS (SELECT FROM work w WHERE w.generation IS NULL AND w.kind_id = t.kind_id AND w.due_at = t.listed_at
                AND t.id = ANY (w.timelines))
        """

    /// A sweep is still ahead of the row or has listed it.
    static let isSwept = """
        (EXISTS (SELECT FROM sweep s WHERE s.kind_id = t.kind_id AND s.generation IS NOT NULL)
         OR EXISTS (SELECT FROM work w WHERE w.generation > t.generation AND w.kind_id = t.kind_id
                    AND t.id = ANY (w.timelines)))
        """

    static let isLost = """
        (\(hasWork) AND NOT \(isAppointed)
         OR k.generation > t.generation AND NOT \(isSwept) AND NOT \(isAppointed))
        """
}

/// Timelines with work that no list and no sweep will visit.
struct Unappointed: PostgresStatement {
    let sql = """
        SELECT (to_jsonb(t) - 'content')::text AS text FROM timeline t JOIN kind k ON k.id = t.kind_id
        WHERE \(Condition.runs("t")) AND (\(Condition.isLost)) LIMIT 5
        """

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> String { try row.value("text") }
}

/// Number of timelines with work, now or later.
struct AppointmentCount: PostgresStatement {
    let sql = "SELECT count(*) AS n FROM timeline t WHERE \(Condition.runs("t")) AND \(Condition.hasWork)"

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int64 { try row.value("n") }
}

/// Lists that are due, ready or leased.
struct ReadyListsLeft: PostgresStatement {
    let sql = """
        SELECT to_jsonb(w)::text AS text FROM work w WHERE \(Condition.runs("w")) AND w.due_at <= now() ORDER BY w.id LIMIT 5
        """

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> String { try row.value("text") }
}

/// Counts of unfinished work.
struct Unsettled: PostgresStatement {
    struct Row: Sendable, Equatable {
        let stale: Int64
        let orphaned: Int64
        let lists: Int64
        let sweeps: Int64
        let unforwarded: Int64
        let devices: Int64

        var isQuiet: Bool { stale + orphaned + lists + sweeps + unforwarded + devices == 0 }
    }

    let sql = """
        SELECT count(*) FILTER (WHERE \(Condition.stale)) AS stale, count(*) FILTER (WHERE t.orphaned) AS orphaned,
               (SELECT count(*) FROM work w WHERE \(Condition.runs("w")) AND w.due_at < now() + interval '1 hour')
                   AS lists,
               (SELECT count(*) FROM sweep) AS sweeps,
               (SELECT count(*) FROM dead_letter WHERE forwarded_at IS NULL) AS unforwarded,
               (SELECT count(*) FROM delivery_change) + (SELECT count(*) FROM registration WHERE changed > sent) AS devices
        FROM timeline t JOIN kind k ON k.id = t.kind_id WHERE \(Condition.runs("t"))
        """

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            stale: try row.value("stale"), orphaned: try row.value("orphaned"), lists: try row.value("lists"),
            sweeps: try row.value("sweeps"), unforwarded: try row.value("unforwarded"),
            devices: try row.value("devices"))
    }
}

/// Examples of unfinished work.
struct UnsettledRows: PostgresStatement {
    let sql = """
        (SELECT (to_jsonb(t) - 'content')::text AS text FROM timeline t JOIN kind k ON k.id = t.kind_id
         WHERE \(Condition.runs("t")) AND (t.orphaned OR \(Condition.stale)) ORDER BY t.listed_at LIMIT 4)
        UNION ALL
        (SELECT to_jsonb(w)::text FROM work w WHERE \(Condition.runs("w")) AND w.due_at < now() + interval '1 hour' ORDER BY w.due_at LIMIT 4)
        """

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> String { try row.value("text") }
}

/// Violations that the audit has recorded.
struct AuditRows: PostgresStatement {
    struct Row: Sendable {
        let id: Int64
        let what: String
        let old: String
        let new: String
    }

    let sql = "SELECT id, what, old_row, new_row FROM chaos_audit ORDER BY id"

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            id: try row.value("id"), what: try row.value("what"), old: try row.value("old_row"),
            new: try row.value("new_row"))
    }
}

/// Number of updates of timelines.
struct UpdateCount: PostgresStatement {
    let sql = """
        SELECT coalesce(sum(n_tup_upd), 0)::int8 AS n FROM pg_stat_user_tables WHERE relname = 'timeline'
        """

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int64 { try row.value("n") }
}
