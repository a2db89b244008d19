// SPDX-License-Identifier: Apache-2.0

package import PostgresClient
package import WidgetModel

private let formula = RowFormula()

private let appointing = RowFormula(kind: "l.k_")

/// Timeline with something to do and the time of its appointment; `distantFuture` without one.
package typealias AuditedTimeline = (id: Int64, listedAt: Timestamp)

/// Row of a page of the audit. `last`: last examined id, nil at the end.
package typealias AuditRow<Item> = (last: Int64?, item: Item?)

private let auditTimelinesSQL = """
    WITH page AS MATERIALIZED (
        SELECT t.id, t.kind_id, t.listed_at, \(formula.nextLook) AS next,
               k.retired_at IS NOT NULL AND NOT t.orphaned AS rests
        FROM timeline t JOIN kind k ON k.id = t.kind_id
        WHERE t.id > $1::int8 ORDER BY t.id LIMIT $2::int8
    ), suspect AS (
        SELECT p.id, p.listed_at FROM page p
        WHERE p.next < 'infinity' AND NOT p.rests AND CASE
            WHEN p.listed_at < 'infinity' THEN p.listed_at < now() - $3::int8 * interval '1 millisecond'
            -- A reload of everyone is no appointment: its rows are in the sweep's lists, or ahead of its walk.
            ELSE NOT EXISTS (SELECT FROM sweep s WHERE s.kind_id = p.kind_id AND s.generation IS NOT NULL)
                AND NOT EXISTS (SELECT FROM work w WHERE w.kind_id = p.kind_id AND w.generation IS NOT NULL) END
    )
    SELECT e.last, s.id, s.listed_at
    FROM (SELECT CASE WHEN count(*) = $2::int8 THEN max(id) END AS last FROM page) e LEFT JOIN suspect s ON true
    ORDER BY s.id
    """

private let auditListsSQL = """
    WITH page AS MATERIALIZED (
        SELECT w.id, w.due_at, w.generation, w.timelines FROM work w WHERE w.id > $1::int8 ORDER BY w.id LIMIT $2::int8
    )
    SELECT e.last, p.due_at, p.timelines
    FROM (SELECT CASE WHEN count(*) = $2::int8 THEN max(id) END AS last FROM page) e
    LEFT JOIN page p ON p.generation IS NULL AND p.due_at <= $3::timestamptz
    """

private let input = InputColumns<AuditedTimeline>([.init("id") { $0.id }, .init("listed_at") { $0.listedAt }])

private let appointLostSQL = """
    WITH locked AS MATERIALIZED (
        SELECT t.id, i.listed_at AS audited_at, \(RowFormula.kindColumns)
        FROM \(input.rows("i")) JOIN timeline t ON t.id = i.id JOIN kind k ON k.id = t.kind_id
        WHERE t.listed_at = i.listed_at
        ORDER BY t.id FOR NO KEY UPDATE OF t SKIP LOCKED
    ), appointed AS (
        UPDATE timeline t SET \(appointing.appointment)
        FROM locked l
        WHERE t.id = l.id AND t.listed_at = l.audited_at AND \(appointing.nextLook) < 'infinity'
        RETURNING t.id, t.kind_id, t.listed_at, t.listed_lane, t.listed_anew
    ), \(appendedLists(of: "appointed"))
    SELECT count(*) AS appointed FROM appointed
    """

extension PostgresStatement where Self == Statements {
    /// One page of timelines in id order, with those of them that have something to do and either no appointment or one
    /// that has been due for longer than the slack. The latter are lost unless a list has them: see ``AuditSuspects``.
    ///
    /// A row whose appointment lies ahead, or has been due for less than the slack, is trusted: if its list is lost, it
    /// is found once the slack is over.
    package static func auditTimelines(after: Int64, limit: Int, slack: Duration) -> PostgresQuery<
        AuditRow<AuditedTimeline>
    > {
        PostgresQuery(auditTimelinesSQL, after, limit, slack.wholeMilliseconds) { row in
            let id = try row.optional("id", as: Int64.self)
            return try (row.optional("last"), id.map { id throws(PostgresError) in try (id, row.value("listed_at")) })
        }
    }

    /// One page of lists in id order, with those of them that are appointments.
    ///
    /// - Parameter latest: time of the latest appointments to read.
    package static func auditLists(after: Int64, limit: Int, latest: Timestamp) -> PostgresQuery<
        AuditRow<(dueAt: Timestamp, timelines: [Int64])>
    > {
        PostgresQuery(auditListsSQL, after, limit, latest) { row in
            let dueAt = try row.optional("due_at", as: Timestamp.self)
            return try (
                row.optional("last"), dueAt.map { dueAt throws(PostgresError) in try (dueAt, row.array("timelines")) }
            )
        }
    }

    /// Locks timelines and appoints those that still have something to do and the audited appointment, which has no
    /// list. Returns their number. It stays at zero, or a protocol step is broken. Locked rows are left out.
    package static func appointLost(_ timelines: [AuditedTimeline]) -> PostgresQuery<Int> {
        PostgresQuery(appointLostSQL, binding: input.parameters(timelines)) { row in try row.value("appointed") }
    }
}

/// Timelines of a pass of the audit that are lost unless a list has their appointment.
///
/// Lists are read after all timelines. A timeline that has the same appointment before and after was in its list all
/// the time, since a list ends after the appointment: if no page of the lists had it, the list is lost.
package struct AuditSuspects: Sendable {
    private let pass: Int64
    private let limit: Int
    private var appointments: [Int64: Timestamp] = [:]
    /// Share of the timelines that are audited, as a divisor. A power of two.
    private var divisor: UInt64 = 1
    /// Latest appointment.
    package private(set) var latest = Timestamp.distantPast

    /// - Parameters:
    ///   - pass: number of the pass.
    ///   - limit: most suspects to hold. If there are more, the pass continues with half of the timelines, and the next
    ///     ones audit the others.
    package init(pass: Int64, limit: Int = 500_000) {
        self.pass = pass
        self.limit = max(1, limit)
    }

    package var isEmpty: Bool { appointments.isEmpty }
    package var count: Int { appointments.count }

    /// The suspects in id order.
    package var timelines: [AuditedTimeline] { appointments.map { ($0.key, $0.value) }.sorted { $0.id < $1.id } }

    /// Adds a timeline of a page.
    package mutating func add(_ timeline: AuditedTimeline) {
        guard isAudited(timeline.id) else { return }
        appointments[timeline.id] = timeline.listedAt
        latest = max(latest, timeline.listedAt)
        while appointments.count > limit {
            divisor &*= 2
            appointments = appointments.filter { isAudited($0.key) }
        }
    }

    /// Removes the timelines whose appointment is a list.
    package mutating func remove(_ timelines: [Int64], listedAt: Timestamp) {
        for id in timelines where appointments[id] == listedAt { appointments[id] = nil }
    }

    private func isAudited(_ id: Int64) -> Bool {
        (UInt64(bitPattern: id) &+ UInt64(bitPattern: pass)) & (divisor &- 1) == 0
    }
}

extension PostgresStatement where Self == Statements {
    /// Takes the audit for a worker process; no row before the next pass and while another process has it. Only one
    /// process of the installation audits at a time. Answers the number of the pass, and the timeline up to which the
    /// timelines are audited.
    package static func takeAudit(worker: UInt128, lease: Duration) -> PostgresQuery<(pass: Int64, cursor: Int64)> {
        PostgresQuery(
            """
            UPDATE audit SET worker = $1::uuid, lease_ends_at = now() + $2::int8 * interval '1 millisecond'
            WHERE pass_begins_at <= now() AND (worker = $1::uuid OR lease_ends_at <= now())
            RETURNING pass, cursor
            """, worker, lease.wholeMilliseconds
        ) { row in try (pass: row.value("pass"), cursor: row.value("cursor")) }
    }

    /// Stores the progress of the pass and renews the lease; no row if another process has the audit.
    package static func advanceAudit(worker: UInt128, cursor: Int64, lease: Duration) -> PostgresQuery<Int64> {
        PostgresQuery(
            """
            UPDATE audit
            SET cursor = $2::int8, lease_ends_at = now() + $3::int8 * interval '1 millisecond', advanced_at = now()
            WHERE worker = $1::uuid
            RETURNING cursor
            """, worker, cursor, lease.wholeMilliseconds
        ) { row in try row.value("cursor") }
    }

    /// Ends the pass and the lease.
    ///
    /// - Parameters:
    ///   - isWhole: Whether the process has read all timelines of the pass. Otherwise the next pass begins at once.
    ///   - interval: pause after a whole pass.
    package static func endAuditPass(worker: UInt128, isWhole: Bool, interval: Duration) -> PostgresQuery<Void> {
        PostgresQuery(
            """
            UPDATE audit
            SET worker = NULL, lease_ends_at = '-infinity', pass = pass + 1, cursor = 0, advanced_at = now(),
                pass_begins_at = CASE WHEN $2::bool THEN now() + $3::int8 * interval '1 millisecond'
                                      ELSE pass_begins_at END
            WHERE worker = $1::uuid
            """, worker, isWhole, interval.wholeMilliseconds
        )
    }

    /// Time since the audit has advanced, beyond the pause between two passes, and since the pass began that follows
    /// the latest whole one.
    package static func auditProgress() -> PostgresQuery<(silence: Duration, unfinished: Duration)> {
        PostgresQuery(
            """
            SELECT greatest(0, extract(epoch FROM now() - greatest(advanced_at, pass_begins_at)))::float8 AS silence,
                   greatest(0, extract(epoch FROM now() - pass_begins_at))::float8 AS unfinished
            FROM audit
            """
        ) { row in
            try (silence: .seconds(row.value("silence")), unfinished: .seconds(row.value("unfinished")))
        }
    }
}
