package import PostgresClient

/// A message that could not be applied, whole, with the cause.
package struct DeadLetter: Sendable {
    package var topic: String
    package var partition: Int32
    package var offset: Int64
    /// The app that it names, when that much could be read.
    package var app: String?
    /// Name of the error's class, such as `malformedJSON`.
    package var code: String
    /// What is wrong, where, and what was expected.
    package var error: String
    /// JSON pointer to what is wrong.
    package var pointer: String?
    /// The Kafka message's timestamp, milliseconds since 1970; nil: it has none.
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
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.app = app
        self.code = code
        self.error = error
        self.pointer = pointer
        self.messageTime = messageTime
        self.key = key
        self.headers = headers
        self.payload = payload
    }
}

/// Keeps one dead letter, in the transaction that moves the position past it.
///
/// A message that is kept already, since its partition was set back, is not kept twice: it waits anew, as setting back
/// means to apply what follows a second time.
package struct InsertDeadLetter: PostgresStatement {
    package static let sql = """
        INSERT INTO dead_letter AS d (topic, partition, "offset", app, code, error, key, header_names, header_values,
                                      payload, cause, pointer, message_time)
        VALUES ($1::text, $2::int4, $3::int8, $4::text, $5::text, $6::text, $7::bytea, $8::text[], $9::bytea[],
                $10::bytea, $11::text, $12::text, $13::int8)
        ON CONFLICT (topic, partition, "offset", message_time) DO UPDATE
            SET app = excluded.app, code = excluded.code, error = excluded.error, key = excluded.key,
                header_names = excluded.header_names, header_values = excluded.header_values,
                payload = excluded.payload, cause = excluded.cause, pointer = excluded.pointer,
                replayed_at = NULL, discarded_at = NULL
        """

    let letter: DeadLetter

    package init(_ letter: DeadLetter) {
        self.letter = letter
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(letter.topic)
        parameters.append(letter.partition)
        parameters.append(letter.offset)
        parameters.append(letter.app)
        parameters.append(letter.code)
        parameters.append(letter.error)
        parameters.append(letter.key.map { PostgresBytes($0) })
        parameters.append(array: letter.headers.map(\.name))
        parameters.append(array: letter.headers.map { $0.value.map { PostgresBytes($0) } })
        parameters.append(letter.payload.map { PostgresBytes($0) })
        parameters.append(letter.cause.rawValue)
        parameters.append(letter.pointer)
        parameters.append(letter.messageTime ?? -1)
    }
}

/// Dead letters that are still to be published, oldest first, locked so that one forwarder has them. Diverted ones are
/// none: nothing is known to be wrong with them.
package struct DeadLettersToForward: PostgresStatement {
    package struct Row: Sendable {
        package let id: Int64
        package let letter: DeadLetter
    }

    package static let sql = """
        SELECT id, topic, partition, "offset", app, code, error, key, header_names, header_values, payload
        FROM dead_letter WHERE forwarded_at IS NULL AND unforwardable_at IS NULL AND cause <> 'diverted'
        ORDER BY id LIMIT $1::int8
        FOR NO KEY UPDATE SKIP LOCKED
        """

    let limit: Int

    package init(limit: Int) {
        self.limit = limit
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(Int64(limit))
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        let names = try row.array("header_names", of: String.self)
        let values = try row.arrayOfOptionals("header_values", of: PostgresBytes.self)
        return Row(
            id: try row.value("id"),
            letter: DeadLetter(
                topic: try row.value("topic"), partition: try row.value("partition"), offset: try row.value("offset"),
                app: try row.optional("app"), code: try row.value("code"), error: try row.value("error"),
                key: try row.optional("key", as: PostgresBytes.self)?.bytes,
                headers: zip(names, values).map { (name: $0, value: $1?.bytes) },
                payload: try row.optional("payload", as: PostgresBytes.self)?.bytes))
    }
}

/// Notes that dead letters were published and acknowledged.
package struct DeadLettersForwarded: PostgresStatement {
    package static let sql = "UPDATE dead_letter SET forwarded_at = now() WHERE id = ANY ($1::int8[])"

    let ids: [Int64]

    package init(_ ids: [Int64]) {
        self.ids = ids
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(array: ids)
    }
}

/// Notes that Kafka does not take dead letters for what they are; those that it has refused often enough are given up, and
/// stay in the database.
package struct DeadLettersRefused: PostgresStatement {
    package static let sql = """
        UPDATE dead_letter d
        SET forward_failures = d.forward_failures + 1, forward_error = i.error,
            unforwardable_at = CASE WHEN d.forward_failures + 1 >= $3::int4 THEN now() END
        FROM unnest($1::int8[], $2::text[]) AS i (id, error)
        WHERE d.id = i.id
        RETURNING d.unforwardable_at IS NOT NULL AS given_up
        """

    let refusals: [(id: Int64, error: String)]
    let limit: Int

    /// - Parameter limit: tries after which a letter is given up.
    package init(_ refusals: [(id: Int64, error: String)], limit: Int) {
        self.refusals = refusals
        self.limit = limit
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(array: refusals.map(\.id))
        parameters.append(array: refusals.map(\.error))
        parameters.append(Int32(clamping: limit))
    }

    /// Whether it was given up.
    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Bool {
        try row.value("given_up")
    }
}
