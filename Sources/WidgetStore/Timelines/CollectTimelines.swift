package import PostgresClient
package import WidgetModel

/// A message of a timeline: its content's revision, or the tombstone's of an orphaned one.
package typealias TimelineRevision = (row: Int64, id: TimelineID, revision: Int64)

private let input = InputColumns<TimelineRevision>([.init("id") { $0.row }, .init("revision") { $0.revision }])

private let buryOrphansSQL = """
    WITH mine AS MATERIALIZED (
        SELECT t.id FROM timeline t WHERE t.id = ANY ($1::int8[]) AND t.orphaned
        ORDER BY t.id FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE timeline t SET revision = nextval('token') FROM mine m WHERE t.id = m.id
    RETURNING t.id, t.identity, t.revision
    """

private let lockOrphansSQL = """
    SELECT t.id FROM \(input.rows("i")) JOIN timeline t ON t.id = i.id
    WHERE t.orphaned AND t.revision = i.revision
    ORDER BY t.id FOR UPDATE OF t SKIP LOCKED
    """

private let formula = RowFormula(
    ["orphaned": "false", "requested": "t.requested + 1", "free_requested": "t.requested + 1"], kind: "m.k_")

private let collectTimelinesSQL = """
    WITH mine AS MATERIALIZED (
        SELECT t.id, EXISTS (SELECT FROM widget w WHERE w.timeline_id = t.id) AS shown, \(RowFormula.kindColumns)
        FROM timeline t JOIN kind k ON k.id = t.kind_id WHERE t.id = ANY ($1::int8[]) ORDER BY t.id
    ), revived AS (
        UPDATE timeline t SET \(formula.assignments), \(formula.appointment), hash = NULL
        FROM mine m WHERE t.id = m.id AND m.shown
        RETURNING t.id, t.kind_id, t.listed_at, t.listed_lane, t.listed_anew
    ), \(Appending.lists(of: "revived")), unshown AS (
        DELETE FROM snapshot s USING mine m WHERE s.timeline_id = m.id AND NOT m.shown
    ), irrelevant AS (
        DELETE FROM relevance r USING mine m WHERE r.timeline_id = m.id AND NOT m.shown
    ), gone AS (
        DELETE FROM timeline t USING mine m WHERE t.id = m.id AND NOT m.shown
    )
    SELECT id FROM revived
    """

extension PostgresStatement where Self == Statements {
    /// Gives orphaned timelines the revisions of their tombstones. Whatever was stored before has a lower one, and a
    /// store with a lower one is discarded from here on, so that consumers ignore content that lands after the
    /// tombstone. Rows that somebody else has locked are left out.
    package static func buryOrphans(_ rows: [Int64]) -> PostgresQuery<TimelineRevision> {
        PostgresQuery(buryOrphansSQL, PostgresArray(rows)) { row in
            try (row: row.value("id"), id: row.value("identity"), revision: row.value("revision"))
        }
    }

    /// Locks orphaned timelines for collection, after their tombstones were acknowledged. Rows that somebody else has
    /// locked are left out of the answer, and those that were stored since they were buried, for content may have been
    /// published after the tombstone: their list goes back.
    package static func lockOrphans(_ orphans: [TimelineRevision]) -> PostgresQuery<Int64> {
        PostgresQuery(lockOrphansSQL, binding: input.parameters(orphans)) { row in try row.value("id") }
    }

    /// Deletes locked orphans. A new statement after ``PostgresStatement/lockOrphans``, so that it sees every widget
    /// placed before the lock: a timeline that a widget shows again stays, is requested anew, and is appointed by rule
    /// 1; its next fetch is published. Returns the timelines that stay.
    package static func collectTimelines(_ rows: [Int64]) -> PostgresQuery<Int64> {
        PostgresQuery(collectTimelinesSQL, PostgresArray(rows)) { row in try row.value("id") }
    }
}
