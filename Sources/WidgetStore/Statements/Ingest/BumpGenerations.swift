package import PostgresClient
package import WidgetModel

/// A reload of everyone: one row update for each app or kind, whatever the number of its widgets.
package struct GenerationBump: Hashable, Sendable {
    /// Row id of the app or the kind.
    package var id: Int32
    /// How many events are folded into it.
    package var events: Int64
    package var urgency: RequestUrgency
    /// The latest of them, and its reason.
    package var cause: EventPosition
    package var reason: ReloadReason

    package init(id: Int32, events: Int64, urgency: RequestUrgency, cause: EventPosition, reason: ReloadReason) {
        self.id = id
        self.events = events
        self.urgency = urgency
        self.cause = cause
        self.reason = reason
    }
}

extension PostgresParameters {
    fileprivate mutating func append(bumps: [GenerationBump]) {
        append(array: bumps.map(\.id))
        append(array: bumps.map(\.events))
        append(array: bumps.map(\.urgency.rawValue))
        append(array: bumps.map(\.cause.topic))
        append(array: bumps.map(\.cause.partition))
        append(array: bumps.map(\.cause.offset))
        append(array: bumps.map(\.reason.rawValue))
    }
}

private func bumpSQL(of table: String) -> String {
    """
    WITH locked AS (
        SELECT t.id, i.events, i.urgency, i.topic, i.partition, i."offset", i.reason
        FROM unnest($1::int4[], $2::int8[], $3::int2[], $4::int2[], $5::int4[], $6::int8[], $7::int2[])
            AS i (id, events, urgency, topic, partition, "offset", reason)
        JOIN \(table) t ON t.id = i.id
        ORDER BY t.id
        FOR NO KEY UPDATE OF t
    )
    UPDATE \(table) t
    SET generation = t.generation + l.events,
        free_generation = CASE WHEN l.urgency > 0 THEN t.generation + l.events ELSE t.free_generation END,
        operator_generation = CASE WHEN l.urgency > 1 THEN t.generation + l.events ELSE t.operator_generation END,
        cause_topic = l.topic, cause_partition = l.partition, cause_offset = l."offset", cause_reason = l.reason,
        bumped_at = now()
    FROM locked l WHERE t.id = l.id
    """
}

/// Everyone, all kinds of the app.
package struct BumpApps: PostgresStatement {
    package static let sql = bumpSQL(of: "app")
    let bumps: [GenerationBump]

    package init(_ bumps: [GenerationBump]) {
        self.bumps = bumps
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(bumps: bumps)
    }
}

/// Everyone, one kind.
package struct BumpKinds: PostgresStatement {
    package static let sql = bumpSQL(of: "kind")
    let bumps: [GenerationBump]

    package init(_ bumps: [GenerationBump]) {
        self.bumps = bumps
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(bumps: bumps)
    }
}
