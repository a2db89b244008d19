package import PostgresClient
package import WidgetModel

package typealias EventTrace = (position: EventPosition, traceparent: String)

private let traces = InputColumns<EventTrace>([
    .init("topic") { $0.position.topic }, .init("partition") { $0.position.partition },
    .init("place") { $0.position.offset }, .init("traceparent") { $0.traceparent },
])

private let insertEventTracesSQL = """
    INSERT INTO event_trace (topic, partition, "offset", traceparent)
    SELECT i.topic, i.partition, i.place, i.traceparent FROM \(traces.rows("i"))
    ORDER BY i.topic, i.partition, i.place
    ON CONFLICT (topic, partition, "offset") DO UPDATE
        SET traceparent = excluded.traceparent, received_at = excluded.received_at
    """

private let deleteOldEventTracesSQL = """
    WITH old AS MATERIALIZED (
        SELECT o.topic, o.partition, o."offset", o.received_at FROM event_trace o
        WHERE o.received_at >= timestamptz 'epoch' + $2::int8 * interval '1 microsecond'
            AND o.received_at < now() - $1::int8 * interval '1 millisecond'
        ORDER BY o.received_at LIMIT $3::int8
        FOR UPDATE SKIP LOCKED
    ), deleted AS (
        DELETE FROM event_trace t USING old o
        WHERE t.topic = o.topic AND t.partition = o.partition AND t."offset" = o."offset"
        RETURNING 1
    )
    SELECT (SELECT count(*) FROM deleted) AS deleted, \(OldRows.next(after: "o.received_at", in: "old o"))
    """

private let places = InputColumns<EventPosition>([
    .init("topic") { $0.topic }, .init("partition") { $0.partition }, .init("place") { $0.offset },
])

private let readEventTracesSQL = """
    SELECT t.topic, t.partition, t."offset", t.traceparent
    FROM \(places.rows("i"))
    JOIN event_trace t ON t.topic = i.topic AND t.partition = i.partition AND t."offset" = i.place
    """

extension PostgresStatement where Self == Statements {
    /// Stores the trace contexts of events, in the transaction that applies them. A context at the same place is of an
    /// earlier topic of that name, and is replaced.
    package static func insertEventTraces(_ contexts: [EventTrace]) -> PostgresQuery<Void> {
        PostgresQuery(insertEventTracesSQL, binding: traces.parameters(contexts))
    }

    /// Whether any trace context is stored.
    package static func eventTracesExist() -> PostgresQuery<Bool> {
        PostgresQuery("SELECT EXISTS (SELECT FROM event_trace) AS kept") { row in try row.value("kept") }
    }

    /// The trace contexts of some events.
    package static func readEventTraces(_ positions: [EventPosition]) -> PostgresQuery<EventTrace> {
        PostgresQuery(readEventTracesSQL, binding: places.parameters(positions)) { row in
            let position = try EventPosition(
                topic: row.value("topic"), partition: row.value("partition"), offset: row.value("offset"))
            return (position, try row.value("traceparent"))
        }
    }

    /// Age of the oldest trace context.
    package static func oldestEventTrace() -> PostgresQuery<Duration> {
        OldRows.oldest("t.received_at", in: "event_trace t")
    }

    /// Deletes a chunk of old trace contexts.
    ///
    /// - Parameter place: time of the first one to look at, in microseconds since 1970.
    package static func deleteOldEventTraces(olderThan age: Duration, after place: Int64 = 0, limit: Int)
        -> PostgresQuery<DeletedChunk>
    {
        PostgresQuery(deleteOldEventTracesSQL, age.wholeMilliseconds, place, limit) { row in try DeletedChunk(row) }
    }
}
