package import PostgresClient
import WidgetModel

/// The kind whose placeholders have been due the longest, and may be fetched: paused and retired kinds are left alone.
package struct NextPlaceholderKind: PostgresStatement {
    package static let sql = """
        SELECT k.id
        FROM kind k
        JOIN app a ON a.id = k.app_id
        CROSS JOIN LATERAL (
            SELECT p.due_at FROM placeholder p
            WHERE p.kind_id = k.id AND p.due_at < 'infinity' AND p.due_at <= now()
            ORDER BY p.due_at LIMIT 1
        ) d
        WHERE k.retired_at IS NULL AND k.paused_at IS NULL AND a.paused_at IS NULL AND k.id <> ALL ($1::int4[])
        ORDER BY d.due_at
        LIMIT 1
        """

    let excluded: [Int32]

    /// - Parameter excluded: kinds that are not to be asked for now.
    package init(excluding excluded: [Int32]) {
        self.excluded = excluded
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(array: excluded)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int32 {
        try row.value("id")
    }
}

/// A placeholder that this worker is to fetch.
package struct ClaimedPlaceholder: Sendable {
    package let key: PlaceholderKey
    /// Fencing token of the lease.
    package let claim: Int64
    /// Failures since it was last fetched.
    package let attempts: Int16
}

/// Leases due placeholders of one kind; an expired lease is a due row like any other.
package struct ClaimPlaceholders: PostgresStatement {
    package static let sql = """
        WITH picked AS (
            SELECT p.kind_id, p.family, p.locale, p.time_zone FROM placeholder p
            WHERE p.kind_id = $1::int4 AND p.due_at < 'infinity' AND p.due_at <= now()
            ORDER BY p.due_at
            LIMIT $2::int8
            FOR NO KEY UPDATE SKIP LOCKED
        )
        UPDATE placeholder p SET due_at = now() + $3::int8 * interval '1 millisecond', claim = p.claim + 1
        FROM picked c
        WHERE p.kind_id = c.kind_id AND p.family = c.family AND p.locale = c.locale AND p.time_zone = c.time_zone
        RETURNING p.kind_id, p.family, p.locale, p.time_zone, p.claim, p.attempts
        """

    let kindID: Int32
    let limit: Int
    let lease: Duration

    package init(kindID: Int32, limit: Int, lease: Duration) {
        self.kindID = kindID
        self.limit = limit
        self.lease = lease
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(kindID)
        parameters.append(Int64(limit))
        parameters.append(lease.wholeMilliseconds)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> ClaimedPlaceholder {
        ClaimedPlaceholder(
            key: try PlaceholderKey(row), claim: try row.value("claim"), attempts: try row.value("attempts"))
    }
}

/// What came of fetching a placeholder.
package struct PlaceholderResult: Sendable {
    package var placeholder: ClaimedPlaceholder
    /// Canonical JSON; `nil` when it could not be fetched: what is stored stays.
    package var content: String?
    /// When it is tried again; counts only without content.
    package var delay: Duration

    package init(_ placeholder: ClaimedPlaceholder, content: String?, delay: Duration = .zero) {
        self.placeholder = placeholder
        self.content = content
        self.delay = delay
    }
}

/// Ends the leases of placeholders, where they still hold.
package struct FinishPlaceholders: PostgresStatement {
    package static let sql = """
        WITH live AS (
            SELECT p.kind_id, p.family, p.locale, p.time_zone, i.content, i.delay
            FROM unnest($1::int4[], $2::int2[], $3::text[], $4::text[], $5::int8[], $6::text[], $7::int8[])
                AS i (kind_id, family, locale, time_zone, claim, content, delay)
            JOIN placeholder p ON p.kind_id = i.kind_id AND p.family = i.family AND p.locale = i.locale
                AND p.time_zone = i.time_zone AND p.claim = i.claim
            ORDER BY p.kind_id, p.family, p.locale, p.time_zone
            FOR NO KEY UPDATE OF p
        )
        UPDATE placeholder p
        SET content = coalesce(l.content, p.content),
            fetched_at = CASE WHEN l.content IS NULL THEN p.fetched_at ELSE now() END,
            due_at = CASE WHEN l.content IS NULL THEN now() + l.delay * interval '1 millisecond' ELSE 'infinity' END,
            attempts = CASE WHEN l.content IS NULL THEN least(p.attempts + 1, 32767) ELSE 0 END
        FROM live l
        WHERE p.kind_id = l.kind_id AND p.family = l.family AND p.locale = l.locale AND p.time_zone = l.time_zone
        """

    let results: [PlaceholderResult]

    package init(_ results: [PlaceholderResult]) {
        self.results = results
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(keys: results.map(\.placeholder.key))
        parameters.append(array: results.map(\.placeholder.claim))
        parameters.append(array: results.map(\.content))
        parameters.append(array: results.map(\.delay.wholeMilliseconds))
    }
}

/// Deletes placeholders that no longer fit their kind's definition: of a family that it has given up, or with or without
/// a time zone when it is the other way round now.
package struct DropPlaceholders: PostgresStatement {
    package static let sql = """
        WITH locked AS (
            SELECT p.kind_id, p.family, p.locale, p.time_zone
            FROM unnest($1::int4[], $2::int2[], $3::text[], $4::text[]) AS i (kind_id, family, locale, time_zone)
            JOIN placeholder p ON p.kind_id = i.kind_id AND p.family = i.family AND p.locale = i.locale
                AND p.time_zone = i.time_zone
            ORDER BY p.kind_id, p.family, p.locale, p.time_zone
            FOR UPDATE OF p
        )
        DELETE FROM placeholder p USING locked l
        WHERE p.kind_id = l.kind_id AND p.family = l.family AND p.locale = l.locale AND p.time_zone = l.time_zone
        """

    let keys: [PlaceholderKey]

    package init(_ keys: [PlaceholderKey]) {
        self.keys = keys
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(keys: keys)
    }
}

/// Deletes a chunk of the placeholders that nobody has asked for in a quarter of a year, to make room for others.
package struct ExpirePlaceholders: PostgresStatement {
    package static let sql = """
        WITH old AS (
            SELECT p.kind_id, p.family, p.locale, p.time_zone FROM placeholder p
            WHERE p.asked_at < now() - interval '90 days'
            ORDER BY p.kind_id, p.family, p.locale, p.time_zone
            LIMIT $1::int8
            FOR UPDATE SKIP LOCKED
        )
        DELETE FROM placeholder p USING old o
        WHERE p.kind_id = o.kind_id AND p.family = o.family AND p.locale = o.locale AND p.time_zone = o.time_zone
        """

    let limit: Int

    package init(limit: Int) {
        self.limit = limit
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(Int64(limit))
    }
}
