package import PostgresClient
package import WidgetModel

/// The views of one widget in a batch.
package struct WidgetViews: Hashable, Sendable {
    package var appID: Int32
    package var widget: String
    /// In the order of the log.
    package var times: [Timestamp]

    package init(appID: Int32, widget: String, times: [Timestamp]) {
        self.appID = appID
        self.widget = widget
        self.times = times
    }
}

/// Counts views. A widget's row is written at most once an hour of views: a view within the hour after the last counted
/// one changes nothing and writes nothing (design, section 4). A view from the future counts as now. Which views count
/// does not depend on how they are batched (`count_views`, as `ViewStatistics.counted`).
///
/// A timeline that sleeps because nobody looked at it is due by its policy again. One that is leased may be on its way to
/// sleep: its lock makes that wait for what is counted here, or this for the sleep.
package struct RecordViews: PostgresStatement {
    package static let sql = """
        WITH seen AS MATERIALIZED (
            SELECT i.app_id, i.id, v.times
            FROM unnest($1::int4[], $2::text[]) WITH ORDINALITY AS i (app_id, id, ord)
            JOIN (SELECT ord, array_agg(least(at, now()) ORDER BY n) AS times, max(least(at, now())) AS latest
                  FROM unnest($3::int4[], $4::timestamptz[]) WITH ORDINALITY AS t (ord, at, n) GROUP BY ord) v ON v.ord = i.ord
            JOIN widget w ON w.app_id = i.app_id AND w.id = i.id
            WHERE w.timeline_id IS NOT NULL
                AND (w.last_viewed_at IS NULL OR v.latest >= w.last_viewed_at + interval '1 hour')
        ), locked AS (
            SELECT w.app_id, w.id, w.timeline_id, w.view_rate, w.views, w.last_viewed_at, n.times
            FROM seen n JOIN widget w ON w.app_id = n.app_id AND w.id = n.id
            ORDER BY w.app_id, w.id
            FOR NO KEY UPDATE OF w
        ), counted AS MATERIALIZED (
            SELECT l.app_id, l.id, l.timeline_id, l.views + c.views AS views, c.last_viewed_at, c.view_rate
            FROM locked l CROSS JOIN LATERAL count_views(l.view_rate, l.last_viewed_at, l.times) c
            WHERE c.views > 0 AND l.timeline_id IS NOT NULL
        ), written AS (
            UPDATE widget w SET views = c.views, last_viewed_at = c.last_viewed_at, view_rate = c.view_rate
            FROM counted c WHERE w.app_id = c.app_id AND w.id = c.id
            RETURNING 1
        ), asleep AS (
            SELECT s.timeline_id, s.view_class, s.leased FROM timeline_state s
            WHERE s.timeline_id IN (SELECT timeline_id FROM counted)
                AND (s.view_class = \(ViewClass.dormant.rawValue) OR s.leased) AND NOT s.orphaned
            ORDER BY s.timeline_id
            FOR NO KEY UPDATE
        ), woken AS (
            UPDATE timeline_state s
            SET due_at = least(s.due_at, greatest(now(), s.retry_at, s.eligible_at)),
                lane = least(s.lane, \(ReloadLane.scheduled.rawValue)), view_class = \(ViewClass.seldom.rawValue)
            FROM asleep a
            WHERE s.timeline_id = a.timeline_id AND a.view_class = \(ViewClass.dormant.rawValue) AND NOT a.leased
            RETURNING 1
        )
        SELECT (SELECT count(*) FROM written), (SELECT count(*) FROM woken)
        """

    package struct Outcome: Hashable, Sendable {
        /// Widget rows written.
        package let written: Int64
        /// Timelines that had slept.
        package let woken: Int64
    }

    let views: [WidgetViews]

    package init(_ views: [WidgetViews]) {
        self.views = views
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(array: views.map(\.appID))
        parameters.append(array: views.map(\.widget))
        parameters.append(array: views.indices.flatMap { index in views[index].times.map { _ in Int32(index + 1) } })
        parameters.append(array: views.flatMap { $0.times.map { PostgresTimestamp($0) } })
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Outcome {
        Outcome(written: try row.value(0), woken: try row.value(1))
    }
}
