// SPDX-License-Identifier: Apache-2.0

package import PostgresClient
package import WidgetModel

/// A kind's work lists of one lane.
package struct KindLane: Hashable, Sendable {
    package let kindID: Int32
    package let lane: ReloadLane

    package init(kindID: Int32, lane: ReloadLane) {
        (self.kindID, self.lane) = (kindID, lane)
    }

    init(_ row: borrowing PostgresRow) throws(PostgresError) {
        try self.init(kindID: row.value("kind_id"), lane: row.value("lane"))
    }
}

/// Number of lists of one kind and lane to lease.
package struct ClaimRequest: Hashable, Sendable {
    package var queue: KindLane
    package var lists: Int
    /// Number of timelines that ends the claim: a further list is leased only while those before it hold fewer.
    package var timelines: Int
    /// Earliest ready time of the lists to lease.
    package var since: Timestamp

    package init(_ queue: KindLane, lists: Int, timelines: Int = .max, since: Timestamp = .distantPast) {
        (self.queue, self.lists, self.timelines, self.since) = (queue, lists, timelines, since)
    }
}

/// A list of a claim, and the time since which it was ready.
package typealias ClaimRow = (list: LeasedList, readySince: Timestamp)

private let wanted = InputColumns<ClaimRequest>([
    .init("kind_id") { $0.queue.kindID }, .init("lane") { $0.queue.lane },
    .init("lists") { Int32(clamping: $0.lists) }, .init("timelines") { $0.timelines },
    .init("since") { $0.since },
])

private let claimListsSQL = """
    WITH token AS MATERIALIZED (
        SELECT nextval('token') AS token
    ), picked AS (
        SELECT p.id, p.ready_at FROM \(wanted.rows("i"))
        JOIN kind k ON k.id = i.kind_id JOIN app a ON a.id = k.app_id
        CROSS JOIN LATERAL (
            SELECT w.id, w.ready_at, sum(w.size) OVER (ORDER BY w.ready_at, w.id) - w.size AS ahead
            FROM (
                SELECT w.id, w.ready_at, cardinality(w.timelines)::int8 AS size FROM work w
                WHERE w.kind_id = i.kind_id AND w.lane = i.lane AND w.ready_at <= now() AND w.ready_at >= i.since
                ORDER BY w.ready_at LIMIT i.lists FOR UPDATE SKIP LOCKED
            ) w
        ) p
        WHERE p.ahead < i.timelines AND k.paused_at IS NULL AND a.paused_at IS NULL
    ), leased AS (
        UPDATE work w
        SET ready_at = now() + $\(wanted.count + 1)::int8 * interval '1 millisecond', lease = token.token,
            leases = least(w.leases + 1, 32767)
        FROM picked p, token WHERE w.id = p.id AND w.id = ANY (ARRAY(SELECT id FROM picked))
        RETURNING w.id, w.kind_id, w.lane, w.due_at, w.generation, w.lease, w.leases, w.timelines,
            p.ready_at AS ready_since
    )
    SELECT l.id AS list, l.kind_id AS list_kind, l.lane, l.due_at, l.ready_since, l.generation AS list_generation,
           l.lease, CASE WHEN l.leases > 1 THEN l.timelines END AS suspects, live.*
    FROM leased l LEFT JOIN LATERAL (
        SELECT \(ClaimedTimeline.columns())
        FROM unnest(l.timelines) i (id) JOIN timeline t ON t.id = i.id JOIN kind k ON k.id = t.kind_id
        WHERE CASE WHEN l.generation IS NULL THEN t.listed_at = l.due_at
                   ELSE t.generation < l.generation AND l.generation > k.cancelled_generation END
    ) live ON true
    """

/// The lists of one claim.
package struct Claim: Sendable {
    package let token: Int64
    package var lists: [LeasedList]

    /// Number of timelines in the lists.
    package var count: Int { lists.reduce(0) { $0 + $1.timelines.count } }

    package init(token: Int64, lists: [LeasedList]) {
        self.token = token
        self.lists = lists
    }

    /// Makes a claim of the lists that a claim has leased; nil if there are none.
    package init?(_ rows: [ClaimRow]) {
        guard let first = rows.first else { return nil }
        self.init(token: first.list.lease, lists: rows.map(\.list))
    }

    /// Makes a claim of the lists that a mark appended and leased to this process; nil if there are none.
    package init?(handedOver marked: [MarkedTimeline]) {
        var lists: [LeasedList] = []
        var places: [Int64: Int] = [:]
        for marked in marked {
            guard let hold = marked.list else { continue }
            var place = lists.count - 1
            if lists.last?.id != hold.id {
                place = places[hold.id] ?? lists.count
                places[hold.id] = place
            }
            if place == lists.count {
                lists.append(
                    LeasedList(
                        id: hold.id, kindID: marked.timeline.kindID, lane: marked.lane, dueAt: marked.listedAt,
                        lease: hold.lease, timelines: []))
            }
            lists[place].timelines.append(marked.timeline)
        }
        guard let first = lists.first else { return nil }
        self.init(token: first.lease, lists: lists)
    }
}

/// Timelines of one kind and lane: ready ones, or those to claim.
package struct LaneTimelines: Sendable, Hashable {
    package let queue: KindLane
    package var count: Int
    /// Numbers of timelines in the lists, the oldest first; a list is leased as a whole. Empty if timelines can be
    /// leased one by one.
    package var sizes: [Int]

    package init(_ queue: KindLane, count: Int, sizes: [Int] = []) {
        (self.queue, self.count, self.sizes) = (queue, count, sizes)
    }
}

private let claimListsInput = InputColumns<ClaimRequest>([
    .init("kind_id") { $0.queue.kindID }, .init("lane") { $0.queue.lane }, .init("since") { $0.since },
])

private let readyListsSQL = """
    SELECT q.kind_id, q.lane, r.sizes
    FROM \(claimListsInput.rows("q"))
    CROSS JOIN LATERAL (
        SELECT array_agg(cardinality(w.timelines) ORDER BY w.ready_at) AS sizes FROM (
            SELECT w.timelines, w.ready_at FROM work w
            WHERE w.kind_id = q.kind_id AND w.lane = q.lane AND w.ready_at <= now() AND w.ready_at >= q.since
            ORDER BY w.ready_at LIMIT $\(claimListsInput.count + 1)::int8) w
    ) r
    WHERE r.sizes IS NOT NULL
    """

extension PostgresStatement where Self == Statements {
    /// Leases ready lists and reads their timelines, with the counters of their kinds, in one snapshot. It writes no
    /// row of `timeline`.
    ///
    /// The token is both the lease of the lists and the revision of the content that will be stored. Since the
    /// statement itself takes it, it is above every revision in the statement's snapshot.
    package static func claimLists(_ requests: [ClaimRequest], lease: Duration) -> PostgresQuery<ClaimRow> {
        let parameters = wanted.parameters(requests, lease.wholeMilliseconds)
        return PostgresQuery(claimListsSQL, binding: parameters) { row, lists in
            // One row for each timeline, mostly of the same list as the row before.
            let id: Int64 = try row.value("list")
            var place = lists.count - 1
            if lists.last?.list.id != id { place = lists.lastIndex { $0.list.id == id } ?? lists.count }
            if place == lists.count {
                var list = try LeasedList(
                    id: id, kindID: row.value("list_kind"), lane: row.value("lane"), dueAt: row.value("due_at"),
                    generation: row.optional("list_generation"), lease: row.value("lease"),
                    suspects: row.optionalArray("suspects") ?? [], timelines: [])
                list.timelines.reserveCapacity(16)
                lists.append((list, try row.value("ready_since")))
            }
            // NULL in the only row of a list whose timelines are all superseded.
            guard let key = try row.optional("row", as: Int64.self) else { return }
            lists[place].list.timelines.append(try ClaimedTimeline(row, key: key))
        }
    }

    /// Kinds and lanes with ready lists. The query skips through the index, so its cost does not depend on the length
    /// of the backlog.
    ///
    /// - Parameters:
    ///   - queues: kinds and lanes to check, each from `since` on.
    ///   - limit: largest number of lists that are counted for each.
    package static func readyLists(_ queues: [ClaimRequest], limit: Int) -> PostgresQuery<LaneTimelines> {
        PostgresQuery(readyListsSQL, binding: claimListsInput.parameters(queues, limit)) { row in
            let lists: [Int32] = try row.array("sizes")
            // A list takes room even if all of its timelines are superseded.
            let sizes = lists.map { max(1, Int($0)) }
            return LaneTimelines(try KindLane(row), count: sizes.reduce(0, +), sizes: sizes)
        }
    }
}

/// Result of a list's end.
package enum ListEndOutcome: String, Sendable, PostgresConvertible {
    /// The list is deleted.
    case ended
    /// Another process holds it.
    case lost
    /// Other workers are registered: messages have to be compared with stored content first.
    case uncompared
}

/// The end of a list. `isCompared`: whether its messages were compared with stored content after the acknowledgement.
package typealias ListEnd = (hold: ListHold, isCompared: Bool)

private let endListsInput = InputColumns<ListEnd>([
    .init("id") { $0.hold.id }, .init("lease") { $0.hold.lease }, .init("compared") { $0.isCompared },
])

private let endListsSQL = """
    WITH input AS MATERIALIZED (
        SELECT * FROM \(endListsInput.rows("i")) ORDER BY id
    ), checked AS MATERIALIZED (
        SELECT i.*, i.compared OR NOT EXISTS (
            SELECT FROM worker o
            WHERE o.id <> $\(endListsInput.count + 1)::uuid AND o.seen_at > now() - \(workerMemory)
                AND (o.left_token IS NULL OR o.left_token >= i.lease)) AS sure
        FROM input i
    ), ended AS (
        DELETE FROM work w USING checked i
        WHERE w.id = i.id AND w.id = ANY (ARRAY(SELECT id FROM input)) AND w.lease = i.lease AND i.sure
            AND NOT (\(isOfEarlierHistory("w.lease")))
        RETURNING w.id, w.lease
    )
    SELECT i.id, i.lease, CASE WHEN e.id IS NOT NULL THEN 'ended' WHEN i.sure THEN 'lost' ELSE 'uncompared' END AS outcome
    FROM (SELECT \(commitsAsynchronously)) c, checked i LEFT JOIN ended e ON e.id = i.id AND e.lease = i.lease
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
    /// since its lease. A list that was leased before the database's last failover is lost, since what its holder has
    /// stored may be: a claim is also dropped in memory then, but not a list that waits for its end.
    ///
    /// The transaction's COMMIT returns before its WAL is on disk: a list that comes back after a crash costs only a
    /// comparison.
    package static func endLists(_ ends: [ListEnd], worker: UInt128) -> PostgresQuery<
        (hold: ListHold, outcome: ListEndOutcome)
    > {
        PostgresQuery(endListsSQL, binding: endListsInput.parameters(ends, worker)) { row in
            try (hold: ListHold(id: row.value("id"), lease: row.value("lease")), outcome: row.value("outcome"))
        }
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

/// Workers that take timelines from ingest in the same process, without a claim: the mark appends the lists with
/// leases, and the rows enter the pipeline at *decide*.
package protocol HandOverReceiving: Sendable {
    /// Whether the workers hold at least a quarter of their maximum number of timelines.
    var areBusy: Bool { get }

    /// Reserves room for timelines of these kinds: as many as their providers have free slots for. An event may reach
    /// one widget or thousands, so the room says nothing about the number of events. Nil without room.
    ///
    /// Each grant ends with ``accept(_:_:)``, with a nil claim if the transaction failed or handed nothing over.
    func reserve(_ kindIDs: Set<Int32>) -> HandOver?

    /// Takes the handed-over timelines, after the COMMIT.
    func accept(_ grant: HandOver, _ claim: Claim?)

    /// Notes, before a transaction, whether it is a large one within a backlog, whose later requests may concern the
    /// same timelines.
    func ingestIsBehind(_ isBehind: Bool)
}

/// Lists with superseded ones, and timelines without: each counts once, in the list that is taken first.
package typealias WorkCount = (lists: Int, timelines: Int)

package struct WorkLists: Sendable {
    package let app: String
    package let kind: String
    package let lane: ReloadLane
    package let isPaused: Bool
    /// Lists that any worker may lease now.
    package let ready: WorkCount
    /// Lists that a worker has leased.
    package let leased: WorkCount
    /// Due lists that were given back and wait, for a provider that is left alone or for Kafka.
    package let resting: WorkCount
    /// Lists that lie ahead.
    package let later: WorkCount
    /// Time since the oldest due list became due; nil: none is due.
    package let oldest: Duration?
    /// When the next list that lies ahead becomes due.
    package let next: Timestamp?

    package var isDue: Bool { oldest != nil }
}

/// States of lists, the first of a timeline's being its own.
private let states = ["leased", "ready", "resting", "later"]

private let counts = states.enumerated().map { state, name in
    """
    count(*) FILTER (WHERE w.state = \(state)) AS \(name)_lists,
    coalesce(sum(t.count) FILTER (WHERE w.state = \(state)), 0)::int8 AS \(name)_timelines
    """
}.joined(separator: ",\n")

/// SQL condition: a list `w` has the timeline `t` of the kind `k` as its appointment or by a sweep, and is not
/// superseded there (rule 4 of work lists).
let isListed = """
    CASE WHEN w.generation IS NULL THEN t.listed_at = w.due_at
         ELSE t.generation < w.generation AND w.generation > k.cancelled_generation END
    """

private let readWorkListsSQL = """
    WITH lists AS MATERIALIZED (
        SELECT w.id, w.kind_id, w.lane, w.due_at, w.generation, w.timelines,
               CASE WHEN w.ready_at <= now() THEN 1 WHEN w.lease IS NOT NULL THEN 0
                    WHEN w.due_at <= now() THEN 2 ELSE 3 END AS state
        FROM work w JOIN kind k ON k.id = w.kind_id JOIN app a ON a.id = k.app_id
        WHERE $1::text IS NULL OR a.name = $1::text
    ), firsts AS (
        SELECT DISTINCT ON (t.id) w.id
        FROM lists w JOIN kind k ON k.id = w.kind_id CROSS JOIN unnest(w.timelines) AS u (id)
        JOIN timeline t ON t.id = u.id
        WHERE \(isListed)
        ORDER BY t.id, w.state, w.due_at, w.id
    ), timelines AS (
        SELECT f.id, count(*) AS count FROM firsts f GROUP BY f.id
    )
    SELECT a.name AS app, k.name AS kind, w.lane, k.paused_at IS NOT NULL OR a.paused_at IS NOT NULL AS paused,
        \(counts),
        extract(epoch FROM now() - min(w.due_at) FILTER (WHERE w.due_at <= now()))::float8 AS oldest,
        min(w.due_at) FILTER (WHERE w.due_at > now()) AS next
    FROM lists w JOIN kind k ON k.id = w.kind_id JOIN app a ON a.id = k.app_id LEFT JOIN timelines t ON t.id = w.id
    GROUP BY a.name, k.name, w.lane, k.paused_at, a.paused_at
    ORDER BY a.name, k.name, w.lane
    """

extension PostgresStatement where Self == Statements {
    /// Work left by kind and lane. Reads every work list and its timelines, so it is for commands, not for metrics.
    ///
    /// - Parameter app: nil: every app.
    package static func readWorkLists(app: String?) -> PostgresQuery<WorkLists> {
        PostgresQuery(readWorkListsSQL, app) { row in
            try WorkLists(
                app: row.value("app"), kind: row.value("kind"), lane: row.value("lane"), isPaused: row.value("paused"),
                ready: (row.value("ready_lists"), row.value("ready_timelines")),
                leased: (row.value("leased_lists"), row.value("leased_timelines")),
                resting: (row.value("resting_lists"), row.value("resting_timelines")),
                later: (row.value("later_lists"), row.value("later_timelines")),
                oldest: row.optional("oldest", as: Double.self).map { .seconds($0) }, next: row.optional("next"))
        }
    }

    /// Whether a list is due, those of paused kinds and apps left out, without reading timelines.
    ///
    /// - Parameters:
    ///   - app: nil: every app.
    ///   - lane: nil: every lane.
    package static func workIsDue(app: String?, lane: ReloadLane? = nil) -> PostgresQuery<Bool> {
        PostgresQuery(
            """
            SELECT EXISTS (
                SELECT FROM work w JOIN kind k ON k.id = w.kind_id JOIN app a ON a.id = k.app_id
                WHERE w.due_at <= now() AND k.paused_at IS NULL AND a.paused_at IS NULL
                    AND ($1::text IS NULL OR a.name = $1::text) AND ($2::int2 IS NULL OR w.lane = $2::int2)) AS due
            """, app, lane
        ) { row in try row.value("due") }
    }

    /// Number of sweeps that are not done, those of paused kinds and apps left out.
    ///
    /// - Parameter app: nil: every app.
    package static func countSweeps(app: String?) -> PostgresQuery<Int> {
        PostgresQuery(
            """
            SELECT count(*) AS sweeps FROM sweep s JOIN app a ON a.id = s.app_id LEFT JOIN kind k ON k.id = s.kind_id
            WHERE a.paused_at IS NULL AND k.paused_at IS NULL AND ($1::text IS NULL OR a.name = $1::text)
            """, app
        ) { row in try row.value("sweeps") }
    }
}
