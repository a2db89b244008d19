package import PostgresClient
package import WidgetModel

/// What is to be known of the timeline that a widget shows, to answer a reader who has its content already.
package struct ShownTimeline: Hashable, Sendable {
    package let user: String
    /// Nil once the widget is removed.
    package let timelineID: TimelineID?
    /// Whether any generation that it was rendered at is behind the current one; true before the first time.
    package let isStale: Bool
    /// Of the stored content; nil while nothing is stored.
    package let hash: ContentHash?
    package let revision: Int64?
    package let renderedAt: Timestamp?
    /// The database's time.
    package let readAt: Timestamp

    /// How long ago it was rendered.
    package var age: Duration? { renderedAt.map { max(.zero, readAt - $0) } }
}

private let staleness = """
    coalesce(s.rendered < s.requested OR s.rendered_kind_generation < k.generation
             OR s.rendered_app_generation < a.generation, true)
    """

/// Reads ``ShownTimeline`` of one widget: the statement behind every poll, so it reads no content.
package struct CheckTimeline: PostgresStatement {
    package static let sql = """
        SELECT w.user_id, w.timeline_id, \(staleness), c.hash, c.revision, s.rendered_at, now()
        FROM app a
        JOIN widget w ON w.app_id = a.id
        JOIN kind k ON k.id = w.kind_id
        LEFT JOIN timeline_state s ON s.timeline_id = w.timeline_id
        LEFT JOIN timeline_content c ON c.timeline_id = w.timeline_id
        WHERE a.name = $1::text AND w.id = $2::text AND ($3::text IS NULL OR w.user_id = $3::text)
            AND k.retired_at IS NULL
        """

    let app: String
    let widget: String
    let user: String?

    /// - Parameter user: only if it is this user's.
    package init(app: String, widget: String, user: String? = nil) {
        self.app = app
        self.widget = widget
        self.user = user
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(app)
        parameters.append(widget)
        parameters.append(user)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> ShownTimeline {
        ShownTimeline(
            user: try row.value(0), timelineID: try row.optional(1, as: PostgresUUID.self).map { TimelineID($0) },
            isStale: try row.value(2), hash: try row.optional(3, as: PostgresUUID.self).map { ContentHash($0) },
            revision: try row.optional(4),
            renderedAt: try row.optional(5, as: PostgresTimestamp.self).map { Timestamp($0) },
            readAt: Timestamp(try row.value(6, as: PostgresTimestamp.self)))
    }
}

/// The timelines that the widgets of a device show, in the order of the widgets' ids.
package struct DeviceTimelines: PostgresStatement {
    package struct Row: Hashable, Sendable {
        package let widget: String
        package let kind: String
        package let user: String
        package let timelineID: TimelineID
        package let isStale: Bool
        package let hash: ContentHash?
        package let revision: Int64?
    }

    package static let sql = """
        SELECT w.id, k.name, w.user_id, w.timeline_id, \(staleness), c.hash, c.revision
        FROM app a
        JOIN widget w ON w.app_id = a.id
        JOIN kind k ON k.id = w.kind_id
        LEFT JOIN timeline_state s ON s.timeline_id = w.timeline_id
        LEFT JOIN timeline_content c ON c.timeline_id = w.timeline_id
        WHERE a.name = $1::text AND w.device_id = $2::text AND w.timeline_id IS NOT NULL
            AND ($3::text IS NULL OR w.user_id = $3::text) AND k.retired_at IS NULL
        ORDER BY w.id LIMIT $4::int8
        """

    let app: String
    let device: String
    let user: String?
    let limit: Int

    /// - Parameter user: only this user's widgets.
    package init(app: String, device: String, user: String?, limit: Int) {
        self.app = app
        self.device = device
        self.user = user
        self.limit = limit
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(app)
        parameters.append(device)
        parameters.append(user)
        parameters.append(Int64(limit))
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            widget: try row.value(0), kind: try row.value(1), user: try row.value(2),
            timelineID: TimelineID(try row.value(3, as: PostgresUUID.self)), isStale: try row.value(4),
            hash: try row.optional(5, as: PostgresUUID.self).map { ContentHash($0) }, revision: try row.optional(6))
    }
}
