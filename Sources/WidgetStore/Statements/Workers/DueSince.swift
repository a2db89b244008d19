package import PostgresClient
import WidgetModel

/// How much is due of some queues, each from a time on: what is due since before is not looked for.
///
/// While a transaction is held open, the versions that claims leave behind stay at the start of the claim's index, and
/// ``DueWork`` reads all of them each time. This starts behind them. What became due at an earlier time, but was committed
/// only now, is left to the next ``DueWork``.
package struct DueSince: PostgresStatement {
    package static let sql = """
        SELECT q.kind_id, q.lane, \(DueWork.columns)
        FROM unnest($2::int4[], $3::int2[], $4::timestamptz[]) AS q (kind_id, lane, since)
        JOIN kind k ON k.id = q.kind_id AND k.paused_at IS NULL
        JOIN app a ON a.id = k.app_id AND a.paused_at IS NULL
        CROSS JOIN LATERAL (\(DueWork.counted(of: "q", since: "coalesce(q.since, '-infinity')"))) d
        WHERE d.n > 0
        """

    let limit: Int
    let queues: [ClaimWish]

    /// - Parameter queues: which to look at; their counts do not matter.
    package init(limit: Int, queues: [ClaimWish]) {
        self.limit = limit
        self.queues = queues
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(Int64(limit))
        parameters.append(array: queues.map(\.kindID))
        parameters.append(array: queues.map(\.lane.rawValue))
        parameters.append(array: queues.map { $0.since.map { PostgresTimestamp($0) } })
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> DueWork.Row {
        try DueWork.decode(row)
    }
}

/// Claims as ``ClaimTimelines`` does, from the times of the wishes on.
///
/// A text of its own, and run behind ``PlanInOrder``: with two bounds the planner expects so few rows that it would rather
/// read and sort all that is due.
package struct ClaimTimelinesSince: PostgresStatement {
    package static let sql = ClaimTimelines.text(
        from: "unnest($1::int4[], $2::int2[], $3::int4[], $5::timestamptz[]) AS w (kind_id, lane, n, since)",
        where: "AND s.due_at >= coalesce(w.since, '-infinity')")

    let claim: ClaimTimelines

    package init(_ wishes: [ClaimWish], lease: Duration) {
        claim = ClaimTimelines(wishes, lease: lease)
    }

    package func bind(_ parameters: inout PostgresParameters) {
        claim.bind(&parameters)
        parameters.append(array: claim.wishes.map { $0.since.map { PostgresTimestamp($0) } })
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> ClaimedTimeline {
        try ClaimTimelines.decode(row)
    }
}

/// For the rest of the transaction, rows are read in the order of an index rather than gathered and sorted.
package struct PlanInOrder: PostgresStatement {
    package static let sql =
        "SELECT set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true)"

    package init() {}
}

extension PostgresPool {
    /// What is due of some queues, each from the time of its wish on.
    package func due(since queues: [ClaimWish], limit: Int) async throws(PostgresError) -> [DueWork.Row] {
        var pipeline = PostgresPipeline()
        _ = pipeline.append(PlanInOrder())
        let due = pipeline.append(DueSince(limit: limit, queues: queues))
        return try await transaction(pipeline).rows(due)
    }

    /// Claims from the times of the wishes on, where there are any.
    package func claim(_ wishes: [ClaimWish], lease: Duration) async throws(PostgresError) -> [ClaimedTimeline] {
        guard wishes.contains(where: { $0.since != nil }) else {
            return try await query(ClaimTimelines(wishes, lease: lease))
        }
        var pipeline = PostgresPipeline()
        _ = pipeline.append(PlanInOrder())
        let claimed = pipeline.append(ClaimTimelinesSince(wishes, lease: lease))
        return try await transaction(pipeline).rows(claimed)
    }
}
