package import PostgresClient
package import WidgetModel

/// Locks, in one statement and so in one order, all rows of `timeline_state` that the lifecycle events, the marks and the views of
/// a transaction may write.
///
/// Each of their statements locks in primary-key order, but there are several of them: two processes whose batches
/// share timelines would wait for each other. Finding the rows twice costs something, so it is for those who have met.
package struct LockMarked: PostgresStatement {
    /// Answers how many there are.
    package static let sql = """
        WITH input AS MATERIALIZED (
            SELECT * FROM unnest($1::int2[], $2::int4[], $3::text[], $4::int4[], $5::text[])
                AS i (sort, app_id, audience_id, kind_id, matching)
        ), hit AS MATERIALIZED (
            SELECT DISTINCT i.matching, w.timeline_id
            FROM input i CROSS JOIN LATERAL (\(MarkAudiences.timelines(atMost: "$7::int8"))) w
        ), target AS MATERIALIZED (
            SELECT h.timeline_id FROM hit h
            WHERE h.matching IS NULL OR EXISTS (
                SELECT 1 FROM timeline t WHERE t.id = h.timeline_id AND t.configuration::jsonb @> h.matching::jsonb)
            UNION
            SELECT unnest($6::uuid[])
        ), locked AS (
            SELECT 1 FROM timeline_state s WHERE s.timeline_id IN (SELECT timeline_id FROM target)
            ORDER BY s.timeline_id
            FOR NO KEY UPDATE OF s
        )
        SELECT count(*) FROM locked
        """

    let audiences: MarkAudiences
    let ids: [TimelineID]
    let limit: Int

    /// - Parameters:
    ///   - ids: what lifecycle events touch.
    ///   - limit: the most widgets of an audience that are marked.
    package init(_ audiences: MarkAudiences, ids: [TimelineID], limit: Int) {
        self.audiences = audiences
        self.ids = ids
        self.limit = limit
    }

    package func bind(_ parameters: inout PostgresParameters) {
        audiences.bind(&parameters)
        parameters.append(array: ids.map { PostgresUUID($0) })
        parameters.append(Int64(limit))
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int64 { try row.value(0) }
}
