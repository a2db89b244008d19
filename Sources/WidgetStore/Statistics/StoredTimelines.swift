package import PostgresClient
package import WidgetModel

package struct TimelineSummary: Hashable, Sendable {
    package let id: TimelineID
    /// Targeted requests so far, and those served by the last render.
    package let requested: Int64
    package let rendered: Int64
    /// Whether a request is newer than the stored content.
    package let isStale: Bool
    /// Hash and revision of the stored content; nil without content.
    package let hash: ContentHash?
    package let revision: Int64?
    package let requestedAt: Timestamp?
    package let renderedAt: Timestamp?
}

private let storedTimelinesSQL = """
    SELECT t.identity, t.requested, t.rendered, \(RowFormula.isStale) AS stale,
           CASE WHEN t.content_revision > 0 THEN t.hash END AS hash, nullif(t.content_revision, 0) AS revision,
           t.requested_at, t.rendered_at
    FROM timeline t JOIN kind k ON k.id = t.kind_id
    WHERE t.identity > $1::uuid
    ORDER BY t.identity
    LIMIT $2::int8
    """

extension PostgresStatement where Self == Statements {
    /// Every timeline with its stored content and pending requests, for checks of load tests. A full scan, page by page
    /// in the order of the public ids.
    ///
    /// - Parameter after: last id of the page before.
    package static func storedTimelines(after: TimelineID?, limit: Int) -> PostgresQuery<TimelineSummary> {
        PostgresQuery(storedTimelinesSQL, after ?? TimelineID(high: 0, low: 0), limit) { row in
            try TimelineSummary(
                id: row.value("identity"), requested: row.value("requested"), rendered: row.value("rendered"),
                isStale: row.value("stale"), hash: row.optional("hash"), revision: row.optional("revision"),
                requestedAt: row.optional("requested_at"), renderedAt: row.optional("rendered_at"))
        }
    }

    /// Number of timelines in ready or leased lists, and of sweeps: zero at the end of a run.
    package static func timelinesUnderWay() -> PostgresQuery<Int64> {
        PostgresQuery(
            """
            SELECT (SELECT coalesce(sum(cardinality(timelines)), 0)::int8 FROM work
                    WHERE ready_at <= now() OR lease IS NOT NULL OR due_at <= now())
                + (SELECT count(*) FROM sweep) AS count
            """
        ) { row in try row.value("count") }
    }
}
