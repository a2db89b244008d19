package import PostgresClient

/// Stores the trace contexts of events, in the transaction that applies them. It replaces one of the same place, which is of
/// an earlier topic of that name.
package struct InsertEventTraces: PostgresStatement {
    package typealias Trace = (position: EventPosition, traceparent: String)

    private static let input = InputColumns<Trace>([
        .init("topic") { $0.position.topic }, .init("partition") { $0.position.partition },
        .init("place") { $0.position.offset }, .init("traceparent") { $0.traceparent },
    ])

    package static let sql = """
        INSERT INTO event_trace (topic, partition, "offset", traceparent)
        SELECT i.topic, i.partition, i.place, i.traceparent FROM \(input.rows("i"))
        ORDER BY i.topic, i.partition, i.place
        ON CONFLICT (topic, partition, "offset") DO UPDATE
            SET traceparent = excluded.traceparent, received_at = excluded.received_at
        """

    package let parameters: PostgresParameters

    package init(_ traces: [Trace]) {
        parameters = Self.input.parameters(traces)
    }
}

/// Whether any trace context is stored; while there is none, they are not looked up.
package struct EventTracesExist: PostgresStatement {
    package static let sql = "SELECT EXISTS (SELECT FROM event_trace) AS kept"

    package init() {}

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Bool { try row.value("kept") }
}

/// The trace contexts of some events.
package struct ReadEventTraces: PostgresStatement {
    package struct Row: Sendable {
        package let position: EventPosition
        package let traceparent: String
    }

    private static let input = InputColumns<EventPosition>([
        .init("topic") { $0.topic }, .init("partition") { $0.partition }, .init("place") { $0.offset },
    ])

    package static let sql = """
        SELECT t.topic, t.partition, t."offset", t.traceparent
        FROM \(input.rows("i"))
        JOIN event_trace t ON t.topic = i.topic AND t.partition = i.partition AND t."offset" = i.place
        """

    package let parameters: PostgresParameters

    package init(_ positions: [EventPosition]) {
        parameters = Self.input.parameters(positions)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            position: EventPosition(
                topic: try row.value("topic"), partition: try row.value("partition"), offset: try row.value("offset")),
            traceparent: try row.value("traceparent"))
    }
}

/// Deletes a chunk of the trace contexts that are old.
package struct DeleteOldEventTraces: PostgresStatement {
    package static let sql = """
        DELETE FROM event_trace t USING (
            SELECT o.topic, o.partition, o."offset" FROM event_trace o
            WHERE o.received_at < now() - $1::int8 * interval '1 millisecond'
            ORDER BY o.topic, o.partition, o."offset"
            LIMIT $2::int8
            FOR UPDATE SKIP LOCKED
        ) old
        WHERE t.topic = old.topic AND t.partition = old.partition AND t."offset" = old."offset"
        """

    package let parameters: PostgresParameters

    package init(olderThan age: Duration, limit: Int) {
        parameters = PostgresParameters(age.wholeMilliseconds, limit)
    }
}
