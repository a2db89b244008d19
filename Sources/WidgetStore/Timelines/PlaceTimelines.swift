// SPDX-License-Identifier: Apache-2.0

package import PostgresClient
package import WidgetModel

/// A timeline that a widget shows from now on.
package struct TimelinePlacement: Sendable {
    package var kindID: Int32
    package var identity: TimelineIdentity
    package var id: TimelineID
    package var lane: ReloadLane
    package var cause: EventPosition?
    package var reason: ReloadReason
    /// Delay of the first look at a new timeline, for which the widget may be configured in the meantime.
    package var delay: Duration

    package init(
        id: TimelineID, kindID: Int32, identity: TimelineIdentity, lane: ReloadLane, cause: EventPosition?,
        reason: ReloadReason, delay: Duration = .zero
    ) {
        self.id = id
        self.kindID = kindID
        self.identity = identity
        self.lane = lane
        self.cause = cause
        self.reason = reason
        self.delay = delay
    }
}

private let input = InputColumns<TimelinePlacement>([
    .init("identity") { $0.id }, .init("kind_id") { $0.kindID },
    .init("family") { $0.identity.family },
    .init("configuration") { $0.identity.configuration.canonical }, .init("locale") { $0.identity.locale },
    .init("time_zone") { $0.identity.timeZone }, .init("user_id") { $0.identity.user },
    .init("lane") { $0.lane }, .init("cause_topic") { $0.cause?.topic },
    .init("cause_partition") { $0.cause?.partition }, .init("cause_offset") { $0.cause?.offset },
    .init("cause_reason") { $0.reason }, .init("delay") { $0.delay.wholeMilliseconds },
])

private let insertTimelinesSQL = """
    WITH input AS MATERIALIZED (
        SELECT * FROM \(input.rows("i")) ORDER BY identity
    ), placed AS (
        INSERT INTO timeline AS t (identity, kind_id, family, configuration, locale, time_zone, user_id, requested,
            free_requested, generation, listed_at, listed_lane, listed_anew, requested_at, cause_topic,
            cause_partition, cause_offset, cause_reason)
        SELECT i.identity, i.kind_id, i.family, i.configuration, i.locale, i.time_zone, i.user_id, 1, 1,
               k.generation, now() + i.delay * interval '1 millisecond', i.lane, true, now(), i.cause_topic,
               i.cause_partition, i.cause_offset, i.cause_reason
        FROM input i JOIN kind k ON k.id = i.kind_id
        WHERE NOT EXISTS (SELECT FROM timeline e WHERE e.identity = i.identity)
        ORDER BY i.identity
        ON CONFLICT (identity) DO NOTHING
        RETURNING t.id, t.kind_id, t.listed_at, t.listed_lane, t.listed_anew
    ), \(appendedLists(of: "placed"))
    SELECT count(*) AS inserted FROM placed
    """

private let formula = RowFormula(["orphaned": "true"], kind: "d.k_")

private let orphanTimelinesSQL = """
    WITH departed AS MATERIALIZED (
        SELECT t.id, \(RowFormula.kindColumns)
        FROM unnest($1::int8[]) u (id) JOIN timeline t ON t.id = u.id JOIN kind k ON k.id = t.kind_id
        ORDER BY t.id
    ), orphaned AS (
        UPDATE timeline t SET \(formula.assignments), \(formula.improvement(lane: "\(ReloadLane.bulk.rawValue)::int2"))
        FROM departed d
        WHERE t.id = d.id AND NOT t.orphaned
            AND NOT EXISTS (SELECT FROM widget w WHERE w.timeline_id = t.id)
        RETURNING t.id, t.kind_id, t.listed_at, t.listed_lane, t.listed_anew
    ), \(appendedLists(of: "orphaned"))
    SELECT count(*) AS orphaned FROM orphaned
    """

/// Timelines that widgets are about to show, in a transaction: made, or locked against being collected.
package struct PlacedTimelines: Sendable {
    /// Primary keys, for ``WidgetWrite``.
    package var rows: [TimelineID: Int64] = [:]
    /// Rows for ``MarkInput/revived``.
    package var stale: [Int64] = []
    /// Number of timelines that were made.
    package var inserted = 0
}

extension PostgresConnection {
    /// Makes the timelines that are missing and locks the others.
    ///
    /// - Parameter placements: each timeline once.
    /// - Throws: a retriable `PostgresError` (SQLSTATE 40001) when a timeline was collected in between.
    package func place(_ placements: [TimelinePlacement]) async throws(PostgresError) -> PlacedTimelines {
        guard !placements.isEmpty else { return PlacedTimelines() }
        var pipeline = PostgresPipeline()
        let inserting = pipeline.append(.insertTimelines(placements))
        let locking = pipeline.append(.lockPlacedTimelines(placements.map(\.id)))
        let results = try await run(pipeline)
        let locked = results.rows(locking)
        guard locked.count == placements.count else {
            throw PostgresError(
                .server, "a timeline was collected while a widget was placed on it", sqlState: "40001",
                isRetriable: true)
        }
        return PlacedTimelines(
            rows: Dictionary(locked.map { ($0.id, $0.row) }) { $1 }, stale: locked.filter(\.isStale).map(\.row),
            inserted: Int(results.rows(inserting).first ?? 0))
    }
}

extension PostgresStatement where Self == Statements {
    /// Inserts the timelines that do not exist yet, in identity order, each requested once and free of budget and
    /// spacing, and appends their lists, due after their delays. Existing ones are left alone:
    /// ``PostgresStatement/lockPlacedTimelines`` reads them. Answers how many were inserted.
    package static func insertTimelines(_ placements: [TimelinePlacement]) -> PostgresQuery<Int64> {
        PostgresQuery(insertTimelinesSQL, binding: input.parameters(placements)) { row in try row.value("inserted") }
    }

    /// Locks timelines by identity against being collected, and reads their row ids. A timeline that has gone since
    /// ``PostgresStatement/insertTimelines`` found it is missing in the answer: the transaction is to be tried again.
    package static func lockPlacedTimelines(_ ids: [TimelineID]) -> PostgresQuery<
        (id: TimelineID, row: Int64, isStale: Bool)
    > {
        PostgresQuery(
            """
            SELECT t.identity, t.id, t.orphaned OR t.asleep OR t.placed_at < now() - interval '1 hour'
                   OR t.rendered_at IS NULL AND t.listed_at > now() AND t.placed_at < now() AS stale
            FROM timeline t WHERE t.identity = ANY ($1::uuid[])
            ORDER BY t.identity FOR KEY SHARE
            """, PostgresArray(ids)
        ) { row in
            try (id: row.value("identity"), row: row.value("id"), isStale: row.value("stale"))
        }
    }

    /// Appoints departed timelines that no widget shows any more for collection, in the bulk lane. A statement of its
    /// own after ``PostgresStatement/markTimelines``, which has locked the rows: so the last of several removals sees
    /// the others. Answers how many were orphaned.
    package static func orphanTimelines(_ rows: [Int64]) -> PostgresQuery<Int64> {
        PostgresQuery(orphanTimelinesSQL, PostgresArray(rows)) { row in try row.value("orphaned") }
    }
}
