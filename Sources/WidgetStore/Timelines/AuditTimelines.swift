package import PostgresClient
import WidgetModel

private let formula = RowFormula()

private let appointing = RowFormula(kind: "l.k_")

private let auditTimelinesSQL = """
    WITH page AS MATERIALIZED (
        SELECT t.id, t.kind_id, t.listed_at, \(formula.nextLook) AS next,
               k.retired_at IS NOT NULL AND NOT t.orphaned AS rests
        FROM timeline t JOIN kind k ON k.id = t.kind_id JOIN app a ON a.id = k.app_id
        WHERE t.id > $1::int8 ORDER BY t.id LIMIT $2::int8
    ), lost AS MATERIALIZED (
        SELECT p.id FROM page p
        WHERE p.next < 'infinity' AND NOT p.rests AND (p.listed_at = 'infinity'
                OR p.listed_at < now() - $3::int8 * interval '1 millisecond')
            AND NOT EXISTS (SELECT FROM work w WHERE w.kind_id = p.kind_id AND w.due_at = p.listed_at
                            AND p.id = ANY (w.timelines))
            -- A reload of everyone is no appointment: its rows are in the sweep's lists, or ahead of its walk.
            AND NOT (p.listed_at = 'infinity' AND (
                EXISTS (SELECT FROM sweep s WHERE s.kind_id = p.kind_id)
                OR EXISTS (SELECT FROM work w WHERE w.kind_id = p.kind_id AND w.generation IS NOT NULL)))
    ), locked AS MATERIALIZED (
        SELECT t.id, \(RowFormula.kindColumns) FROM timeline t JOIN kind k ON k.id = t.kind_id
        WHERE t.id IN (SELECT id FROM lost) ORDER BY t.id FOR NO KEY UPDATE OF t SKIP LOCKED
    ), appointed AS (
        UPDATE timeline t SET \(appointing.appointment)
        FROM locked l
        WHERE t.id = l.id AND \(appointing.nextLook) < 'infinity'
            AND (t.listed_at = 'infinity' OR t.listed_at < now() - $3::int8 * interval '1 millisecond')
        RETURNING t.id, t.kind_id, t.listed_at, t.listed_lane, t.listed_anew
    ), \(Appending.lists(of: "appointed"))
    SELECT (SELECT count(*) FROM appointed) AS appointed,
           CASE WHEN count(*) = $2::int8 THEN max(id) END AS last FROM page
    """

extension PostgresStatement where Self == Statements {
    /// One chunk of the audit: rows in id order that have something to do and no list that will look at them. They are
    /// locked, read again and appointed; the answer counts them. It stays at zero, or a protocol step is broken. The
    /// pass is done when the last row is nil.
    ///
    /// A row whose appointment lies ahead, or has been due for less than the slack, is trusted: if its list is lost, it
    /// is found once the slack is over.
    ///
    /// - Parameter slack: longer than any lease and than lists wait in a backlog.
    package static func auditTimelines(after: Int64, limit: Int, slack: Duration) -> PostgresQuery<
        (appointed: Int, last: Int64?)
    > {
        PostgresQuery(auditTimelinesSQL, after, limit, slack.wholeMilliseconds) { row in
            try (appointed: row.value("appointed"), last: row.optional("last"))
        }
    }
}
