package import PostgresClient
package import WidgetModel

/// A timeline: what it is, what is wanted and rendered, and what is stored.
package struct TimelineDetail: Sendable {
    package let id: TimelineID
    package let app: String
    package let kind: String
    package let family: WidgetFamily?
    package let configuration: String
    package let locale: String?
    package let timeZone: String?
    package let user: String?
    package let requested: Int64
    package let rendered: Int64
    package let kindGeneration: Int64
    package let renderedKindGeneration: Int64
    package let appGeneration: Int64
    package let renderedAppGeneration: Int64
    package let isLeased: Bool
    package let isOrphaned: Bool
    package let lane: ReloadLane
    package let dueAt: PostgresTimestamp
    package let renderedAt: Timestamp?
    package let attempts: Int16
    package let decision: Decision?
    package let cause: EventPosition?
    package let publishedHash: ContentHash?
    package let storedHash: ContentHash?
    package let revision: Int64?
    package let storedAt: Timestamp?
    /// Canonical JSON of policy and entries; `nil` before the first successful fetch.
    package let content: String?
    /// The database's time when it was read.
    package let readAt: Timestamp

    /// Whether any generation it was rendered at is behind the current one.
    package var isStale: Bool {
        rendered < requested || renderedKindGeneration < kindGeneration || renderedAppGeneration < appGeneration
    }
}

/// One timeline by its id.
package struct ReadTimeline: PostgresStatement {
    package static let sql = """
        SELECT s.timeline_id, a.name, k.name, t.family, t.configuration, t.locale, t.time_zone, t.user_id,
               s.requested, s.rendered, k.generation, s.rendered_kind_generation, a.generation,
               s.rendered_app_generation, s.leased, s.orphaned, s.lane, s.due_at, s.rendered_at, s.attempts,
               s.last_decision, s.cause_topic, s.cause_partition, s.cause_offset, s.published_hash,
               c.hash, c.revision, c.stored_at, c.content, now()
        FROM timeline_state s
        JOIN timeline t ON t.id = s.timeline_id
        JOIN kind k ON k.id = s.kind_id
        JOIN app a ON a.id = k.app_id
        LEFT JOIN timeline_content c ON c.timeline_id = s.timeline_id
        WHERE s.timeline_id = $1::uuid AND a.name = $2::text AND k.retired_at IS NULL
        """

    let id: TimelineID
    let app: String

    package init(id: TimelineID, app: String) {
        self.id = id
        self.app = app
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(PostgresUUID(id))
        parameters.append(app)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> TimelineDetail {
        var cause: EventPosition?
        if let topic = try row.optional(21, as: Int16.self), let partition = try row.optional(22, as: Int32.self),
            let offset = try row.optional(23, as: Int64.self)
        {
            cause = EventPosition(topic: topic, partition: partition, offset: offset)
        }
        return TimelineDetail(
            id: TimelineID(try row.value(0, as: PostgresUUID.self)), app: try row.value(1), kind: try row.value(2),
            family: try row.optionalFamily(3), configuration: try row.value(4), locale: try row.optional(5),
            timeZone: try row.optional(6), user: try row.optional(7), requested: try row.value(8),
            rendered: try row.value(9), kindGeneration: try row.value(10),
            renderedKindGeneration: try row.value(11), appGeneration: try row.value(12),
            renderedAppGeneration: try row.value(13), isLeased: try row.value(14), isOrphaned: try row.value(15),
            lane: try row.lane(16), dueAt: try row.value(17),
            renderedAt: try row.optional(18, as: PostgresTimestamp.self).map { Timestamp($0) },
            attempts: try row.value(19), decision: Decision(rawValue: try row.value(20)), cause: cause,
            publishedHash: try row.optional(24, as: PostgresUUID.self).map { ContentHash($0) },
            storedHash: try row.optional(25, as: PostgresUUID.self).map { ContentHash($0) },
            revision: try row.optional(26),
            storedAt: try row.optional(27, as: PostgresTimestamp.self).map { Timestamp($0) },
            content: try row.optional(28), readAt: Timestamp(try row.value(29, as: PostgresTimestamp.self)))
    }
}
