package import PostgresClient

private let deadLettersToReplaySQL = """
    WITH found AS (
        SELECT d.id, coalesce(octet_length(d.payload), 0) AS bytes
        FROM dead_letter d
        WHERE \(DeadLetterFilter.waiting) AND d.id > $9::int8 AND \(DeadLetterFilter.condition)
            AND ($12::bool OR d.cause <> 'diverted' OR NOT EXISTS (
                SELECT FROM diversion v JOIN app a ON a.id = v.app_id WHERE a.name = d.app))
        ORDER BY d.id LIMIT $10::int8
    ), bounded AS (
        SELECT f.id FROM (SELECT id, sum(bytes) OVER (ORDER BY id) - bytes AS before FROM found) f
        WHERE f.before < $11::int8
    )
    SELECT d.id, d.topic, d.partition, d."offset", d.app, d.code, d.error, d.key, d.header_names, d.header_values,
           d.payload, d.pointer,
           least(CASE WHEN d.message_time >= 0 THEN d.message_time END, (extract(epoch FROM d.received_at) * 1000)::int8)
               AS message_time
    FROM bounded b JOIN dead_letter d ON d.id = b.id
    WHERE \(DeadLetterFilter.waiting)
    ORDER BY d.id
    FOR UPDATE OF d
    """

package struct RepeatedFailure: Hashable, Sendable {
    package var id: Int64
    package var app: String?
    package var code: String
    package var error: String
    package var pointer: String?

    package init(id: Int64, app: String?, code: String, error: String, pointer: String?) {
        (self.id, self.app, self.code, self.error, self.pointer) = (id, app, code, error, pointer)
    }
}

private let input = InputColumns<RepeatedFailure>([
    .init("id") { $0.id }, .init("app") { $0.app }, .init("code") { $0.code },
    .init("cause") { DeadLetterCause(code: $0.code) }, .init("error") { $0.error }, .init("pointer") { $0.pointer },
])

private let deadLettersFailedAgainSQL = """
    UPDATE dead_letter d
    SET app = coalesce(i.app, d.app), code = i.code, cause = i.cause, error = i.error, pointer = i.pointer,
        last_replay_at = now(), replays = d.replays + 1
    FROM \(input.rows("i"))
    WHERE d.id = i.id AND \(DeadLetterFilter.waiting)
    """

private let discardDeadLettersSQL = """
    WITH chosen AS (
        SELECT d.id FROM dead_letter d
        WHERE \(DeadLetterFilter.waiting) AND \(DeadLetterFilter.condition)
        ORDER BY d.id LIMIT $9::int8
        FOR UPDATE
    )
    UPDATE dead_letter d SET discarded_at = now() FROM chosen c WHERE d.id = c.id RETURNING d.id
    """

private let doneAt = "coalesce(d.replayed_at, d.discarded_at, d.forwarded_at)"

private let deleteOldDeadLettersSQL = """
    WITH old AS MATERIALIZED (
        SELECT d.id, \(doneAt) AS done_at FROM dead_letter d
        WHERE \(doneAt) >= timestamptz 'epoch' + $2::int8 * interval '1 microsecond'
            AND \(doneAt) < now() - $1::int8 * interval '1 millisecond'
        ORDER BY \(doneAt) LIMIT $3::int8
        FOR UPDATE SKIP LOCKED
    ), deleted AS (
        DELETE FROM dead_letter d WHERE d.id = ANY (ARRAY(SELECT o.id FROM old o)) RETURNING 1
    )
    SELECT (SELECT count(*) FROM deleted) AS deleted, \(OldRows.next(after: "o.done_at", in: "old o"))
    """

extension PostgresStatement where Self == Statements {
    /// Locks waiting dead letters, oldest first; the message time of a letter is at most the time at which it was
    /// stored. A concurrent replay waits and then skips replayed letters. Diverted events are left to the app's
    /// resumption, which applies them in order.
    ///
    /// - Parameters:
    ///   - after: lower bound of the ids, exclusive.
    ///   - maximumBytes: most bytes of payload, beyond a first letter.
    ///   - isResumption: whether a diversion is resumed.
    package static func deadLettersToReplay(
        _ filter: DeadLetterFilter, after: Int64, limit: Int, maximumBytes: Int, isResumption: Bool
    ) -> PostgresQuery<StoredDeadLetter> {
        PostgresQuery(
            deadLettersToReplaySQL, binding: filter.parameters(after, limit, maximumBytes, isResumption)
        ) { row in
            try StoredDeadLetter(id: row.value("id"), letter: DeadLetter(row))
        }
    }

    /// Marks locked dead letters as replayed, in the transaction that applies them.
    package static func deadLettersReplayed(_ ids: [Int64]) -> PostgresQuery<Void> {
        PostgresQuery(
            """
            UPDATE dead_letter SET replayed_at = now(), last_replay_at = now(), replays = replays + 1
            WHERE id = ANY ($1::int8[])
            """, PostgresArray(ids)
        )
    }

    /// Records the new errors of locked dead letters that failed again and keep waiting.
    package static func deadLettersFailedAgain(_ failures: [RepeatedFailure]) -> PostgresQuery<Void> {
        PostgresQuery(deadLettersFailedAgainSQL, binding: input.parameters(failures))
    }

    /// Changes the headers and the payload of a waiting dead letter, and returns its id.
    package static func editDeadLetter(
        id: Int64, headers: [(name: String, value: [UInt8]?)], payload: [UInt8]?
    ) -> PostgresQuery<Int64> {
        var parameters = PostgresParameters(id, PostgresArray(headers.map(\.name)), payload)
        parameters.append(array: headers.map(\.value))
        return PostgresQuery(
            """
            UPDATE dead_letter d SET header_names = $2::text[], payload = $3::bytea, header_values = $4::bytea[]
            WHERE d.id = $1::int8 AND \(DeadLetterFilter.waiting)
            RETURNING d.id
            """, binding: parameters
        ) { row in try row.value("id") }
    }

    /// Discards a chunk of waiting dead letters, oldest first, and returns their ids.
    package static func discardDeadLetters(_ filter: DeadLetterFilter, limit: Int) -> PostgresQuery<Int64> {
        PostgresQuery(discardDeadLettersSQL, binding: filter.parameters(limit)) { row in try row.value("id") }
    }

    /// Time since the first dead letter was settled or forwarded that is still stored.
    package static func oldestDoneDeadLetter() -> PostgresQuery<Duration> {
        OldRows.oldest(doneAt, in: "dead_letter d WHERE \(doneAt) IS NOT NULL")
    }

    /// Deletes a chunk of the dead letters that were settled or forwarded before the retention time, oldest first.
    /// Diverted letters are never forwarded, so waiting ones are never deleted.
    ///
    /// - Parameter place: time of the first one to look at, in microseconds since 1970.
    package static func deleteOldDeadLetters(olderThan retention: Duration, after place: Int64 = 0, limit: Int)
        -> PostgresQuery<DeletedChunk>
    {
        PostgresQuery(deleteOldDeadLettersSQL, retention.wholeMilliseconds, place, limit) { row in
            try DeletedChunk(row)
        }
    }
}
