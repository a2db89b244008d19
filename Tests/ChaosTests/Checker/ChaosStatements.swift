import PostgresClient
import WidgetModel
import WidgetStore

/// Rows as the checker reads them: straight from the tables, apart from the product's own statements.
struct StoredGenerations: PostgresStatement {
    struct Row: Sendable {
        let app: String
        let kind: String
        let appGeneration: Int64
        let kindGeneration: Int64
    }

    static let sql = """
        SELECT a.name, k.name, a.generation, k.generation FROM app a JOIN kind k ON k.app_id = a.id ORDER BY 1, 2
        """

    static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            app: try row.value(0), kind: try row.value(1), appGeneration: try row.value(2),
            kindGeneration: try row.value(3))
    }
}

struct StoredTimelines: PostgresStatement {
    struct Row: Sendable {
        let id: TimelineID
        let requested: Int64
        let claim: Int64
        let revision: Int64?
        let content: String?
        /// All of the hot row, for explanations.
        let text: String
        let isStale: Bool
    }

    static let sql = """
        SELECT t.id, s.requested, s.claim, c.revision, c.content, s::text,
               s.rendered < s.requested OR s.rendered_kind_generation < k.generation
                   OR s.rendered_app_generation < a.generation
        FROM timeline t JOIN timeline_state s ON s.timeline_id = t.id JOIN kind k ON k.id = t.kind_id
        JOIN app a ON a.id = k.app_id LEFT JOIN timeline_content c ON c.timeline_id = t.id
        """

    static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            id: TimelineID(try row.value(0, as: PostgresUUID.self)), requested: try row.value(1),
            claim: try row.value(2), revision: try row.optional(3), content: try row.optional(4),
            text: try row.value(5), isStale: try row.value(6))
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
        let changedAt: PostgresTimestamp
        let lastViewedAt: PostgresTimestamp?
        let views: Int64
    }

    static let sql = """
        SELECT a.name, w.id, k.name, w.family, w.timeline_id, w.user_id, w.device_id, w.locale, w.time_zone, w.changed_at,
               w.last_viewed_at, w.views
        FROM widget w JOIN app a ON a.id = w.app_id JOIN kind k ON k.id = w.kind_id
        """

    static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            app: try row.value(0), id: try row.value(1), kind: try row.value(2), family: try row.value(3),
            timeline: try row.optional(4, as: PostgresUUID.self).map { TimelineID($0) }, user: try row.value(5),
            device: try row.value(6), locale: try row.value(7), timeZone: try row.value(8),
            changedAt: try row.value(9), lastViewedAt: try row.optional(10), views: try row.value(11))
    }
}

struct StoredPositions: PostgresStatement {
    struct Row: Sendable {
        let topic: String
        let partition: Int32
        let next: Int64?
    }

    static let sql = "SELECT topic, partition, next_offset FROM consumer_position"

    static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(topic: try row.value(0), partition: try row.value(1), next: try row.optional(2))
    }
}

struct StoredDeadLetters: PostgresStatement {
    struct Row: Sendable {
        let place: ChaosModel.Place
        let text: String
    }

    static let sql = """
        SELECT topic, partition, "offset", coalesce(app, '') || ' ' || code || ': ' || error FROM dead_letter
        """

    static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            place: ChaosModel.Place(
                topic: try row.value(0), partition: try row.value(1), offset: try row.value(2)),
            text: try row.value(3))
    }
}

/// What is stored for timelines right now.
struct StoredContent: PostgresStatement {
    struct Row: Sendable {
        let id: TimelineID
        let createdAt: PostgresTimestamp
        let revision: Int64?
        let content: String?
    }

    static let sql = """
        SELECT t.id, t.created_at, c.revision, c.content
        FROM timeline t LEFT JOIN timeline_content c ON c.timeline_id = t.id WHERE t.id = ANY ($1::uuid[])
        """

    let ids: [TimelineID]

    func bind(_ parameters: inout PostgresParameters) {
        parameters.append(array: ids.map { PostgresUUID($0) })
    }

    static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            id: TimelineID(try row.value(0, as: PostgresUUID.self)), createdAt: try row.value(1),
            revision: try row.optional(2), content: try row.optional(3))
    }
}

/// What is not yet at rest.
struct Unsettled: PostgresStatement {
    struct Row: Sendable, Equatable {
        let stale: Int64
        let leased: Int64
        let orphaned: Int64
        let due: Int64
        let sweeps: Int64
        let unforwarded: Int64

        var isQuiet: Bool { stale + leased + orphaned + due + sweeps + unforwarded == 0 }
    }

    static let sql = """
        SELECT count(*) FILTER (WHERE s.rendered < s.requested OR s.rendered_kind_generation < k.generation
                                    OR s.rendered_app_generation < a.generation),
               count(*) FILTER (WHERE s.leased), count(*) FILTER (WHERE s.orphaned),
               count(*) FILTER (WHERE s.due_at < now() + interval '1 hour'), (SELECT count(*) FROM sweep),
               (SELECT count(*) FROM dead_letter WHERE forwarded_at IS NULL)
        FROM timeline_state s JOIN kind k ON k.id = s.kind_id JOIN app a ON a.id = k.app_id
        """

    static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            stale: try row.value(0), leased: try row.value(1), orphaned: try row.value(2), due: try row.value(3),
            sweeps: try row.value(4), unforwarded: try row.value(5))
    }
}

/// Examples of what is not at rest.
struct UnsettledRows: PostgresStatement {
    static let sql = """
        SELECT s::text FROM timeline_state s JOIN kind k ON k.id = s.kind_id JOIN app a ON a.id = k.app_id
        WHERE s.leased OR s.orphaned OR s.due_at < now() + interval '1 hour' OR s.rendered < s.requested
            OR s.rendered_kind_generation < k.generation OR s.rendered_app_generation < a.generation
        ORDER BY s.due_at LIMIT 5
        """

    static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> String { try row.value(0) }
}

/// What the audit has noted.
struct AuditRows: PostgresStatement {
    struct Row: Sendable {
        let id: Int64
        let what: String
        let old: String
        let new: String
    }

    static let sql = "SELECT id, what, old_row, new_row FROM chaos_audit ORDER BY id"

    static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(id: try row.value(0), what: try row.value(1), old: try row.value(2), new: try row.value(3))
    }
}

/// How many updates of hot rows there were.
struct UpdateCount: PostgresStatement {
    static let sql =
        "SELECT coalesce(sum(n_tup_upd), 0)::int8 FROM pg_stat_user_tables WHERE relname = 'timeline_state'"

    static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int64 { try row.value(0) }
}
