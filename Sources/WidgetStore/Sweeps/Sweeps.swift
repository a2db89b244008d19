// SPDX-License-Identifier: Apache-2.0

package import PostgresClient
package import WidgetModel

/// Condition that a kind has fewer lists of reloads of everyone than a limit. They are due from the start, so leased
/// lists and those that were given back count.
func hasRoomForWalks(kind: String, limit: String) -> String {
    isBelow(limit, of: "w.kind_id = \(kind) AND w.generation IS NOT NULL")
}

/// Condition that a kind has fewer ready bulk lists than a limit. Lists that lie ahead do not count: they hold
/// timelines that have to wait.
func hasRoomForMarks(kind: String, limit: String) -> String {
    isBelow(limit, of: "w.kind_id = \(kind) AND w.lane = \(ReloadLane.bulk.rawValue) AND w.ready_at <= now()")
}

private func isBelow(_ limit: String, of condition: String) -> String {
    "(SELECT count(*) FROM (SELECT FROM work w WHERE \(condition) LIMIT \(limit)::int8) b) < \(limit)::int8"
}

/// Most sweeps of a queue that run at the same time. Equal requests merge in those behind them.
private let concurrentSweeps = 8

/// CTE with the queues that have sweeps, read without those behind the first of each.
private let queues = """
    queue AS (
        (SELECT s.app_id, coalesce(s.kind_id, 0) AS kind_id, s.queue FROM sweep s
         ORDER BY s.app_id, coalesce(s.kind_id, 0), s.queue LIMIT 1)
        UNION ALL
        SELECT n.* FROM queue q CROSS JOIN LATERAL (
            SELECT s.app_id, coalesce(s.kind_id, 0), s.queue FROM sweep s
            WHERE (s.app_id, coalesce(s.kind_id, 0), s.queue) > (q.app_id, q.kind_id, q.queue)
            ORDER BY s.app_id, coalesce(s.kind_id, 0), s.queue LIMIT 1) n
    )
    """

/// Condition that a queue's kind has room for more lists.
private func hasRoom(limit: String) -> String {
    """
    CASE WHEN q.kind_id = 0 THEN true
         WHEN q.queue = 0 THEN \(hasRoomForWalks(kind: "q.kind_id", limit: limit))
         ELSE \(hasRoomForMarks(kind: "q.kind_id", limit: limit)) END
    """
}

private let listSweepsSQL = """
    WITH RECURSIVE \(queues), open AS (
        SELECT q.* FROM queue q JOIN app a ON a.id = q.app_id LEFT JOIN kind k ON k.id = q.kind_id
        WHERE a.paused_at IS NULL AND k.paused_at IS NULL AND \(hasRoom(limit: "$2"))
    ), ranked AS (
        SELECT s.id, o.queue = 0 AS walk, s.tried_at,
               row_number() OVER (PARTITION BY o.app_id ORDER BY s.tried_at, s.id) AS turn
        FROM open o CROSS JOIN LATERAL (
            SELECT s.id, greatest(s.ran_at, s.failed_at) AS tried_at FROM sweep s
            WHERE s.app_id = o.app_id AND coalesce(s.kind_id, 0) = o.kind_id AND s.queue = o.queue
            ORDER BY s.id LIMIT \(concurrentSweeps)) s
    )
    SELECT id, walk FROM ranked ORDER BY turn, tried_at, id LIMIT $1::int8
    """

/// Sweeps of a kind, or of all kinds of users and devices of an app, that have not gone on for some time though it is
/// their turn, and those that wait behind them.
package struct WaitingSweeps: Hashable, Sendable {
    package enum Obstacle: String, Sendable, PostgresConvertible {
        case appPaused, kindPaused
        /// Too many of the kind's lists wait for workers.
        case noRoom
        /// The latest chunk of at least one of the sweeps has failed.
        case fails
    }

    /// Most counted sweeps.
    package static let limit = 1_000

    package let app: String
    /// Nil: all kinds.
    package let kind: String?
    package let count: Int
    package let silence: Duration
    /// Nil: none, so that no worker sweeps, or they will go on in a moment.
    package let obstacle: Obstacle?
}

private let waitingSweepsSQL = """
    WITH RECURSIVE \(queues), waiting AS (
        SELECT q.*, f.count, f.active_at, f.fails FROM queue q CROSS JOIN LATERAL (
            SELECT count(*) AS count, min(s.active_at) AS active_at, min(s.place) AS first,
                   bool_or(s.failed_at > s.ran_at) AS fails
            FROM (
                SELECT greatest(s.created_at, s.ran_at) AS active_at, s.ran_at, s.failed_at,
                       row_number() OVER (ORDER BY s.id) AS place
                FROM sweep s
                WHERE s.app_id = q.app_id AND coalesce(s.kind_id, 0) = q.kind_id AND s.queue = q.queue
                ORDER BY s.id LIMIT \(WaitingSweeps.limit)) s
            WHERE s.active_at < now() - $2::int8 * interval '1 millisecond') f
        -- Those behind the first wait for their turn.
        WHERE f.first <= \(concurrentSweeps)
    )
    SELECT a.name AS app, k.name AS kind, q.count, extract(epoch FROM now() - q.active_at)::float8 AS silence,
           CASE WHEN a.paused_at IS NOT NULL THEN '\(WaitingSweeps.Obstacle.appPaused.rawValue)'
                WHEN k.paused_at IS NOT NULL THEN '\(WaitingSweeps.Obstacle.kindPaused.rawValue)'
                WHEN NOT \(hasRoom(limit: "$3")) THEN '\(WaitingSweeps.Obstacle.noRoom.rawValue)'
                WHEN q.fails THEN '\(WaitingSweeps.Obstacle.fails.rawValue)' END AS obstacle
    FROM waiting q JOIN app a ON a.id = q.app_id LEFT JOIN kind k ON k.id = q.kind_id
    WHERE $1::text IS NULL OR a.name = $1::text
    ORDER BY q.active_at LIMIT $4::int8
    """

extension PostgresStatement where Self == Statements {
    /// Sweeps that have not gone on for some time, and why, those that wait longest first.
    ///
    /// - Parameters:
    ///   - app: nil: every app.
    ///   - silence: time since a sweep was requested, and since its latest chunk that did not fail.
    ///   - maximumLists: number of a kind's bulk lists at which its sweeps wait.
    ///   - limit: most kinds to return.
    package static func waitingSweeps(app: String?, silence: Duration, maximumLists: Int, limit: Int)
        -> PostgresQuery<WaitingSweeps>
    {
        PostgresQuery(waitingSweepsSQL, app, silence.wholeMilliseconds, maximumLists, limit) { row in
            try WaitingSweeps(
                app: row.value("app"), kind: row.optional("kind"), count: row.value("count"),
                silence: .seconds(row.value("silence")), obstacle: row.optional("obstacle"))
        }
    }

    /// Sweeps that can continue, in turns between apps; of an app, those first whose latest chunk is longest ago.
    /// Paused apps and kinds and kinds with too many bulk lists are left out. Sweeps without a generation mark.
    ///
    /// The first sweeps of each kind are looked up in the index, so that the cost does not depend on the number of
    /// those that wait behind them.
    ///
    /// - Parameters:
    ///   - limit: most sweeps to return.
    ///   - maximumLists: number of a kind's bulk lists at which its sweeps wait.
    package static func listSweeps(limit: Int, maximumLists: Int) -> PostgresQuery<(id: Int64, isWalk: Bool)> {
        PostgresQuery(listSweepsSQL, limit, maximumLists) { row in
            try (id: row.value("id"), isWalk: row.value("walk"))
        }
    }

    /// Puts a sweep behind the others of its app, after a chunk that failed.
    package static func postponeSweep(_ id: Int64) -> PostgresQuery<Void> {
        PostgresQuery("UPDATE sweep SET failed_at = clock_timestamp() WHERE id = $1::int8", id)
    }
}

/// Result of one chunk of a sweep, with the number of listed or marked timelines.
package typealias SweepChunk = (timelines: Int, isDone: Bool)

/// CTE that deletes the sweep once `step` is done, and the result.
private func sweepEnd(counting rows: String) -> String {
    """
    ended AS (
        DELETE FROM sweep s USING step e WHERE s.id = e.id AND e.done
    )
    SELECT (SELECT count(*) FROM \(rows)) AS timelines, done FROM step
    """
}

private let walkKindSQL = """
    WITH walk AS MATERIALIZED (
        SELECT s.* FROM sweep s WHERE s.id = $1::int8
            -- After a raise by another transaction, this snapshot does not see what was rendered before it.
            AND s.generation = (SELECT o.generation FROM sweep o WHERE o.id = $1::int8)
            AND \(hasRoomForWalks(kind: "s.kind_id", limit: "$3"))
        FOR NO KEY UPDATE SKIP LOCKED
    ), page AS MATERIALIZED (
        SELECT p.id, p.generation FROM walk s CROSS JOIN LATERAL (
            SELECT t.id, t.generation FROM timeline t
            WHERE t.kind_id = s.kind_id AND t.id > s.cursor AND (NOT s.wrapped OR t.id <= s.until)
            ORDER BY t.id LIMIT $2::int8) p
    ), numbered AS (
        SELECT p.id, (row_number() OVER (ORDER BY p.id) - 1) / \(workListLimit) AS part
        FROM page p, walk s WHERE p.generation < s.generation
    ), appended AS (
        INSERT INTO work (kind_id, lane, due_at, ready_at, generation, timelines)
        SELECT s.kind_id, \(ReloadLane.bulk.rawValue), now(), now(), s.generation, array_agg(n.id ORDER BY n.id)
        FROM numbered n, walk s GROUP BY s.kind_id, s.generation, n.part
    ), passed AS MATERIALIZED (
        SELECT count(*) AS n, max(id) AS last FROM page
    ), step AS MATERIALIZED (
        SELECT s.id, p.n < $2::int8 AS at_end, p.n < $2::int8 AND (s.wrapped OR s.until = 0) AS done, p.last
        FROM walk s, passed p
    ), moved AS (
        UPDATE sweep s
        SET cursor = CASE WHEN e.at_end THEN 0 ELSE e.last END, wrapped = s.wrapped OR e.at_end, started = true,
            ran_at = clock_timestamp()
        FROM step e WHERE s.id = e.id AND NOT e.done
    ), \(sweepEnd(counting: "numbered"))
    """

private let formula = RowFormula(
    [
        "requested": "t.requested + h.events",
        "free_requested": "CASE WHEN h.urgency > 0 THEN t.requested + h.events ELSE t.free_requested END",
        "forced_requested": "CASE WHEN h.urgency > 1 THEN t.requested + h.events ELSE t.forced_requested END",
        "asleep": "false",
    ], kind: "h.k_")

private func audience(_ number: Int, _ column: String) -> String {
    """
    (SELECT w.timeline_id, w.kind_id, w.id FROM widget w
     WHERE s.audience = \(number) AND w.app_id = s.app_id AND w.\(column) = s.audience_id
         AND w.timeline_id IS NOT NULL AND w.id > s.cursor_widget ORDER BY w.id LIMIT $2::int8)
    """
}

private let sweepMarksSQL = """
    WITH walk AS MATERIALIZED (
        SELECT s.* FROM sweep s WHERE s.id = $1::int8 AND s.generation IS NULL
            AND (s.kind_id IS NULL OR \(hasRoomForMarks(kind: "s.kind_id", limit: "$3")))
        FOR NO KEY UPDATE SKIP LOCKED
    ), page AS MATERIALIZED (
        SELECT p.* FROM walk s CROSS JOIN LATERAL (
            (SELECT t.id, t.kind_id, NULL AS widget, t.configuration FROM timeline t
             WHERE s.audience = 0 AND t.kind_id = s.kind_id AND t.id > s.cursor ORDER BY t.id LIMIT $2::int8)
            UNION ALL
            (SELECT a.timeline_id, a.kind_id, a.id, t.configuration
             FROM (\(audience(1, "user_id")) UNION ALL \(audience(2, "device_id"))) a
             JOIN timeline t ON t.id = a.timeline_id)
        ) p
    ), hit AS MATERIALIZED (
        SELECT DISTINCT p.id, s.events, s.urgency, s.audience, s.cause_topic, s.cause_partition, s.cause_offset,
               s.cause_reason, \(RowFormula.kindColumns)
        FROM page p JOIN walk s ON s.kind_id IS NULL OR p.kind_id = s.kind_id JOIN kind k ON k.id = p.kind_id
        WHERE s.matching IS NULL OR p.configuration::jsonb @> s.matching::jsonb
        ORDER BY p.id
    ), marked AS (
        UPDATE timeline t
        SET \(formula.assignments), \(formula.improvement(lane: "\(ReloadLane.bulk.rawValue)::int2")),
            requested_at = CASE WHEN h.audience = 0 THEN t.requested_at ELSE now() END, cause_topic = h.cause_topic,
            cause_partition = h.cause_partition, cause_offset = h.cause_offset, cause_reason = h.cause_reason
        FROM hit h WHERE t.id = h.id
        RETURNING t.id, t.kind_id, t.listed_at, t.listed_lane, t.listed_anew
    ), \(appendedLists(of: "marked")), step AS MATERIALIZED (
        SELECT s.id, p.n < $2::int8 AS done, p.last, p.last_widget
        FROM walk s, (SELECT count(*) AS n, max(id) AS last, max(widget) AS last_widget FROM page) p
    ), moved AS (
        UPDATE sweep s
        SET cursor = e.last, cursor_widget = coalesce(e.last_widget, s.cursor_widget), started = true,
            ran_at = clock_timestamp()
        FROM step e WHERE s.id = e.id AND NOT e.done
    ), \(sweepEnd(counting: "marked"))
    """

extension PostgresStatement where Self == Statements {
    /// One chunk of a walk: a kind's timelines in id order from the cursor on. Timelines below the generation go into
    /// bulk lists with it; no row of `timeline` is written. No row if another process walks it, or the kind has too
    /// many lists of reloads of everyone.
    ///
    /// - Parameters:
    ///   - limit: number of timelines of the chunk.
    ///   - maximumLists: number of the kind's lists of reloads of everyone at which nothing is appended.
    package static func walkKind(_ sweep: Int64, limit: Int, maximumLists: Int) -> PostgresQuery<SweepChunk> {
        PostgresQuery(walkKindSQL, sweep, limit, maximumLists) { row in
            try (timelines: row.value("timelines"), isDone: row.value("done"))
        }
    }

    /// One chunk of a sweep that marks: a kind's matching timelines, or an audience's widgets, in id order from the
    /// cursor on. The appointments go into the bulk lane. No row if another process walks it, or the kind has too many
    /// ready bulk lists. Appointments that lie ahead are no backlog: each timeline has at most one.
    package static func sweepMarks(_ sweep: Int64, limit: Int, maximumLists: Int) -> PostgresQuery<SweepChunk> {
        PostgresQuery(sweepMarksSQL, sweep, limit, maximumLists) { row in
            try (timelines: row.value("timelines"), isDone: row.value("done"))
        }
    }
}

private let bumpKindsInput = InputColumns<EveryoneReload>([
    .init("app_id") { $0.appID }, .init("kind_id") { $0.kindID }, .init("events") { $0.events },
    .init("urgency") { $0.urgency }, .init("cause_topic") { $0.cause.topic },
    .init("cause_partition") { $0.cause.partition }, .init("cause_offset") { $0.cause.offset },
    .init("cause_reason") { $0.reason },
])

private let bumpKindsSQL = """
    WITH input AS MATERIALIZED (
        SELECT * FROM \(bumpKindsInput.rows("i"))
    ), target AS MATERIALIZED (
        SELECT k.id, sum(i.events)::int8 AS events, max(i.urgency) AS urgency, max(i.ord) AS last
        FROM input i JOIN kind k
            ON k.app_id = i.app_id AND (k.id = i.kind_id OR i.kind_id IS NULL AND k.retired_at IS NULL)
        GROUP BY k.id
    ), locked AS MATERIALIZED (
        SELECT k.id FROM kind k WHERE k.id IN (SELECT id FROM target) ORDER BY k.id FOR NO KEY UPDATE
    ), bumped AS (
        UPDATE kind k
        SET generation = k.generation + l.events,
            free_generation = CASE WHEN l.urgency > 0 THEN k.generation + l.events ELSE k.free_generation END,
            forced_generation = CASE WHEN l.urgency > 1 THEN k.generation + l.events ELSE k.forced_generation END,
            cause_topic = i.cause_topic, cause_partition = i.cause_partition, cause_offset = i.cause_offset,
            cause_reason = i.cause_reason, bumped_at = now()
        FROM locked o JOIN target l ON l.id = o.id JOIN input i ON i.ord = l.last
        WHERE k.id = o.id
        RETURNING k.id, k.app_id, k.generation
    ), swept AS (
        INSERT INTO sweep AS s (app_id, kind_id, generation)
        SELECT app_id, id, generation FROM bumped ORDER BY id
        ON CONFLICT (kind_id) WHERE generation IS NOT NULL DO UPDATE
            SET generation = excluded.generation, until = s.cursor, wrapped = false
    )
    SELECT count(*) AS bumped FROM bumped
    """

extension PostgresStatement where Self == Statements {
    /// Increments the generations of kinds, in id order, and records a sweep of each, whatever the number of timelines.
    /// An increment during a walk raises the walk's generation, and the walk goes round to that place. Returns the
    /// number of kinds.
    ///
    /// - Parameter bumps: in the order of the log.
    package static func bumpKinds(_ bumps: [EveryoneReload]) -> PostgresQuery<Int64> {
        PostgresQuery(bumpKindsSQL, binding: bumpKindsInput.parameters(bumps)) { row in try row.value("bumped") }
    }
}

/// Folded reloads of everyone, for one kind or for all kinds of an app.
package struct EveryoneReload: Hashable, Sendable {
    package var appID: Int32
    /// Id of the kind; nil for all kinds of the app.
    package var kindID: Int32?
    /// Canonical JSON object that the configuration must contain. A sweep marks the matching timelines in paced chunks.
    /// Nil matches any configuration and increments a generation.
    package var matching: String?
    /// Number of folded events.
    package var events: Int64
    package var urgency: RequestUrgency
    /// The latest event and its reason.
    package var cause: EventPosition
    package var reason: ReloadReason

    package init(
        appID: Int32, kindID: Int32?, matching: String? = nil, events: Int64, urgency: RequestUrgency,
        cause: EventPosition, reason: ReloadReason
    ) {
        (self.appID, self.kindID, self.matching, self.events) = (appID, kindID, matching, events)
        (self.urgency, self.cause, self.reason) = (urgency, cause, reason)
    }
}

/// Conflict target of equal waiting sweeps.
let waitingSweeps = """
    (app_id, coalesce(kind_id, 0), audience, coalesce(audience_id, ''), md5(coalesce(matching, ''))) \
    WHERE generation IS NULL AND NOT started
    """

/// Folds `excluded` into a waiting sweep `s`.
let mergingSweeps = """
    events = s.events + excluded.events, urgency = greatest(s.urgency, excluded.urgency),
    cause_topic = excluded.cause_topic, cause_partition = excluded.cause_partition,
    cause_offset = excluded.cause_offset, cause_reason = excluded.cause_reason
    """

private let recordSweepInput = InputColumns<EveryoneReload>([
    .init("app_id") { $0.appID }, .init("kind_id") { $0.kindID }, .init("matching") { $0.matching },
    .init("events") { $0.events }, .init("urgency") { $0.urgency },
    .init("cause_topic") { $0.cause.topic },
    .init("cause_partition") { $0.cause.partition }, .init("cause_offset") { $0.cause.offset },
    .init("cause_reason") { $0.reason },
])

private let recordSweepSQL = """
    WITH input AS MATERIALIZED (
        SELECT k.app_id, k.id AS kind_id, i.matching, sum(i.events)::int8 AS events, max(i.urgency) AS urgency,
               max(i.ord) AS last
        FROM \(recordSweepInput.rows("i")) JOIN kind k
            ON k.app_id = i.app_id AND (k.id = i.kind_id OR i.kind_id IS NULL AND k.retired_at IS NULL)
        GROUP BY k.app_id, k.id, i.matching
    )
    INSERT INTO sweep AS s (app_id, kind_id, matching, events, urgency, cause_topic, cause_partition, cause_offset,
                            cause_reason)
    SELECT n.app_id, n.kind_id, n.matching, n.events, n.urgency, i.cause_topic, i.cause_partition, i.cause_offset,
           i.cause_reason
    FROM input n JOIN \(recordSweepInput.rows("i")) ON i.ord = n.last
    ORDER BY n.app_id, n.kind_id, n.matching
    ON CONFLICT \(waitingSweeps) DO UPDATE SET \(mergingSweeps)
    """

extension PostgresStatement where Self == Statements {
    /// Records sweeps of matching timelines. Equal sweeps that have not started absorb the events.
    ///
    /// - Parameter sweeps: in the order of the log.
    package static func recordSweep(_ sweeps: [EveryoneReload]) -> PostgresQuery<Void> {
        PostgresQuery(recordSweepSQL, binding: recordSweepInput.parameters(sweeps))
    }
}
