package import PostgresClient
package import WidgetModel

/// Ends lists, each by id and lease token. A list that was not compared is ended only if no other worker was registered since
/// it was leased.
package struct EndLists: PostgresStatement {
    package struct Row: Sendable {
        package let hold: ListHold
        package let outcome: Outcome
    }

    package enum Outcome: String, Sendable {
        /// The list is deleted.
        case ended
        /// Another process holds it.
        case lost
        /// Other workers are registered: what was published is to be compared before the end.
        case uncompared
    }

    /// One end of a list.
    package struct End: Sendable {
        package let hold: ListHold
        /// Whether what was published was compared after the acknowledgement.
        package let isCompared: Bool

        package init(_ hold: ListHold, isCompared: Bool) {
            self.hold = hold
            self.isCompared = isCompared
        }
    }

    private static let input = InputColumns<End>([
        .init("id") { $0.hold.id }, .init("lease") { $0.hold.lease }, .init("compared") { $0.isCompared },
    ])

    /// Only the holder ends a list.
    package static let leaseCheck = "AND w.lease = i.lease"

    package static let sql = """
        WITH input AS MATERIALIZED (
            SELECT * FROM \(input.rows("i")) ORDER BY id
        ), checked AS MATERIALIZED (
            SELECT i.*, i.compared OR NOT EXISTS (
                SELECT FROM worker o
                WHERE o.id <> $\(input.count + 1)::uuid AND o.seen_at > now() - \(RegisterWorker.memory)
                    AND (o.left_token IS NULL OR o.left_token >= i.lease)) AS sure
            FROM input i
        ), ended AS (
            DELETE FROM work w USING checked i
            WHERE w.id = i.id AND w.id = ANY (ARRAY(SELECT id FROM input)) \(leaseCheck) AND i.sure
            RETURNING w.id, w.lease
        )
        SELECT i.id, i.lease, CASE WHEN e.id IS NOT NULL THEN 'ended' WHEN i.sure THEN 'lost' ELSE 'uncompared' END AS outcome
        FROM checked i LEFT JOIN ended e ON e.id = i.id AND e.lease = i.lease
        """

    package var parameters = PostgresParameters()

    package init(_ ends: [End], worker: PostgresUUID) {
        Self.input.bind(ends, to: &parameters)
        parameters.append(worker)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        let name: String = try row.value("outcome")
        guard let outcome = Outcome(rawValue: name) else {
            throw PostgresError(.decoding, "column \"outcome\" holds \(name); expected an outcome of an end")
        }
        return Row(hold: ListHold(id: try row.value("id"), lease: try row.value("lease")), outcome: outcome)
    }
}

/// Lets the COMMIT of this transaction return before its WAL is on disk: for ends of lists, whose loss costs a comparison.
package struct CommitAsynchronously: PostgresStatement {
    package static let sql = "SELECT set_config('synchronous_commit', 'off', true)"

    package init() {}

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) {}
}

/// Gives leased lists back, ready after a delay. The answer names those that were still held.
package struct GiveBackLists: PostgresStatement {
    package struct Return: Sendable {
        package let hold: ListHold
        package let delay: Duration
        /// Whether the lease counts: rows of the list may be stored and not published.
        package let counts: Bool

        package init(_ hold: ListHold, delay: Duration, counts: Bool) {
            self.hold = hold
            self.delay = delay
            self.counts = counts
        }
    }

    private static let input = InputColumns<Return>([
        .init("id") { $0.hold.id }, .init("lease") { $0.hold.lease }, .init("delay") { $0.delay.wholeMilliseconds },
        .init("counts") { $0.counts },
    ])

    package static let sql = """
        UPDATE work w
        SET ready_at = now() + i.delay * interval '1 millisecond', lease = NULL,
            leases = w.leases - CASE WHEN i.counts OR w.leases = 0 THEN 0 ELSE 1 END
        FROM \(input.rows("i")) WHERE w.id = i.id AND w.id = ANY ($1::int8[]) AND w.lease = i.lease
        RETURNING i.id, i.lease
        """

    package let parameters: PostgresParameters

    package init(_ returns: [Return]) {
        parameters = Self.input.parameters(returns)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> ListHold {
        ListHold(id: try row.value("id"), lease: try row.value("lease"))
    }
}

/// Appends lists of the timelines with these identities, of which something may be published that is not stored: they count as
/// leased before, so that whoever claims them compares all of them. Answers the identities that exist.
package struct AppendSuspects: PostgresStatement {
    package static let sql = """
        WITH found AS MATERIALIZED (
            SELECT t.id, t.kind_id, t.identity FROM timeline t WHERE t.identity = ANY ($1::uuid[])
        ), appended AS (
            INSERT INTO work (kind_id, lane, due_at, ready_at, leases, timelines)
            SELECT kind_id, \(ReloadLane.push.rawValue), now(), now(), 1, array_agg(id ORDER BY id)
            FROM found GROUP BY kind_id
        )
        SELECT identity FROM found
        """

    package let parameters: PostgresParameters

    package init(_ ids: [TimelineID]) {
        parameters = PostgresParameters(array: ids)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> TimelineID {
        try row.value("identity")
    }
}
