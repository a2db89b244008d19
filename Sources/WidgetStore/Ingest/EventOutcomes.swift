// SPDX-License-Identifier: Apache-2.0

package import PostgresClient
package import WidgetModel

/// Outcome of an event, kept for its producer.
package struct EventOutcome: Hashable, Sendable {
    package enum Result: String, CaseIterable, Sendable, PostgresConvertible {
        case applied
        /// The event is older than a change of the widget that was applied before it.
        case outdated
        /// The widget or device is unknown.
        case ignored
        case deadLetter
        /// The app is diverted; the event is stored and applied later.
        case diverted
    }

    package var appID: Int32
    /// The attribute `id`.
    package var event: String
    /// The attribute `source`, within which ids are unique.
    package var source: String
    package var type: String
    package var topic: String
    package var partition: Int32
    package var offset: Int64
    /// User to which the event was limited.
    package var user: String?
    package var widget: String?
    package var time: Timestamp?
    package var result: Result
    /// Class of the error, or reason why the event had no effect; nil for an applied event.
    package var code: String?
    package var detail: String?
    /// JSON pointer to the error.
    package var pointer: String?

    /// Code of an event that was dropped because too many events of its diverted app wait.
    package static let dropped = "dropped"

    package init(
        appID: Int32, event: String, source: String, type: String, topic: String, partition: Int32, offset: Int64,
        user: String? = nil, widget: String? = nil, time: Timestamp? = nil, result: Result = .applied,
        code: String? = nil, detail: String? = nil, pointer: String? = nil
    ) {
        (self.appID, self.event, self.source, self.type, self.topic) = (appID, event, source, type, topic)
        (self.partition, self.offset, self.user, self.widget, self.time) = (partition, offset, user, widget, time)
        (self.result, self.code, self.detail, self.pointer) = (result, code, detail, pointer)
    }

    fileprivate init(_ row: borrowing PostgresRow) throws(PostgresError) {
        try self.init(
            appID: row.value("app_id"), event: row.value("event_id"), source: row.value("source"),
            type: row.value("type"), topic: row.value("topic"), partition: row.value("partition"),
            offset: row.value("offset"), user: row.optional("user_id"), widget: row.optional("widget"),
            time: row.optional("event_time"), result: row.value("result"), code: row.optional("code"),
            detail: row.optional("detail"), pointer: row.optional("pointer"))
    }
}

private let outcomeColumns = InputColumns<EventOutcome>([
    .init("app_id") { $0.appID }, .init("event_id") { $0.event }, .init("source") { $0.source },
    .init("type") { $0.type }, .init("topic") { $0.topic }, .init("partition") { $0.partition },
    .init("\"offset\"") { $0.offset }, .init("user_id") { $0.user }, .init("widget") { $0.widget },
    .init("event_time") { $0.time }, .init("result") { $0.result }, .init("code") { $0.code },
    .init("detail") { $0.detail }, .init("pointer") { $0.pointer },
])

private let insertEventOutcomesSQL = """
    INSERT INTO event_outcome (\(outcomeColumns.names))
    SELECT \(outcomeColumns.names) FROM \(outcomeColumns.rows("i"))
    ORDER BY i.app_id, i.event_id, i.source, i.user_id
    ON CONFLICT (app_id, event_id, source, user_id) DO UPDATE
        SET \(outcomeColumns.updates), recorded_at = excluded.recorded_at, seq = DEFAULT
    """

private let readEventOutcomeSQL = """
    SELECT o.*
    FROM event_outcome o JOIN app a ON a.id = o.app_id
    WHERE a.name = $1::text AND o.event_id = $2::text AND ($3::text IS NULL OR o.source = $3::text)
        AND ($5::bool OR o.user_id IS NOT DISTINCT FROM $4::text)
    ORDER BY o.recorded_at DESC LIMIT 1
    """

/// Identity of an event whose outcome is requested.
package struct EventName: Hashable, Sendable {
    package var app: String
    package var id: String
    /// The attribute `source`; nil for any.
    package var source: String?
    /// User to which the event is limited; nil for none.
    package var user: String?
    /// Whether events limited to any user match.
    package var isOfAnyUser: Bool

    package init(app: String, id: String, source: String? = nil, user: String? = nil, isOfAnyUser: Bool = false) {
        (self.app, self.id, self.source, self.user, self.isOfAnyUser) = (app, id, source, user, isOfAnyUser)
    }
}

private let findEventOutcomesInput = InputColumns<EventName>([
    .init("app") { $0.app }, .init("event_id") { $0.id }, .init("source") { $0.source },
    .init("user_id") { $0.user }, .init("of_any_user") { $0.isOfAnyUser },
])

private let findEventOutcomesSQL = """
    SELECT i.ord
    FROM \(findEventOutcomesInput.rows("i"))
    JOIN app a ON a.name = i.app
    WHERE EXISTS (
        SELECT FROM event_outcome o
        WHERE o.app_id = a.id AND o.event_id = i.event_id AND (i.source IS NULL OR o.source = i.source)
            AND (i.of_any_user OR o.user_id IS NOT DISTINCT FROM i.user_id)
    )
    """

/// An event with its position in Kafka and the user to which it is limited.
package typealias RepeatableEvent = (
    record: Int32, app: String, id: String, source: String, user: String?, topic: String, partition: Int32,
    offset: Int64
)

private let repeatableEvents = InputColumns<RepeatableEvent>([
    .init("record") { $0.record }, .init("app") { $0.app }, .init("event_id") { $0.id },
    .init("source") { $0.source }, .init("user_id") { $0.user }, .init("topic") { $0.topic },
    .init("partition") { $0.partition }, .init("place") { $0.offset },
])

/// Events of different users are distinct, so that none suppresses another user's.
private let findRepeatedEventsSQL = """
    SELECT i.record
    FROM \(repeatableEvents.rows("i"))
    JOIN app a ON a.name = i.app
    JOIN event_outcome o ON o.app_id = a.id AND o.event_id = i.event_id AND o.source = i.source
        AND o.user_id IS NOT DISTINCT FROM i.user_id
    WHERE (o.topic, o.partition, o."offset") <> (i.topic, i.partition, i.place)
        AND o.code IS DISTINCT FROM '\(EventOutcome.dropped)'
    """

private let ignoredEventsSQL = """
    SELECT o.*
    FROM event_outcome o JOIN app a ON a.id = o.app_id
    WHERE a.name = $1::text AND o.widget = $2::text AND o.result IN ('outdated', 'ignored')
    ORDER BY o.seq DESC
    LIMIT 5
    """

private let deleteOldEventOutcomesSQL = """
    \(deletedRows(from: "event_outcome"))
    SELECT \(deletedChunkColumns)
    """

extension PostgresStatement where Self == Statements {
    /// Stores outcomes in the transaction that applies the events. An event applied again, such as a dead letter,
    /// replaces its outcome.
    ///
    /// - Parameter outcomes: at most one for each app, id, source and user.
    package static func insertEventOutcomes(_ outcomes: [EventOutcome]) -> PostgresQuery<Void> {
        PostgresQuery(insertEventOutcomesSQL, binding: outcomeColumns.parameters(outcomes))
    }

    /// Reads the latest outcome of an event.
    package static func readEventOutcome(_ event: EventName) -> PostgresQuery<EventOutcome> {
        PostgresQuery(
            readEventOutcomeSQL, event.app, event.id, event.source, event.user, event.isOfAnyUser
        ) { row in try EventOutcome(row) }
    }

    /// Finds the repetitions among events: those that were applied or stored from another position in Kafka.
    package static func findRepeatedEvents(_ events: [RepeatableEvent]) -> PostgresQuery<Int32> {
        PostgresQuery(findRepeatedEventsSQL, binding: repeatableEvents.parameters(events)) { row in
            try row.value("record")
        }
    }

    /// Finds the events that have an outcome.
    package static func findEventOutcomes(_ events: [EventName]) -> PostgresQuery<EventName> {
        PostgresQuery(findEventOutcomesSQL, binding: findEventOutcomesInput.parameters(events)) { row in
            events[Int(try row.value("ord") as Int64) - 1]
        }
    }

    /// Reads the latest five lifecycle events of a widget that had no effect.
    package static func ignoredEvents(app: String, widget: String) -> PostgresQuery<EventOutcome> {
        PostgresQuery(ignoredEventsSQL, app, widget) { row in try EventOutcome(row) }
    }

    /// Age of the oldest outcome.
    package static func oldestEventOutcome() -> PostgresQuery<Duration> {
        ageOfOldest("o.recorded_at", in: "event_outcome o", by: "o.seq")
    }

    /// Deletes the outcomes that are old or exceed an app's limit in the chunk behind a place.
    package static func deleteOldEventOutcomes(
        olderThan age: Duration, limits: [RowLimit] = [], after place: Int64 = 0, limit: Int,
        function: String = #function
    ) -> PostgresQuery<DeletedChunk> {
        deletionQuery(
            deleteOldEventOutcomesSQL, olderThan: age, limits: limits, after: place, limit: limit, function: function)
    }
}

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
    SELECT (SELECT count(*) FROM deleted) AS deleted, \(nextPlace(after: "o.received_at", in: "old o"))
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
        ageOfOldest("t.received_at", in: "event_trace t")
    }

    /// Deletes a chunk of old trace contexts.
    ///
    /// - Parameter place: time of the first one to look at, in microseconds since 1970.
    package static func deleteOldEventTraces(olderThan age: Duration, after place: Int64 = 0, limit: Int)
        -> PostgresQuery<DeletedChunk>
    {
        PostgresQuery(deleteOldEventTracesSQL, age.wholeMilliseconds, place, limit) { row in try row.deletedChunk() }
    }
}

private let claimIdempotencyKeySQL = """
    INSERT INTO idempotency_key AS k (app_id, key, request)
    SELECT a.id, $2::uuid, $3::uuid FROM app a WHERE a.name = $1::text
    ON CONFLICT (app_id, key) DO UPDATE SET request = k.request
    RETURNING k.request
    """

private let deleteOldIdempotencyKeysSQL = """
    \(deletedRows(from: "idempotency_key"))
    SELECT \(deletedChunkColumns)
    """

extension PostgresStatement where Self == Statements {
    /// Records the request of an `Idempotency-Key` and returns the one for which it was first used.
    package static func claimIdempotencyKey(app: String, key: ContentHash, request: ContentHash)
        -> PostgresQuery<ContentHash>
    {
        PostgresQuery(claimIdempotencyKeySQL, app, key, request) { row in try row.value("request") }
    }

    /// Age of the oldest key.
    package static func oldestIdempotencyKey() -> PostgresQuery<Duration> {
        ageOfOldest("k.recorded_at", in: "idempotency_key k", by: "k.seq")
    }

    /// Deletes the keys that are old or exceed an app's limit in the chunk behind a place.
    package static func deleteOldIdempotencyKeys(
        olderThan age: Duration, limits: [RowLimit] = [], after place: Int64 = 0, limit: Int,
        function: String = #function
    ) -> PostgresQuery<DeletedChunk> {
        deletionQuery(
            deleteOldIdempotencyKeysSQL, olderThan: age, limits: limits, after: place, limit: limit, function: function)
    }
}
