// SPDX-License-Identifier: Apache-2.0

package import PostgresClient
package import WidgetModel

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

private let deadLettersInput = InputColumns<(id: Int64, error: String)>([
    .init("id") { $0.id }, .init("error") { $0.error },
])

private let deadLettersRefusedSQL = """
    UPDATE dead_letter d
    SET forward_failures = d.forward_failures + 1, forward_error = i.error,
        forwarding_until = NULL,
        unforwardable_at = CASE WHEN d.forward_failures + 1 >= $\(deadLettersInput.count + 1)::int4 THEN now() END
    FROM \(deadLettersInput.rows("i"))
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
        PostgresQuery(deadLettersRefusedSQL, binding: deadLettersInput.parameters(refusals, Int32(clamping: limit))) {
            row in
            try row.value("given_up")
        }
    }
}

/// Reason for which an event waits in the database instead of having been applied. The raw values are stored, and
/// operators filter by them.
package enum DeadLetterCause: String, CaseIterable, Hashable, Sendable, PostgresConvertible {
    /// Not readable as JSON.
    case malformed
    /// Readable, but against the schema or the state.
    case invalid
    /// Of an app that was not registered.
    case unknownApp
    /// Names a kind that its app did not have.
    case unknownKind
    /// Needs stored state that this version cannot read, such as a kind's definition; nothing is wrong with it.
    case unreadable
    /// The database refused its values.
    case refused
    /// Of an app whose events its topic may not carry; not the app's fault.
    case notAllowed
    /// Of a diverted app; no fault is known.
    case diverted

    /// Makes the cause from an error's class.
    package init(code: String) {
        switch code {
        case "malformedJSON", "invalidUTF8", "tooLarge", "unsupportedContentType", "missingData": self = .malformed
        case "databaseRefused": self = .refused
        case "unreadableKind", "unreadableWidget": self = .unreadable
        case "unknownApp", "unknownKind", "notAllowed", "diverted": self = DeadLetterCause(rawValue: code) ?? .invalid
        default: self = .invalid
        }
    }

    /// Whether the producer is at fault, so that the event counts towards the limit of its app. Events of apps that are
    /// not registered yet, events that wait for a newer version and diverted events do not count, nor do events that
    /// another party wrote under the app's name.
    package var isFault: Bool {
        switch self {
        case .malformed, .invalid, .unknownKind, .refused: true
        case .unknownApp, .unreadable, .notAllowed, .diverted: false
        }
    }
}

/// Limits of dead letters beyond which an app is diverted, and a topic is halted (DESIGN.md, “Ingest”).
package struct DeadLetterLimits: Hashable, Sendable {
    /// Time over which failed events are counted.
    package var window: Duration = .seconds(60)
    /// An app is over its limit with more failed events than this within the window…
    package var letters = 100
    /// …which are also at least this share of its events, in percent.
    package var share = 10
    /// Apps over their limit on one topic within ten windows that halt it.
    package var haltingApps = 3
    /// Most failed events of one app that wait; more divert it.
    package var quota = Quota(letters: 100_000, bytes: 256 << 20)
    /// Most waiting events of a diverted app, and of unregistered apps on a topic. More are dropped, or halt the topic
    /// if it is one app's alone.
    package var waiting = Quota(letters: 500_000, bytes: 2 << 30)

    package struct Quota: Hashable, Sendable {
        package var letters: Int
        package var bytes: Int

        /// Part of the quota that is used; above 1, it is exceeded.
        package func use(letters: Int64, bytes: Int64) -> Double {
            max(Double(letters) / Double(self.letters), Double(bytes) / Double(self.bytes))
        }
    }

    package init() {}
}

/// Selection of dead letters; every condition narrows it.
package struct DeadLetterFilter: Hashable, Sendable {
    package enum Owner: Hashable, Sendable {
        /// Events of any app, and of none.
        case any
        case app(String)
        /// Events whose app could not be read.
        case none
    }

    package var owner = Owner.any
    /// Any if empty.
    package var causes: [DeadLetterCause] = []
    package var topic: String?
    package var partition: Int32?
    /// Kept at or after this.
    package var since: Timestamp?
    /// Kept before this.
    package var until: Timestamp?
    /// Any if empty.
    package var ids: [Int64] = []

    package init(owner: Owner = .any, causes: [DeadLetterCause] = []) {
        self.owner = owner
        self.causes = causes
    }

    /// The same without the events that only wait, for the end of a diversion or for a version that can read stored
    /// state, unless it names causes or letters.
    package var withoutWaitingEvents: DeadLetterFilter {
        guard causes.isEmpty, ids.isEmpty else { return self }
        var filter = self
        filter.causes = DeadLetterCause.allCases.filter { $0 != .diverted && $0 != .unreadable }
        return filter
    }

    /// The condition on `d`; it takes `$1` to `$8`.
    static let condition = """
        ($1::text IS NULL OR d.app = $1::text) AND (NOT $2::bool OR d.app IS NULL)
          AND (cardinality($3::text[]) = 0 OR d.cause = ANY ($3::text[]))
          AND ($4::text IS NULL OR d.topic = $4::text) AND ($5::int4 IS NULL OR d.partition = $5::int4)
          AND ($6::timestamptz IS NULL OR d.received_at >= $6::timestamptz)
          AND ($7::timestamptz IS NULL OR d.received_at < $7::timestamptz)
          AND (cardinality($8::int8[]) = 0 OR d.id = ANY ($8::int8[]))
        """

    /// Condition on a dead letter `d` that still waits.
    static let waiting = "d.replayed_at IS NULL AND d.discarded_at IS NULL"

    /// The values of ``condition``, and further parameters.
    func parameters<each Value: PostgresValue>(_ others: repeat (each Value)?) -> PostgresParameters {
        let app: String? = if case .app(let name) = owner { name } else { nil }
        return PostgresParameters(
            app, owner == .none, PostgresArray(causes), topic, partition, since, until, PostgresArray(ids),
            repeat each others)
    }
}

/// A dead letter as lists show it: without its headers and payload.
package struct DeadLetterSummary: Hashable, Sendable {
    package enum State: String, Hashable, Sendable {
        case waiting, replayed, discarded
    }

    package let id: Int64
    package let topic: String
    package let partition: Int32
    package let offset: Int64
    package let app: String?
    package let cause: String
    package let code: String
    package let error: String
    /// Place in the event, as a JSON pointer.
    package let pointer: String?
    /// Size of the payload; nil without one.
    package let bytes: Int?
    package let receivedAt: Timestamp
    package let forwardedAt: Timestamp?
    /// Reason why it will not be forwarded.
    package let forwardError: String?
    package let unforwardableAt: Timestamp?
    /// Number of replays.
    package let replays: Int
    package let lastReplayAt: Timestamp?
    package let replayedAt: Timestamp?
    package let discardedAt: Timestamp?

    package var state: State {
        if replayedAt != nil { return .replayed }
        return discardedAt == nil ? .waiting : .discarded
    }

    /// The columns that ``init(_:)`` reads.
    static let columns = """
        d.id, d.topic, d.partition, d."offset", d.app, d.cause, d.code, d.error, d.pointer,
               octet_length(d.payload) AS bytes, d.received_at, d.forwarded_at, d.forward_error, d.unforwardable_at,
               d.replays, d.last_replay_at, d.replayed_at, d.discarded_at
        """

    init(_ row: borrowing PostgresRow) throws(PostgresError) {
        id = try row.value("id")
        topic = try row.value("topic")
        partition = try row.value("partition")
        offset = try row.value("offset")
        app = try row.optional("app")
        cause = try row.value("cause")
        code = try row.value("code")
        error = try row.value("error")
        pointer = try row.optional("pointer")
        bytes = try row.optional("bytes")
        receivedAt = try row.value("received_at")
        forwardedAt = try row.optional("forwarded_at")
        forwardError = try row.optional("forward_error")
        unforwardableAt = try row.optional("unforwardable_at")
        replays = try row.value("replays")
        lastReplayAt = try row.optional("last_replay_at")
        replayedAt = try row.optional("replayed_at")
        discardedAt = try row.optional("discarded_at")
    }
}

private let listDeadLettersSQL = """
    SELECT \(DeadLetterSummary.columns)
    FROM dead_letter d
    WHERE \(DeadLetterFilter.waiting) AND \(DeadLetterFilter.condition)
    ORDER BY d.id DESC LIMIT $9::int8
    """

private let listAllDeadLettersSQL = """
    SELECT \(DeadLetterSummary.columns)
    FROM dead_letter d
    WHERE \(DeadLetterFilter.condition)
    ORDER BY d.id DESC LIMIT $9::int8
    """

private let countDeadLettersSQL = """
    SELECT count(*) AS count FROM (
        SELECT FROM dead_letter d WHERE \(DeadLetterFilter.waiting) AND \(DeadLetterFilter.condition)
        LIMIT $9::int8) w
    """

package typealias DeadLetterDetail = (summary: DeadLetterSummary, letter: DeadLetter)

private let readDeadLetterSQL = """
    SELECT \(DeadLetterSummary.columns), d.key, d.header_names, d.header_values, d.payload,
           nullif(d.message_time, -1) AS message_time
    FROM dead_letter d WHERE d.id = $1::int8 AND ($2::text IS NULL OR d.app = $2::text)
    """

private let listAppDeadLettersSQL = """
    SELECT \(DeadLetterSummary.columns)
    FROM dead_letter d
    WHERE \(DeadLetterFilter.waiting) AND d.app = $1::text
        AND (cardinality($2::text[]) = 0 OR d.cause = ANY ($2::text[])) AND d.id < $3::int8
    ORDER BY d.id DESC LIMIT $4::int8
    """

extension PostgresStatement where Self == Statements {
    /// Waiting dead letters, newest first.
    package static func listDeadLetters(_ filter: DeadLetterFilter, limit: Int) -> PostgresQuery<DeadLetterSummary> {
        PostgresQuery(listDeadLettersSQL, binding: filter.parameters(limit)) { row in try DeadLetterSummary(row) }
    }

    /// Dead letters, newest first, replayed and discarded ones included.
    package static func listAllDeadLetters(_ filter: DeadLetterFilter, limit: Int) -> PostgresQuery<DeadLetterSummary> {
        PostgresQuery(listAllDeadLettersSQL, binding: filter.parameters(limit)) { row in try DeadLetterSummary(row) }
    }

    /// Number of waiting dead letters, counted up to a limit.
    package static func countDeadLetters(_ filter: DeadLetterFilter, limit: Int) -> PostgresQuery<Int> {
        PostgresQuery(countDeadLettersSQL, binding: filter.parameters(limit)) { row in try row.value("count") }
    }

    /// One dead letter, whole.
    ///
    /// - Parameter app: required app of the letter; nil for any.
    package static func readDeadLetter(id: Int64, app: String? = nil) -> PostgresQuery<DeadLetterDetail> {
        PostgresQuery(readDeadLetterSQL, id, app) { row in
            try DeadLetterDetail(summary: DeadLetterSummary(row), letter: DeadLetter(row))
        }
    }

    /// Waiting dead letters of one app, newest first, in pages.
    ///
    /// - Parameters:
    ///   - causes: any if empty.
    ///   - before: upper bound of the ids, exclusive.
    package static func listAppDeadLetters(
        app: String, causes: [DeadLetterCause] = [], before: Int64? = nil, limit: Int
    ) -> PostgresQuery<DeadLetterSummary> {
        PostgresQuery(listAppDeadLettersSQL, app, PostgresArray(causes), before ?? .max, limit) { row in
            try DeadLetterSummary(row)
        }
    }
}

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

private let replayDeadLettersInput = InputColumns<StoredDeadLetter>([
    .init("id") { $0.id }, .init("app") { $0.letter.app }, .init("code") { $0.letter.code },
    .init("cause") { $0.letter.cause }, .init("error") { $0.letter.error }, .init("pointer") { $0.letter.pointer },
])

private let deadLettersFailedAgainSQL = """
    UPDATE dead_letter d
    SET app = coalesce(i.app, d.app), code = i.code, cause = i.cause, error = i.error, pointer = i.pointer,
        last_replay_at = now(), replays = d.replays + 1
    FROM \(replayDeadLettersInput.rows("i"))
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
    SELECT (SELECT count(*) FROM deleted) AS deleted, \(nextPlace(after: "o.done_at", in: "old o"))
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

    /// Records the errors of locked dead letters that failed again and keep waiting, with the apps that they name now.
    package static func deadLettersFailedAgain(_ failures: [StoredDeadLetter]) -> PostgresQuery<Void> {
        PostgresQuery(deadLettersFailedAgainSQL, binding: replayDeadLettersInput.parameters(failures))
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

    /// Time since the first dead letter was ended or forwarded that is still stored.
    package static func oldestDoneDeadLetter() -> PostgresQuery<Duration> {
        ageOfOldest(doneAt, in: "dead_letter d WHERE \(doneAt) IS NOT NULL")
    }

    /// Deletes a chunk of the dead letters that were ended or forwarded before the retention time, oldest first.
    /// Diverted letters are never forwarded, so waiting ones are never deleted.
    ///
    /// - Parameter place: time of the first one to look at, in microseconds since 1970.
    package static func deleteOldDeadLetters(olderThan retention: Duration, after place: Int64 = 0, limit: Int)
        -> PostgresQuery<DeletedChunk>
    {
        PostgresQuery(deleteOldDeadLettersSQL, retention.wholeMilliseconds, place, limit) { row in
            try row.deletedChunk()
        }
    }
}
