package import PostgresClient
package import WidgetModel

/// Result of a list's end.
package struct EndedList: Sendable {
    package enum Outcome: String, Sendable, PostgresConvertible {
        /// The list is deleted.
        case ended
        /// Another process holds it.
        case lost
        /// Other workers are registered: messages have to be compared with stored content first.
        case uncompared
    }

    package let hold: ListHold
    package let outcome: Outcome
}

/// The end of a list. `isCompared`: whether its messages were compared with stored content after the acknowledgement.
package typealias ListEnd = (hold: ListHold, isCompared: Bool)

private let input = InputColumns<ListEnd>([
    .init("id") { $0.hold.id }, .init("lease") { $0.hold.lease }, .init("compared") { $0.isCompared },
])

private let endListsSQL = """
    WITH input AS MATERIALIZED (
        SELECT * FROM \(input.rows("i")) ORDER BY id
    ), checked AS MATERIALIZED (
        SELECT i.*, i.compared OR NOT EXISTS (
            SELECT FROM worker o
            WHERE o.id <> $\(input.count + 1)::uuid AND o.seen_at > now() - \(workerMemory)
                AND (o.left_token IS NULL OR o.left_token >= i.lease)) AS sure
        FROM input i
    ), ended AS (
        DELETE FROM work w USING checked i
        WHERE w.id = i.id AND w.id = ANY (ARRAY(SELECT id FROM input)) AND w.lease = i.lease AND i.sure
        RETURNING w.id, w.lease
    )
    SELECT i.id, i.lease, CASE WHEN e.id IS NOT NULL THEN 'ended' WHEN i.sure THEN 'lost' ELSE 'uncompared' END AS outcome
    FROM checked i LEFT JOIN ended e ON e.id = i.id AND e.lease = i.lease
    """

/// A list to give back. `counts`: whether the lease counts, since rows may be stored and not published.
package typealias ListReturn = (hold: ListHold, delay: Duration, counts: Bool)

private let returns = InputColumns<ListReturn>([
    .init("id") { $0.hold.id }, .init("lease") { $0.hold.lease }, .init("delay") { $0.delay.wholeMilliseconds },
    .init("counts") { $0.counts },
])

private let giveBackListsSQL = """
    UPDATE work w
    SET ready_at = now() + i.delay * interval '1 millisecond', lease = NULL,
        leases = w.leases - CASE WHEN i.counts OR w.leases = 0 THEN 0 ELSE 1 END
    FROM \(returns.rows("i")) WHERE w.id = i.id AND w.id = ANY ($1::int8[]) AND w.lease = i.lease
    RETURNING i.id, i.lease
    """

private let appendSuspectsSQL = """
    WITH found AS MATERIALIZED (
        SELECT t.id, t.kind_id, t.identity FROM timeline t WHERE t.identity = ANY ($1::uuid[])
    ), appended AS (
        INSERT INTO work (kind_id, lane, due_at, ready_at, leases, timelines)
        SELECT kind_id, \(ReloadLane.push.rawValue), now(), now(), 1, array_agg(id ORDER BY id)
        FROM found GROUP BY kind_id
    )
    SELECT identity FROM found
    """

extension PostgresStatement where Self == Statements {
    /// Ends lists, each by id and lease token. A list without a comparison ends only if no other worker was registered
    /// since its lease.
    package static func endLists(_ ends: [ListEnd], worker: PostgresUUID) -> PostgresQuery<EndedList> {
        PostgresQuery(endListsSQL, binding: input.parameters(ends, worker)) { row in
            try EndedList(hold: ListHold(id: row.value("id"), lease: row.value("lease")), outcome: row.value("outcome"))
        }
    }

    /// Makes this transaction's COMMIT return before its WAL is on disk, for ends of lists, whose loss costs only a
    /// comparison.
    package static func commitAsynchronously() -> PostgresQuery<Void> {
        PostgresQuery("SELECT set_config('synchronous_commit', 'off', true)")
    }

    /// Gives leased lists back, ready after a delay, and returns those that were still held.
    package static func giveBackLists(_ lists: [ListReturn]) -> PostgresQuery<ListHold> {
        PostgresQuery(giveBackListsSQL, binding: returns.parameters(lists)) { row in
            try ListHold(id: row.value("id"), lease: row.value("lease"))
        }
    }

    /// Appends lists of timelines whose last published message may not be the stored content. The lists count as leased
    /// before, so the next holder compares all their timelines. Returns the identities that exist.
    package static func appendSuspects(_ ids: [TimelineID]) -> PostgresQuery<TimelineID> {
        PostgresQuery(appendSuspectsSQL, PostgresArray(ids)) { row in try row.value("identity") }
    }
}
