// SPDX-License-Identifier: Apache-2.0

/// SQL of the rules of work lists (DESIGN.md) for a timeline's row `t` as a statement leaves it, and its kind.
///
/// Columns that the statement sets are their new expressions, all others those of the locked row.
struct RowFormula {
    private let new: [String: String]
    private let kind: String

    /// - Parameters:
    ///   - new: expressions of the columns that the statement sets, by name.
    ///   - kind: prefix of the kind's columns: an alias with a dot, or with one and the prefix of ``kindColumns``.
    init(_ new: [String: String] = [:], kind: String = "k.") {
        self.new = new
        self.kind = kind
    }

    /// Condition that a request is newer than the stored content.
    static let isStale = """
        (t.requested > t.rendered OR k.generation > t.generation AND k.generation > k.cancelled_generation)
        """

    /// Columns of a kind `k` for a query that rows are updated from, each with the prefix `k_`.
    ///
    /// An `UPDATE` locks rows in its query's order only if it joins nothing but the table itself, by a look-up each.
    /// Therefore the query joins the kind before the ordering.
    static let kindColumns = [
        "generation", "free_generation", "forced_generation", "cancelled_generation", "cause_topic", "cause_partition",
        "cause_offset", "cause_reason", "retired_at",
    ].map { "k.\($0) AS k_\($0)" }.joined(separator: ", ")

    func column(_ name: String) -> String { new[name] ?? "t.\(name)" }

    /// Assignments of the columns that the statement sets.
    var assignments: String { new.sorted { $0.key < $1.key }.map { "\($0.key) = \($0.value)" }.joined(separator: ", ") }

    /// Rule 1: time of the row's next look; `infinity` for never.
    var nextLook: String {
        let columns = [
            "orphaned", "asleep", "requested", "rendered", "free_requested", "forced_requested", "generation",
            "eligible_at", "free_at", "retry_at", "policy_at",
        ].map(column)
        return """
            next_look(\(columns.joined(separator: ", ")), \(kind)generation, \(kind)free_generation, \
            \(kind)forced_generation, \(kind)cancelled_generation)
            """
    }

    /// Lane of a new appointment.
    var nextLane: String {
        let columns = ["orphaned", "requested", "rendered", "generation", "cause_reason"].map(column)
        return "next_lane(\(columns.joined(separator: ", ")), \(kind)generation, \(kind)cancelled_generation)"
    }

    /// Rule 3: time of a new appointment. It is now if `looked_generation` is above the generation that this statement
    /// read: a reload of everyone came in between, and its look is over.
    var newLook: String { "CASE WHEN t.looked_generation > \(kind)generation THEN now() ELSE \(nextLook) END" }

    /// Rule 3: assignments of a new appointment.
    var appointment: String { "listed_at = \(newLook), listed_anew = true, listed_lane = \(nextLane)" }

    /// Rule 2: assignments that only improve the appointment, by a look in a lane. Computes the next look once.
    ///
    /// An appointment whose time has come is not made earlier. It may lie after `now()`, which is when this transaction
    /// began: another one made it while this one waited for the row, and its list may be in work already.
    ///
    /// - Parameters:
    ///   - nextLook: time of the look, that of rule 1 by default.
    ///   - lane: lane of the look.
    ///   - exception: condition under which the appointment is made anew in any case; by default, that the look is due
    ///     in a better lane.
    func improvement(to nextLook: String? = nil, lane: String, orIf exception: String? = nil) -> String {
        """
        (listed_at, listed_lane, listed_anew) = (
            SELECT CASE WHEN n.improves THEN n.look ELSE t.listed_at END,
                   CASE WHEN n.improves THEN \(lane) ELSE t.listed_lane END, n.improves
            FROM (
                SELECT look,
                       look < t.listed_at AND t.listed_at > clock_timestamp()
                           OR \(exception ?? "look <= now() AND \(lane) < t.listed_lane") AS improves
                FROM (SELECT \(nextLook ?? self.nextLook) AS look OFFSET 0) x OFFSET 0
            ) n)
        """
    }
}

/// Most timelines in a work list.
package let workListLimit = 200

/// CTEs `numbered` and `appended` that append lists for rows whose appointment was just made; the rows of `appended`
/// are the new lists.
///
/// - Parameters:
///   - rows: a CTE with `id`, `kind_id`, `listed_lane`, `listed_at` and `listed_anew`.
///   - lease: expression of the lease token that a row's list gets at once; NULL: none. Rows with and without one are
///     in different lists.
///   - leaseEnds: expression of the end of that lease.
func appendedLists(of rows: String, lease: String = "NULL::int8", leaseEnds: String = "now()") -> String {
    """
    numbered AS (
        SELECT id, kind_id, listed_lane, listed_at, \(lease) AS list_lease,
               (row_number() OVER (PARTITION BY kind_id, listed_lane, listed_at, \(lease) ORDER BY id) - 1)
                   / \(workListLimit) AS part
        FROM \(rows) WHERE listed_anew AND listed_at < 'infinity'
    ), appended AS (
        INSERT INTO work (kind_id, lane, due_at, ready_at, lease, leases, timelines)
        SELECT kind_id, listed_lane, listed_at,
               CASE WHEN list_lease IS NULL THEN listed_at ELSE \(leaseEnds) END, list_lease,
               CASE WHEN list_lease IS NULL THEN 0 ELSE 1 END, array_agg(id ORDER BY id)
        FROM numbered GROUP BY kind_id, listed_lane, listed_at, list_lease, part
        RETURNING id, kind_id, lane, due_at, lease, timelines
    )
    """
}
