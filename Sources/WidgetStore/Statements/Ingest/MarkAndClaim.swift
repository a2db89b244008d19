package import PostgresClient
import WidgetModel

/// What a mark statement may claim of what it marks: workers of the same process have room for it, so that it need not be
/// found by another statement and written by another transaction.
package struct MarkGrant: Sendable {
    /// Kinds for whose providers there are free slots.
    package var kindIDs: [Int32]
    package var lease: Duration
    /// Most timelines that a statement may claim.
    package var limit: Int

    package init(kindIDs: [Int32], lease: Duration, limit: Int) {
        self.kindIDs = kindIDs
        self.lease = lease
        self.limit = limit
    }
}

/// An answer of a statement that marks and claims: what it did, in every row, and one of the timelines that it claimed.
package struct MarkedClaim: Sendable {
    package let outcome: MarkOutcome
    /// nil in the one row of an answer without any.
    package let timeline: ClaimedTimeline?
}

/// The parts by which a statement that marks also claims, as ``ClaimTimelines`` would right behind it: not what is leased,
/// nor what spacing, budget or a retry make wait, nor anything of a kind that is paused or retired; nor of a patient lane, which has slots of its own.
///
/// Parameters 14 to 16 are the kinds, the lease in milliseconds and the limit.
enum MarkAndClaim {
    static let number = ", row_number() OVER (ORDER BY timeline_id) AS number"

    /// The kinds as they are now, not as a directory knew them; and a number that every later claim is above.
    static let granted = """
        , granted AS MATERIALIZED (
            SELECT coalesce(array_agg(k.id), '{}') AS ids, (
                SELECT last_value - CASE WHEN is_called THEN 0 ELSE 1 END FROM timeline_claim) AS floor
            FROM kind k JOIN app a ON a.id = k.app_id
            WHERE k.id = ANY ($14::int4[]) AND k.paused_at IS NULL AND k.retired_at IS NULL AND a.paused_at IS NULL
        )
        """

    private static let leaseEnd = "now() + $15::int8 * interval '1 millisecond'"

    private static let isClaimed = """
        NOT s.leased AND NOT s.orphaned AND least(s.lane, l.lane) <= \(ReloadLane.push.rawValue) AND l.number <= $16::int8
            AND s.kind_id = ANY ((SELECT ids FROM granted)::int4[])
            AND least(s.due_at, \(MarkFormula.dueTime(free: "l.free", forced: "l.forced"))) <= now()
        """

    /// A row that changed since it was found is looked at again under its lock, and gets a number then: so of two claims of it
    /// the later has the higher one.
    static let assignments = """
        due_at = CASE WHEN \(isClaimed) THEN \(leaseEnd)
                      ELSE \(MarkFormula.dueAt(free: "l.free", forced: "l.forced")) END,
        free_at = CASE WHEN \(isClaimed) THEN greatest(\(MarkFormula.freeAt(forced: "l.forced")), now())
                       ELSE \(MarkFormula.freeAt(forced: "l.forced")) END,
        claim = CASE WHEN \(isClaimed) THEN nextval('timeline_claim') ELSE s.claim END,
        leased = s.leased OR \(isClaimed)
        """

    /// A row that another transaction claimed is marked too: that claim is older, or ends at another moment. (Only two
    /// transactions that began in the same microsecond could both take a claim for their own.)
    static let returned = """
        , s.leased AND s.claim > (SELECT floor FROM granted) AND s.due_at = \(leaseEnd) AS is_claimed,
        now() AS was_due_at, \(ClaimTimelines.claimedColumns)
        """

    static let answer = """
        SELECT d.*, o.marked, o.due, o.too_many
        FROM outcome o LEFT JOIN (
        \(ClaimTimelines.details(of: "(SELECT * FROM marked WHERE is_claimed)"))
        ) d ON true
        """

    /// Columns of a claimed timeline, before those of the outcome.
    private static let claimColumns = 31

    static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> MarkedClaim {
        MarkedClaim(
            outcome: try MarkOutcome.decode(row, from: claimColumns),
            timeline: try row.optional(0, as: PostgresUUID.self) == nil ? nil : try ClaimTimelines.decode(row))
    }
}

extension PostgresParameters {
    fileprivate mutating func append(_ grant: MarkGrant) {
        append(array: grant.kindIDs)
        append(grant.lease.wholeMilliseconds)
        append(Int64(grant.limit))
    }
}

/// Marks the timelines of users, and claims of them what the grant allows.
package struct MarkAndClaimUsers: PostgresStatement {
    package static let sql = markSQL(.user, claims: true)
    let marks: [TimelineMark]
    let limit: Int
    let grant: MarkGrant

    /// It fails with ``LargeAudience/state`` where an audience is too large.
    package init(_ marks: [TimelineMark], limit: Int, grant: MarkGrant) {
        self.marks = marks
        self.limit = limit
        self.grant = grant
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(marks: marks, limit: limit, isStrict: true)
        parameters.append(grant)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> MarkedClaim {
        try MarkAndClaim.decode(row)
    }
}

/// Marks the timelines shown on devices, and claims of them what the grant allows.
package struct MarkAndClaimDevices: PostgresStatement {
    package static let sql = markSQL(.device, claims: true)
    let marks: [TimelineMark]
    let limit: Int
    let grant: MarkGrant

    /// It fails with ``LargeAudience/state`` where an audience is too large.
    package init(_ marks: [TimelineMark], limit: Int, grant: MarkGrant) {
        self.marks = marks
        self.limit = limit
        self.grant = grant
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(marks: marks, limit: limit, isStrict: true)
        parameters.append(grant)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> MarkedClaim {
        try MarkAndClaim.decode(row)
    }
}

/// Marks the timelines of single widgets, and claims of them what the grant allows.
package struct MarkAndClaimWidgets: PostgresStatement {
    package static let sql = markSQL(.widget, claims: true)
    let marks: [TimelineMark]
    let grant: MarkGrant

    package init(_ marks: [TimelineMark], grant: MarkGrant) {
        self.marks = marks
        self.grant = grant
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(marks: marks, limit: 1)
        parameters.append(grant)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> MarkedClaim {
        try MarkAndClaim.decode(row)
    }
}

/// Marks the timelines of audiences of several sorts, and claims of them what the grant allows.
package struct MarkAndClaimTimelines: PostgresStatement {
    package static let sql = markSQL(nil, claims: true)
    let audiences: MarkAudiences
    let limit: Int
    let grant: MarkGrant

    /// It fails with ``LargeAudience/state`` where an audience is too large.
    package init(_ audiences: MarkAudiences, limit: Int, grant: MarkGrant) {
        self.audiences = audiences
        self.limit = limit
        self.grant = grant
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(marks: audiences.marks, limit: limit, isStrict: true)
        parameters.append(grant)
        audiences.bindSorts(&parameters)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> MarkedClaim {
        try MarkAndClaim.decode(row)
    }
}
