package import PostgresClient

/// A message that could not be applied, whole, with the cause.
package struct DeadLetter: Sendable {
    package var topic: String
    package var partition: Int32
    package var offset: Int64
    /// App named by the message, if it could be read.
    package var app: String?
    /// Name of the error's class, such as `malformedJSON`.
    package var code: String
    /// Description of the error, its place and the expected value.
    package var error: String
    /// JSON pointer to the invalid value.
    package var pointer: String?
    /// Timestamp of the Kafka message, milliseconds since 1970; nil without one.
    package var messageTime: Int64?
    package var key: [UInt8]?
    package var headers: [(name: String, value: [UInt8]?)]
    package var payload: [UInt8]?

    package var cause: DeadLetterCause { DeadLetterCause(code: code) }

    package init(
        topic: String, partition: Int32, offset: Int64, app: String?, code: String, error: String,
        pointer: String? = nil, messageTime: Int64? = nil, key: [UInt8]?, headers: [(name: String, value: [UInt8]?)],
        payload: [UInt8]?
    ) {
        (self.topic, self.partition, self.offset, self.app) = (topic, partition, offset, app)
        (self.code, self.error, self.pointer, self.messageTime) = (code, error, pointer, messageTime)
        (self.key, self.headers, self.payload) = (key, headers, payload)
    }

    /// Reads the row of a dead letter, with `message_time`.
    init(_ row: borrowing PostgresRow) throws(PostgresError) {
        let names: [String] = try row.array("header_names")
        let values: [[UInt8]?] = try row.arrayOfOptionals("header_values")
        try self.init(
            topic: row.value("topic"), partition: row.value("partition"), offset: row.value("offset"),
            app: row.optional("app"), code: row.value("code"), error: row.value("error"),
            pointer: row.optional("pointer"), messageTime: row.optional("message_time"), key: row.optional("key"),
            headers: zip(names, values).map { (name: $0, value: $1) }, payload: row.optional("payload"))
    }
}

/// A dead letter with its id.
package typealias StoredDeadLetter = (id: Int64, letter: DeadLetter)

private let input = InputColumns<(id: Int64, error: String)>([
    .init("id") { $0.id }, .init("error") { $0.error },
])

private let deadLettersRefusedSQL = """
    UPDATE dead_letter d
    SET forward_failures = d.forward_failures + 1, forward_error = i.error,
        forwarding_until = NULL,
        unforwardable_at = CASE WHEN d.forward_failures + 1 >= $\(input.count + 1)::int4 THEN now() END
    FROM \(input.rows("i"))
    WHERE d.id = i.id
    RETURNING d.unforwardable_at IS NOT NULL AS given_up
    """

extension PostgresStatement where Self == Statements {
    /// Stores one dead letter, in the transaction that moves the position past it.
    ///
    /// After its partition was set back, a message that is stored already waits again instead of being stored twice.
    package static func insertDeadLetter(_ letter: DeadLetter) -> PostgresQuery<Void> {
        var parameters = PostgresParameters(
            letter.topic, letter.partition, letter.offset, letter.app, letter.code, letter.error, letter.key,
            PostgresArray(letter.headers.map(\.name)), letter.payload, letter.cause, letter.pointer,
            letter.messageTime ?? -1)
        parameters.append(array: letter.headers.map(\.value))
        return PostgresQuery(
            """
            INSERT INTO dead_letter AS d (topic, partition, "offset", app, code, error, key, header_names, payload, cause,
                                          pointer, message_time, header_values)
            VALUES ($1::text, $2::int4, $3::int8, $4::text, $5::text, $6::text, $7::bytea, $8::text[], $9::bytea,
                    $10::text, $11::text, $12::int8, $13::bytea[])
            ON CONFLICT (topic, partition, "offset", message_time) DO UPDATE
                SET app = excluded.app, code = excluded.code, error = excluded.error, key = excluded.key,
                    header_names = excluded.header_names, header_values = excluded.header_values,
                    payload = excluded.payload, cause = excluded.cause, pointer = excluded.pointer,
                    replayed_at = NULL, discarded_at = NULL
            """, binding: parameters)
    }

    /// Leases dead letters to publish, the oldest ones, to one forwarder. Diverted events are not published.
    package static func deadLettersToForward(limit: Int, lease: Duration) -> PostgresQuery<StoredDeadLetter> {
        PostgresQuery(
            """
            WITH chosen AS MATERIALIZED (
                SELECT d.id FROM dead_letter d
                WHERE d.forwarded_at IS NULL AND d.unforwardable_at IS NULL AND d.cause <> 'diverted'
                    AND coalesce(d.forwarding_until, '-infinity') <= now()
                ORDER BY d.id LIMIT $1::int8
                FOR NO KEY UPDATE SKIP LOCKED
            ), leased AS (
                UPDATE dead_letter d SET forwarding_until = now() + $2::int8 * interval '1 millisecond'
                FROM chosen c WHERE d.id = c.id
                RETURNING d.*
            )
            SELECT l.id, l.topic, l.partition, l."offset", l.app, l.code, l.error, l.pointer, l.key, l.header_names,
                   l.header_values, l.payload, nullif(l.message_time, -1) AS message_time
            FROM leased l ORDER BY l.id
            """, limit, lease.wholeMilliseconds
        ) { row in try StoredDeadLetter(id: row.value("id"), letter: DeadLetter(row)) }
    }

    /// Ends the leases of dead letters that were not published.
    package static func releaseDeadLetters(_ ids: [Int64]) -> PostgresQuery<Void> {
        PostgresQuery(
            """
            UPDATE dead_letter SET forwarding_until = NULL WHERE id = ANY ($1::int8[]) AND forwarding_until IS NOT NULL
            """, PostgresArray(ids))
    }

    /// Notes that dead letters were published and acknowledged.
    package static func deadLettersForwarded(_ ids: [Int64]) -> PostgresQuery<Void> {
        PostgresQuery("UPDATE dead_letter SET forwarded_at = now() WHERE id = ANY ($1::int8[])", PostgresArray(ids))
    }

    /// Notes that Kafka refused dead letters. After repeated refusals a letter is not published any more, and stays in
    /// the database.
    ///
    /// - Parameter limit: tries after which a letter is given up.
    package static func deadLettersRefused(_ refusals: [(id: Int64, error: String)], limit: Int) -> PostgresQuery<Bool>
    {
        PostgresQuery(deadLettersRefusedSQL, binding: input.parameters(refusals, Int32(clamping: limit))) { row in
            try row.value("given_up")
        }
    }
}
