package import PostgresClient

package struct Overview: Hashable, Sendable {
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
}

private let overviewSQL = """
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

extension PostgresStatement where Self == Statements {
    /// Counts over the whole store, for the demo. Full scans: not for a loop on a large database.
    package static func overview() -> PostgresQuery<Overview> {
        PostgresQuery(overviewSQL) { row in
            try Overview(
                widgets: row.value("widgets"), timelines: row.value("timelines"), due: row.value("due"),
                leased: row.value("leased"), stale: row.value("stale"), stored: row.value("stored"),
                requested: row.value("requested"), sweeps: row.value("sweeps"), deadLetters: row.value("dead_letters"),
                deadLettersToForward: row.value("to_forward"))
        }
    }
}
