package import PostgresClient

/// Counts over the whole store, for the demo's view and its summary: full scans, not for a loop on a large database.
package struct Overview: PostgresStatement {
    package struct Row: Hashable, Sendable {
        package let widgets: Int64
        package let timelines: Int64
        /// Due now, leased or not.
        package let due: Int64
        package let leased: Int64
        /// Any generation rendered is behind the current one.
        package let stale: Int64
        package let stored: Int64
        /// Stored, but what was last published is something else.
        package let unpublished: Int64
        /// Sum of the targeted generations requested: one for each event and timeline it hit, plus one a timeline.
        package let requested: Int64
        package let sweeps: Int64
        package let deadLetters: Int64
        package let deadLettersToForward: Int64

        package init(
            widgets: Int64, timelines: Int64, due: Int64, leased: Int64, stale: Int64, stored: Int64,
            unpublished: Int64, requested: Int64, sweeps: Int64, deadLetters: Int64, deadLettersToForward: Int64
        ) {
            self.widgets = widgets
            self.timelines = timelines
            self.due = due
            self.leased = leased
            self.stale = stale
            self.stored = stored
            self.unpublished = unpublished
            self.requested = requested
            self.sweeps = sweeps
            self.deadLetters = deadLetters
            self.deadLettersToForward = deadLettersToForward
        }
    }

    package static let sql = """
        SELECT (SELECT count(*) FROM widget WHERE timeline_id IS NOT NULL), count(*),
               count(*) FILTER (WHERE s.due_at <= now()), count(*) FILTER (WHERE s.leased),
               count(*) FILTER (WHERE s.rendered < s.requested OR s.rendered_kind_generation < k.generation
                                   OR s.rendered_app_generation < a.generation),
               count(c.timeline_id), count(*) FILTER (WHERE c.hash IS DISTINCT FROM s.published_hash),
               coalesce(sum(s.requested), 0)::int8,
               (SELECT count(*) FROM sweep), (SELECT count(*) FROM dead_letter),
               (SELECT count(*) FROM dead_letter
                WHERE forwarded_at IS NULL AND unforwardable_at IS NULL AND cause <> 'diverted')
        FROM timeline_state s
        JOIN kind k ON k.id = s.kind_id
        JOIN app a ON a.id = k.app_id
        LEFT JOIN timeline_content c ON c.timeline_id = s.timeline_id
        """

    package init() {}

    package func bind(_ parameters: inout PostgresParameters) {}

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            widgets: try row.value(0), timelines: try row.value(1), due: try row.value(2), leased: try row.value(3),
            stale: try row.value(4), stored: try row.value(5), unpublished: try row.value(6),
            requested: try row.value(7), sweeps: try row.value(8), deadLetters: try row.value(9),
            deadLettersToForward: try row.value(10))
    }
}

/// When each user's timelines of each kind were last rendered: the oldest of them. A full scan, for the demo's summary.
package struct RenderTimes: PostgresStatement {
    package struct Row: Sendable {
        package let app: String
        package let kind: String
        package let user: String
        /// `nil`: one of them has never been rendered.
        package let oldest: PostgresTimestamp?

        package init(app: String, kind: String, user: String, oldest: PostgresTimestamp?) {
            self.app = app
            self.kind = kind
            self.user = user
            self.oldest = oldest
        }
    }

    package static let sql = """
        SELECT a.name, k.name, w.user_id,
               CASE WHEN bool_and(s.rendered_at IS NOT NULL) THEN min(s.rendered_at) END
        FROM widget w
        JOIN timeline_state s ON s.timeline_id = w.timeline_id
        JOIN kind k ON k.id = w.kind_id
        JOIN app a ON a.id = k.app_id
        GROUP BY a.name, k.name, w.user_id
        """

    package init() {}

    package func bind(_ parameters: inout PostgresParameters) {}

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(app: try row.value(0), kind: try row.value(1), user: try row.value(2), oldest: try row.optional(3))
    }
}
