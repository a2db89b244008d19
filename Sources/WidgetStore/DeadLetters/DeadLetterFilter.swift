package import PostgresClient
package import WidgetModel

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
