package import PostgresClient
package import WidgetModel

/// Locks, in one statement and so in one order, all rows of `timeline_state` that the mark statements behind it and the
/// lifecycle events of the same transaction are about to write.
///
/// Each of those statements locks in primary-key order, but a transaction has several of them: two processes whose batches
/// share timelines would wait for each other. Finding the rows twice costs something, so it is for those who have met.
package struct LockMarked: PostgresStatement {
    private static func branch(_ sort: Int, _ audience: String) -> String {
        """
        (SELECT w.timeline_id FROM widget w
         WHERE i.sort = \(sort) AND w.app_id = i.app_id AND w.\(audience) = i.audience_id
             AND w.timeline_id IS NOT NULL AND (i.kind_id IS NULL OR w.kind_id = i.kind_id)
         LIMIT $7::int8)
        """
    }

    /// Answers how many there are.
    package static let sql = """
        WITH input AS MATERIALIZED (
            SELECT * FROM unnest($1::int2[], $2::int4[], $3::text[], $4::int4[], $5::text[])
                AS i (sort, app_id, audience_id, kind_id, matching)
        ), hit AS MATERIALIZED (
            SELECT DISTINCT i.matching, w.timeline_id
            FROM input i CROSS JOIN LATERAL (
                \(branch(0, "user_id"))
                UNION ALL
                \(branch(1, "device_id"))
                UNION ALL
                \(branch(2, "id"))
            ) w
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

    let marks: [TimelineMark]
    let sorts: [Int16]
    let ids: [TimelineID]
    let limit: Int

    /// - Parameters:
    ///   - ids: what lifecycle events touch.
    ///   - limit: the most widgets of an audience that are marked.
    package init(
        users: [TimelineMark], devices: [TimelineMark], widgets: [TimelineMark], ids: [TimelineID], limit: Int
    ) {
        marks = users + devices + widgets
        sorts = users.map { _ in 0 } + devices.map { _ in 1 } + widgets.map { _ in 2 }
        self.ids = ids
        self.limit = limit
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(array: sorts)
        parameters.append(array: marks.map(\.appID))
        parameters.append(array: marks.map(\.audienceID))
        parameters.append(array: marks.map(\.kindID))
        parameters.append(array: marks.map(\.matching))
        parameters.append(array: ids.map { PostgresUUID($0) })
        parameters.append(Int64(limit))
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int64 { try row.value(0) }
}
