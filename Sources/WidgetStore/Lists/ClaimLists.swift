package import PostgresClient
package import WidgetModel

/// Number of lists of one kind and lane to lease.
package struct ClaimWish: Hashable, Sendable {
    package var kindID: Int32
    package var lane: ReloadLane
    package var lists: Int
    /// Number of timelines that ends the claim: a further list is leased only while those before it hold fewer.
    package var timelines: Int
    /// Earliest ready time of the lists to lease.
    package var since: Timestamp

    package init(kindID: Int32, lane: ReloadLane, lists: Int, timelines: Int = .max, since: Timestamp = .distantPast) {
        self.kindID = kindID
        self.lane = lane
        self.lists = lists
        self.timelines = timelines
        self.since = since
    }
}

/// One row of a claim: a list with one of its timelines, or without a timeline if all of them are superseded.
package typealias ClaimRow = (list: LeasedList, readySince: Timestamp, timeline: ClaimedTimeline?)

private let wanted = InputColumns<ClaimWish>([
    .init("kind_id") { $0.kindID }, .init("lane") { $0.lane },
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

    /// Groups timelines by list. Nil if there are no lists.
    private init?(_ token: Int64?, _ items: [(list: LeasedList, timeline: ClaimedTimeline?)]) {
        guard let token, !items.isEmpty else { return nil }
        var lists: [LeasedList] = []
        var places: [Int64: Int] = [:]
        for (list, timeline) in items {
            let place = places[list.id] ?? lists.count
            if place == lists.count {
                places[list.id] = place
                lists.append(list)
            }
            if let timeline { lists[place].timelines.append(timeline) }
        }
        self.init(token: token, lists: lists)
    }

    /// Makes a claim of the lists in a claim's rows. Nil if nothing was claimed.
    package init?(_ rows: [ClaimRow]) {
        self.init(rows.first?.list.lease, rows.map { ($0.list, $0.timeline) })
    }

    /// Makes a claim of the lists that a mark appended and leased to this process. Nil if there are none.
    package init?(_ marked: [MarkedTimeline], token: Int64) {
        var items: [(list: LeasedList, timeline: ClaimedTimeline?)] = []
        for marked in marked {
            guard let hold = marked.list else { continue }
            let list = LeasedList(
                id: hold.id, kindID: marked.timeline.kindID, lane: marked.lane, dueAt: marked.listedAt,
                lease: hold.lease, timelines: [])
            items.append((list: list, timeline: marked.timeline))
        }
        self.init(token, items)
    }
}

/// Timelines of one kind and lane: ready ones, or those to claim.
package struct LaneTimelines: Sendable, Hashable {
    package let kindID: Int32
    package let lane: ReloadLane
    package var count: Int
    /// Numbers of timelines in the lists, the oldest first; a list is leased as a whole. Empty if timelines can be
    /// leased one by one.
    package var sizes: [Int]

    package init(kindID: Int32, lane: ReloadLane, count: Int, sizes: [Int] = []) {
        (self.kindID, self.lane, self.count, self.sizes) = (kindID, lane, count, sizes)
    }
}

private let input = InputColumns<ClaimWish>([
    .init("kind_id") { $0.kindID }, .init("lane") { $0.lane }, .init("since") { $0.since },
])

private let readyListsSQL = """
    SELECT q.kind_id, q.lane, r.sizes
    FROM \(input.rows("q"))
    CROSS JOIN LATERAL (
        SELECT array_agg(cardinality(w.timelines) ORDER BY w.ready_at) AS sizes FROM (
            SELECT w.timelines, w.ready_at FROM work w
            WHERE w.kind_id = q.kind_id AND w.lane = q.lane AND w.ready_at <= now() AND w.ready_at >= q.since
            ORDER BY w.ready_at LIMIT $\(input.count + 1)::int8) w
    ) r
    WHERE r.sizes IS NOT NULL
    """

extension PostgresStatement where Self == Statements {
    /// Leases ready lists and reads their timelines, with the counters of their kinds, in one snapshot. It writes no
    /// row of `timeline`.
    ///
    /// The token is both the lease of the lists and the revision of the content that will be stored. Since the
    /// statement itself takes it, it is above every revision in the statement's snapshot.
    package static func claimLists(_ wishes: [ClaimWish], lease: Duration) -> PostgresQuery<ClaimRow> {
        PostgresQuery(claimListsSQL, binding: wanted.parameters(wishes, lease.wholeMilliseconds)) { row in
            let isEmpty = try row.optional("row", as: Int64.self) == nil
            let list = try LeasedList(
                id: row.value("list"), kindID: row.value("list_kind"), lane: row.value("lane"),
                dueAt: row.value("due_at"), generation: row.optional("list_generation"), lease: row.value("lease"),
                suspects: row.optionalArray("suspects") ?? [], timelines: [])
            return (list, try row.value("ready_since"), isEmpty ? nil : try ClaimedTimeline(row))
        }
    }

    /// Kinds and lanes with ready lists. The query skips through the index, so its cost does not depend on the length
    /// of the backlog.
    ///
    /// - Parameters:
    ///   - queues: kinds and lanes to check, each from `since` on.
    ///   - limit: largest number of lists that are counted for each.
    package static func readyLists(_ queues: [ClaimWish], limit: Int) -> PostgresQuery<LaneTimelines> {
        PostgresQuery(readyListsSQL, binding: input.parameters(queues, limit)) { row in
            let lists: [Int32] = try row.array("sizes")
            // A list takes room even if all of its timelines are superseded.
            let sizes = lists.map { max(1, Int($0)) }
            return try LaneTimelines(
                kindID: row.value("kind_id"), lane: row.value("lane"), count: sizes.reduce(0, +), sizes: sizes)
        }
    }
}
