package import PostgresClient
package import WidgetModel

/// Which dead letters an operator means; every condition narrows it.
package struct DeadLetterFilter: Hashable, Sendable {
    package enum Owner: Hashable, Sendable {
        /// Of any app, and of none.
        case any
        case app(String)
        /// Events of which no app could be read.
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

    /// The condition on `d`; it takes `$1` to `$8`.
    static let condition = """
        ($1::text IS NULL OR d.app = $1::text) AND (NOT $2::bool OR d.app IS NULL)
          AND (cardinality($3::text[]) = 0 OR d.cause = ANY ($3::text[]))
          AND ($4::text IS NULL OR d.topic = $4::text) AND ($5::int4 IS NULL OR d.partition = $5::int4)
          AND ($6::timestamptz IS NULL OR d.received_at >= $6::timestamptz)
          AND ($7::timestamptz IS NULL OR d.received_at < $7::timestamptz)
          AND (cardinality($8::int8[]) = 0 OR d.id = ANY ($8::int8[]))
        """

    /// What still waits.
    static let waiting = "d.replayed_at IS NULL AND d.discarded_at IS NULL"

    func bind(_ parameters: inout PostgresParameters) {
        switch owner {
        case .any, .none: parameters.append(String?.none)
        case .app(let name): parameters.append(name)
        }
        parameters.append(owner == .none)
        parameters.append(array: causes.map(\.rawValue))
        parameters.append(topic)
        parameters.append(partition)
        parameters.append(since.map { PostgresTimestamp($0) })
        parameters.append(until.map { PostgresTimestamp($0) })
        parameters.append(array: ids)
    }
}

/// A statement over dead letters that a filter means, at most so many: its conditions take `$1` to `$8`, its limit `$9`.
package protocol DeadLetterSelection: PostgresStatement {
    var filter: DeadLetterFilter { get }
    var limit: Int { get }
}

extension DeadLetterSelection {
    package func bind(_ parameters: inout PostgresParameters) {
        filter.bind(&parameters)
        parameters.append(Int64(limit))
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
    /// Where in the event, as a JSON pointer.
    package let pointer: String?
    /// Of the payload; nil: it has none.
    package let bytes: Int?
    package let receivedAt: Timestamp
    package let forwardedAt: Timestamp?
    /// Why it is not forwarded, and will not be.
    package let forwardError: String?
    package let unforwardableAt: Timestamp?
    /// How often it was fed in again.
    package let replays: Int
    package let lastReplayAt: Timestamp?
    package let replayedAt: Timestamp?
    package let discardedAt: Timestamp?

    package var state: State {
        if replayedAt != nil { return .replayed }
        return discardedAt == nil ? .waiting : .discarded
    }

    static let columns = """
        d.id, d.topic, d.partition, d."offset", d.app, d.cause, d.code, d.error, d.pointer, octet_length(d.payload),
               d.received_at, d.forwarded_at, d.forward_error, d.unforwardable_at, d.replays, d.last_replay_at,
               d.replayed_at, d.discarded_at
        """

    init(_ row: borrowing PostgresRow) throws(PostgresError) {
        id = try row.value(0)
        topic = try row.value(1)
        partition = try row.value(2)
        offset = try row.value(3)
        app = try row.optional(4)
        cause = try row.value(5)
        code = try row.value(6)
        error = try row.value(7)
        pointer = try row.optional(8)
        bytes = try row.optional(9, as: Int32.self).map { Int($0) }
        receivedAt = Timestamp(try row.value(10, as: PostgresTimestamp.self))
        forwardedAt = try row.optional(11, as: PostgresTimestamp.self).map { Timestamp($0) }
        forwardError = try row.optional(12)
        unforwardableAt = try row.optional(13, as: PostgresTimestamp.self).map { Timestamp($0) }
        replays = Int(try row.value(14, as: Int32.self))
        lastReplayAt = try row.optional(15, as: PostgresTimestamp.self).map { Timestamp($0) }
        replayedAt = try row.optional(16, as: PostgresTimestamp.self).map { Timestamp($0) }
        discardedAt = try row.optional(17, as: PostgresTimestamp.self).map { Timestamp($0) }
    }
}

/// Dead letters that wait, newest first.
package struct ListDeadLetters: DeadLetterSelection {
    package static let sql = """
        SELECT \(DeadLetterSummary.columns)
        FROM dead_letter d
        WHERE \(DeadLetterFilter.waiting) AND \(DeadLetterFilter.condition)
        ORDER BY d.id DESC LIMIT $9::int8
        """

    package let filter: DeadLetterFilter
    package let limit: Int

    package init(_ filter: DeadLetterFilter, limit: Int) {
        self.filter = filter
        self.limit = limit
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> DeadLetterSummary {
        try DeadLetterSummary(row)
    }
}

/// Dead letters, newest first, also those that were replayed or discarded.
package struct ListAllDeadLetters: DeadLetterSelection {
    package static let sql = """
        SELECT \(DeadLetterSummary.columns)
        FROM dead_letter d
        WHERE \(DeadLetterFilter.condition)
        ORDER BY d.id DESC LIMIT $9::int8
        """

    package let filter: DeadLetterFilter
    package let limit: Int

    package init(_ filter: DeadLetterFilter, limit: Int) {
        self.filter = filter
        self.limit = limit
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> DeadLetterSummary {
        try DeadLetterSummary(row)
    }
}

/// How many dead letters wait, counted up to a limit.
package struct CountDeadLetters: DeadLetterSelection {
    package static let sql = """
        SELECT count(*) FROM (
            SELECT 1 FROM dead_letter d WHERE \(DeadLetterFilter.waiting) AND \(DeadLetterFilter.condition)
            LIMIT $9::int8) w
        """

    package let filter: DeadLetterFilter
    package let limit: Int

    package init(_ filter: DeadLetterFilter, limit: Int) {
        self.filter = filter
        self.limit = limit
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int {
        Int(try row.value(0, as: Int64.self))
    }
}

/// One dead letter, whole.
package struct ReadDeadLetter: PostgresStatement {
    package struct Row: Sendable {
        package let summary: DeadLetterSummary
        package let letter: DeadLetter
    }

    package static let sql = """
        SELECT \(DeadLetterSummary.columns), d.key, d.header_names, d.header_values, d.payload, d.message_time
        FROM dead_letter d WHERE d.id = $1::int8
        """

    let id: Int64

    package init(id: Int64) {
        self.id = id
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(id)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        let summary = try DeadLetterSummary(row)
        let names = try row.array(19, of: String.self)
        let values = try row.arrayOfOptionals(20, of: PostgresBytes.self)
        let time = try row.value(22, as: Int64.self)
        return Row(
            summary: summary,
            letter: DeadLetter(
                topic: summary.topic, partition: summary.partition, offset: summary.offset, app: summary.app,
                code: summary.code, error: summary.error, pointer: summary.pointer,
                messageTime: time < 0 ? nil : time, key: try row.optional(18, as: PostgresBytes.self)?.bytes,
                headers: zip(names, values).map { (name: $0, value: $1?.bytes) },
                payload: try row.optional(21, as: PostgresBytes.self)?.bytes))
    }
}

/// The time now, as the database has it.
package struct DatabaseTime: PostgresStatement {
    package static let sql = "SELECT clock_timestamp()"

    package init() {}

    package func bind(_ parameters: inout PostgresParameters) {}

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Timestamp {
        Timestamp(try row.value(0, as: PostgresTimestamp.self))
    }
}
