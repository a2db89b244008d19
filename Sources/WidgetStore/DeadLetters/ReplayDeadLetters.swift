package import PostgresClient

/// Locks dead letters that wait, oldest first: whoever comes second finds them replayed, and leaves them out.
package struct DeadLettersToReplay: PostgresStatement {
    package struct Row: Sendable {
        package let id: Int64
        /// With the time it was kept for a message time, if it was kept before message times were.
        package let letter: DeadLetter
    }

    package static let sql = """
        WITH found AS (
            SELECT d.id, coalesce(octet_length(d.payload), 0) AS bytes
            FROM dead_letter d
            WHERE \(DeadLetterFilter.waiting) AND d.id > $9::int8 AND \(DeadLetterFilter.condition)
            ORDER BY d.id LIMIT $10::int8
        ), bounded AS (
            SELECT f.id FROM (SELECT id, sum(bytes) OVER (ORDER BY id) - bytes AS before FROM found) f
            WHERE f.before < $11::int8
        )
        SELECT d.id, d.topic, d.partition, d."offset", d.app, d.code, d.error, d.key, d.header_names, d.header_values,
               d.payload, d.pointer,
               CASE WHEN d.message_time >= 0 THEN d.message_time
                    ELSE (extract(epoch FROM d.received_at) * 1000)::int8 END
        FROM bounded b JOIN dead_letter d ON d.id = b.id
        WHERE \(DeadLetterFilter.waiting)
        ORDER BY d.id
        FOR UPDATE OF d
        """

    let filter: DeadLetterFilter
    let after: Int64
    let limit: Int
    let maximumBytes: Int

    /// - Parameters:
    ///   - after: only ids above this.
    ///   - maximumBytes: of payload; one letter at the least.
    package init(_ filter: DeadLetterFilter, after: Int64, limit: Int, maximumBytes: Int) {
        self.filter = filter
        self.after = after
        self.limit = limit
        self.maximumBytes = maximumBytes
    }

    package func bind(_ parameters: inout PostgresParameters) {
        filter.bind(&parameters)
        parameters.append(after)
        parameters.append(Int64(limit))
        parameters.append(Int64(maximumBytes))
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        let names = try row.array(8, of: String.self)
        let values = try row.arrayOfOptionals(9, of: PostgresBytes.self)
        return Row(
            id: try row.value(0),
            letter: DeadLetter(
                topic: try row.value(1), partition: try row.value(2), offset: try row.value(3),
                app: try row.optional(4), code: try row.value(5), error: try row.value(6),
                pointer: try row.optional(11), messageTime: try row.value(12),
                key: try row.optional(7, as: PostgresBytes.self)?.bytes,
                headers: zip(names, values).map { (name: $0, value: $1?.bytes) },
                payload: try row.optional(10, as: PostgresBytes.self)?.bytes))
    }
}

/// Notes that dead letters have been applied, in the transaction that applies them and has them locked.
package struct DeadLettersReplayed: PostgresStatement {
    package static let sql = """
        UPDATE dead_letter SET replayed_at = now(), last_replay_at = now(), replays = replays + 1
        WHERE id = ANY ($1::int8[])
        """

    let ids: [Int64]

    package init(_ ids: [Int64]) {
        self.ids = ids
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(array: ids)
    }
}

/// Notes that dead letters have failed again, with the new error; the caller has them locked. They wait on.
package struct DeadLettersFailedAgain: PostgresStatement {
    package struct Failure: Hashable, Sendable {
        package var id: Int64
        package var app: String?
        package var code: String
        package var error: String
        package var pointer: String?

        package init(id: Int64, app: String?, code: String, error: String, pointer: String?) {
            self.id = id
            self.app = app
            self.code = code
            self.error = error
            self.pointer = pointer
        }
    }

    package static let sql = """
        UPDATE dead_letter d
        SET app = coalesce(i.app, d.app), code = i.code, cause = i.cause, error = i.error, pointer = i.pointer,
            last_replay_at = now(), replays = d.replays + 1
        FROM unnest($1::int8[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
            AS i (id, app, code, cause, error, pointer)
        WHERE d.id = i.id AND d.replayed_at IS NULL AND d.discarded_at IS NULL
        """

    let failures: [Failure]

    package init(_ failures: [Failure]) {
        self.failures = failures
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(array: failures.map(\.id))
        parameters.append(array: failures.map(\.app))
        parameters.append(array: failures.map(\.code))
        parameters.append(array: failures.map { DeadLetterCause(code: $0.code).rawValue })
        parameters.append(array: failures.map(\.error))
        parameters.append(array: failures.map(\.pointer))
    }
}

/// Discards dead letters that wait, oldest first, a chunk at a time; answers their ids.
package struct DiscardDeadLetters: DeadLetterSelection {
    package static let sql = """
        WITH chosen AS (
            SELECT d.id FROM dead_letter d
            WHERE \(DeadLetterFilter.waiting) AND \(DeadLetterFilter.condition)
            ORDER BY d.id LIMIT $9::int8
            FOR UPDATE
        )
        UPDATE dead_letter d SET discarded_at = now() FROM chosen c WHERE d.id = c.id RETURNING d.id
        """

    package let filter: DeadLetterFilter
    package let limit: Int

    package init(_ filter: DeadLetterFilter, limit: Int) {
        self.filter = filter
        self.limit = limit
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int64 {
        try row.value(0)
    }
}

/// Deletes dead letters that were settled, or else forwarded, longer ago than that: a chunk, oldest first. Diverted ones
/// are never forwarded, so those that wait are never deleted.
package struct DeleteOldDeadLetters: PostgresStatement {
    package static let sql = """
        WITH old AS (
            SELECT id FROM dead_letter
            WHERE coalesce(replayed_at, discarded_at, forwarded_at) < now() - $1::int8 * interval '1 millisecond'
            ORDER BY coalesce(replayed_at, discarded_at, forwarded_at) LIMIT $2::int8
            FOR UPDATE SKIP LOCKED
        )
        DELETE FROM dead_letter d USING old o WHERE d.id = o.id
        """

    let retention: Duration
    let limit: Int

    package init(olderThan retention: Duration, limit: Int) {
        self.retention = retention
        self.limit = limit
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(retention.wholeMilliseconds)
        parameters.append(Int64(limit))
    }
}
