package import PostgresClient
package import WidgetModel

/// Every timeline with what is stored of it and what it is still asked for: for whoever checks a run from outside. A full
/// scan, page by page in the order of the ids.
package struct StoredTimelines: PostgresStatement {
    package struct Row: Hashable, Sendable {
        package let id: TimelineID
        /// Its own generation, and the one that is rendered.
        package let requested: Int64
        package let rendered: Int64
        /// Any generation rendered is behind the current one.
        package let isStale: Bool
        /// Of the stored content; `nil` when there is none.
        package let hash: ContentHash?
        package let revision: Int64?
        package let publishedHash: ContentHash?
        package let requestedAt: PostgresTimestamp?
        package let renderedAt: PostgresTimestamp?
    }

    package static let sql = """
        SELECT s.timeline_id, s.requested, s.rendered,
               s.rendered < s.requested OR s.rendered_kind_generation < k.generation
                   OR s.rendered_app_generation < a.generation,
               c.hash, c.revision, s.published_hash, s.requested_at, s.rendered_at
        FROM timeline_state s
        JOIN kind k ON k.id = s.kind_id
        JOIN app a ON a.id = k.app_id
        LEFT JOIN timeline_content c ON c.timeline_id = s.timeline_id
        WHERE s.timeline_id > $1::uuid
        ORDER BY s.timeline_id
        LIMIT $2::int8
        """

    let after: TimelineID
    let limit: Int

    /// - Parameter after: the last id of the page before.
    package init(after: TimelineID?, limit: Int) {
        self.after = after ?? TimelineID(PostgresUUID(high: 0, low: 0))
        self.limit = limit
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(PostgresUUID(after))
        parameters.append(Int64(limit))
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            id: TimelineID(try row.value(0, as: PostgresUUID.self)), requested: try row.value(1),
            rendered: try row.value(2), isStale: try row.value(3),
            hash: try row.optional(4, as: PostgresUUID.self).map { ContentHash($0) }, revision: try row.optional(5),
            publishedHash: try row.optional(6, as: PostgresUUID.self).map { ContentHash($0) },
            requestedAt: try row.optional(7), renderedAt: try row.optional(8))
    }
}

/// How many timelines are due or claimed: a full scan, to see that a run is over.
package struct TimelinesUnderWay: PostgresStatement {
    package static let sql = "SELECT count(*) FROM timeline_state WHERE leased OR due_at <= now()"

    package init() {}

    package func bind(_ parameters: inout PostgresParameters) {}

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int64 { try row.value(0) }
}
