package import PostgresClient
package import WidgetModel

/// Counts over the whole store, for the demo. Full scans: not for a loop on a large database.
package struct Overview: PostgresStatement {
    package struct Row: Hashable, Sendable {
        package let widgets: Int64
        package let timelines: Int64
        /// Timelines with something to do now.
        package let due: Int64
        /// Timelines in leased lists.
        package let leased: Int64
        /// Timelines with a request newer than the stored content.
        package let stale: Int64
        package let stored: Int64
        /// Sum of the targeted requests: one for each event and timeline that it hit, plus one a timeline.
        package let requested: Int64
        package let sweeps: Int64
        package let deadLetters: Int64
        package let deadLettersToForward: Int64

        package init(
            widgets: Int64, timelines: Int64, due: Int64, leased: Int64, stale: Int64, stored: Int64, requested: Int64,
            sweeps: Int64, deadLetters: Int64, deadLettersToForward: Int64
        ) {
            self.widgets = widgets
            self.timelines = timelines
            self.due = due
            self.leased = leased
            self.stale = stale
            self.stored = stored
            self.requested = requested
            self.sweeps = sweeps
            self.deadLetters = deadLetters
            self.deadLettersToForward = deadLettersToForward
        }
    }

    package static let sql = """
        SELECT (SELECT count(*) FROM widget WHERE timeline_id IS NOT NULL) AS widgets, count(*) AS timelines,
               count(*) FILTER (WHERE \(RowFormula().nextLook) <= now()) AS due,
               (SELECT coalesce(sum(cardinality(timelines)), 0)::int8 FROM work
                WHERE lease IS NOT NULL AND ready_at > now()) AS leased,
               count(*) FILTER (WHERE \(RowFormula.isStale)) AS stale,
               count(*) FILTER (WHERE t.content_revision > 0) AS stored,
               coalesce(sum(t.requested), 0)::int8 AS requested, (SELECT count(*) FROM sweep) AS sweeps,
               (SELECT count(*) FROM dead_letter) AS dead_letters,
               (SELECT count(*) FROM dead_letter
                WHERE forwarded_at IS NULL AND unforwardable_at IS NULL AND cause <> 'diverted') AS to_forward
        FROM timeline t
        JOIN kind k ON k.id = t.kind_id
        """

    package init() {}

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            widgets: try row.value("widgets"), timelines: try row.value("timelines"), due: try row.value("due"),
            leased: try row.value("leased"), stale: try row.value("stale"), stored: try row.value("stored"),
            requested: try row.value("requested"), sweeps: try row.value("sweeps"),
            deadLetters: try row.value("dead_letters"), deadLettersToForward: try row.value("to_forward"))
    }
}

/// When each user's timelines of each kind were last rendered: the oldest of them. A full scan, for the demo's summary.
package struct RenderTimes: PostgresStatement {
    package struct Row: Sendable {
        package let app: String
        package let kind: String
        package let user: String
        /// `nil`: one of them has never been rendered.
        package let oldest: Timestamp?

        package init(app: String, kind: String, user: String, oldest: Timestamp?) {
            self.app = app
            self.kind = kind
            self.user = user
            self.oldest = oldest
        }
    }

    package static let sql = """
        SELECT a.name AS app, k.name AS kind, w.user_id,
               CASE WHEN bool_and(t.rendered_at IS NOT NULL) THEN min(t.rendered_at) END AS oldest
        FROM widget w
        JOIN timeline t ON t.id = w.timeline_id
        JOIN kind k ON k.id = w.kind_id
        JOIN app a ON a.id = k.app_id
        GROUP BY a.name, k.name, w.user_id
        """

    package init() {}

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            app: try row.value("app"), kind: try row.value("kind"), user: try row.value("user_id"),
            oldest: try row.optional("oldest"))
    }
}
