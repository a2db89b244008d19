package import PostgresClient

/// Keeps the trace contexts of events, in the transaction that applies them. One that is there already is of the same
/// place of a topic that was made anew, and gives way.
package struct InsertEventTraces: PostgresStatement {
    package static let sql = """
        INSERT INTO event_trace (topic, partition, "offset", traceparent)
        SELECT i.topic, i.partition, i."offset", i.traceparent
        FROM unnest($1::int2[], $2::int4[], $3::int8[], $4::text[]) AS i (topic, partition, "offset", traceparent)
        ORDER BY i.topic, i.partition, i."offset"
        ON CONFLICT (topic, partition, "offset") DO UPDATE
            SET traceparent = excluded.traceparent, received_at = excluded.received_at
        """

    let traces: [(position: EventPosition, traceparent: String)]

    package init(_ traces: [(position: EventPosition, traceparent: String)]) {
        self.traces = traces
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(array: traces.map(\.position.topic))
        parameters.append(array: traces.map(\.position.partition))
        parameters.append(array: traces.map(\.position.offset))
        parameters.append(array: traces.map(\.traceparent))
    }
}

/// Whether any trace context is kept: asked now and then, so that without any nobody looks for them.
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

    package static let sql = """
        SELECT t.topic, t.partition, t."offset", t.traceparent
        FROM unnest($1::int2[], $2::int4[], $3::int8[]) AS i (topic, partition, "offset")
        JOIN event_trace t ON t.topic = i.topic AND t.partition = i.partition AND t."offset" = i."offset"
        """

    let positions: [EventPosition]

    package init(_ positions: [EventPosition]) {
        self.positions = positions
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(array: positions.map(\.topic))
        parameters.append(array: positions.map(\.partition))
        parameters.append(array: positions.map(\.offset))
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

    let age: Duration
    let limit: Int

    package init(olderThan age: Duration, limit: Int) {
        self.age = age
        self.limit = limit
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(age.wholeMilliseconds)
        parameters.append(Int64(limit))
    }
}
