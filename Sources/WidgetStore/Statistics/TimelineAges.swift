package import PostgresClient

package struct TimelineAge: Hashable, Sendable {
    package let kindID: Int32
    /// Ages in seconds, at the 50th and the 99th percentile.
    package let median: Double
    package let late: Double
}

extension PostgresStatement where Self == Statements {
    /// Estimated number of timelines: the planner's, or, where the table has never been analysed, as many as would fit into it.
    package static func timelineEstimate() -> PostgresQuery<Int> {
        PostgresQuery(
            """
            SELECT CASE WHEN c.reltuples >= 0 THEN c.reltuples::int8
                        ELSE pg_relation_size(c.oid) / current_setting('block_size')::int8 * 8 END AS rows
            FROM pg_class c WHERE c.oid = 'timeline'::regclass
            """
        ) { row in try row.value("rows") }
    }

    /// Ages of timelines since they were rendered, by kind: percentiles of a sample of the table's pages. Kinds without a sampled
    /// timeline have no row.
    ///
    /// About `rows` rows are read of a table with an estimated number of them.
    package static func timelineAges(rows: Int, of estimate: Int) -> PostgresQuery<TimelineAge> {
        let percent = estimate <= rows ? 100 : max(0.000_1, 100 * Double(rows) / Double(estimate))
        return PostgresQuery(
            """
            SELECT t.kind_id,
                   percentile_disc(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM now() - t.rendered_at)::float8) AS median,
                   percentile_disc(0.99) WITHIN GROUP (ORDER BY extract(epoch FROM now() - t.rendered_at)::float8) AS late
            FROM timeline t TABLESAMPLE SYSTEM ($1::float8)
            WHERE t.rendered_at IS NOT NULL AND NOT t.orphaned
            GROUP BY t.kind_id
            """, percent
        ) { row in
            TimelineAge(kindID: try row.value("kind_id"), median: try row.value("median"), late: try row.value("late"))
        }
    }
}
