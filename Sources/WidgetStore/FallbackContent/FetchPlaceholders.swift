package import PostgresClient
import WidgetModel

/// A placeholder leased for a fetch. `claim`: fencing token of the lease. `attempts`: failures since the last fetch.
package typealias ClaimedPlaceholder = (key: PlaceholderKey, claim: Int64, attempts: Int16)

private let claimPlaceholdersSQL = """
    WITH picked AS (
        SELECT \(PlaceholderKey.columns(of: "p")) FROM placeholder p
        WHERE p.kind_id = $1::int4 AND p.due_at < 'infinity' AND p.due_at <= now() AND \(isKnownFamily("p.family"))
        ORDER BY p.due_at
        LIMIT $2::int8
        FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE placeholder p SET due_at = now() + $3::int8 * interval '1 millisecond', claim = p.claim + 1
    FROM picked c
    WHERE \(PlaceholderKey.matches("p", "c"))
    RETURNING \(PlaceholderKey.columns(of: "p")), p.claim, p.attempts
    """

/// Result of fetching a placeholder.
package struct PlaceholderResult: Sendable {
    package var placeholder: ClaimedPlaceholder
    /// Canonical JSON; nil if the fetch failed, which keeps the stored content.
    package var content: String?
    /// Delay of the next attempt, without content.
    package var delay: Duration

    package init(_ placeholder: ClaimedPlaceholder, content: String?, delay: Duration = .zero) {
        (self.placeholder, self.content, self.delay) = (placeholder, content, delay)
    }
}

private let finishPlaceholdersInput = InputColumns<PlaceholderResult>(
    PlaceholderKey.input { (result: PlaceholderResult) in result.placeholder.key } + [
        .init("claim") { $0.placeholder.claim }, .init("content") { $0.content },
        .init("delay") { $0.delay.wholeMilliseconds },
    ])

private let finishPlaceholdersSQL = """
    WITH live AS (
        SELECT \(PlaceholderKey.columns(of: "p")), i.content, i.delay
        FROM \(finishPlaceholdersInput.rows("i"))
        JOIN placeholder p ON \(PlaceholderKey.matches("p", "i")) AND p.claim = i.claim
        ORDER BY \(PlaceholderKey.columns(of: "p"))
        FOR NO KEY UPDATE OF p
    )
    UPDATE placeholder p
    SET content = coalesce(l.content, p.content),
        fetched_at = CASE WHEN l.content IS NULL THEN p.fetched_at ELSE now() END,
        due_at = CASE WHEN l.content IS NULL THEN now() + l.delay * interval '1 millisecond' ELSE 'infinity' END,
        attempts = CASE WHEN l.content IS NULL THEN least(p.attempts + 1, 32767) ELSE 0 END
    FROM live l
    WHERE \(PlaceholderKey.matches("p", "l"))
    """

private let input = InputColumns<PlaceholderKey>(PlaceholderKey.input { $0 })

private let dropPlaceholdersSQL = """
    WITH locked AS (
        SELECT \(PlaceholderKey.columns(of: "p"))
        FROM \(input.rows("i"))
        JOIN placeholder p ON \(PlaceholderKey.matches("p", "i"))
        ORDER BY \(PlaceholderKey.columns(of: "p"))
        FOR UPDATE OF p
    )
    DELETE FROM placeholder p USING locked l
    WHERE \(PlaceholderKey.matches("p", "l"))
    """

private let expirePlaceholdersSQL = """
    WITH old AS (
        SELECT \(PlaceholderKey.columns(of: "p")) FROM placeholder p
        WHERE p.asked_at < now() - interval '90 days'
        ORDER BY \(PlaceholderKey.columns(of: "p"))
        LIMIT $1::int8
        FOR UPDATE SKIP LOCKED
    )
    DELETE FROM placeholder p USING old o
    WHERE \(PlaceholderKey.matches("p", "o"))
    """

private let recordPlaceholdersSQL = """
    WITH input AS MATERIALIZED (
        SELECT DISTINCT i.kind_id, i.family, i.locale COLLATE "C" AS locale, i.time_zone COLLATE "C" AS time_zone
        FROM \(input.rows("i"))
    ), wanted AS MATERIALIZED (
        SELECT \(PlaceholderKey.columns(of: "i")), p.kind_id IS NULL AS is_new,
               row_number() OVER (PARTITION BY i.kind_id, p.kind_id IS NULL
                                  ORDER BY i.family, i.locale, i.time_zone) AS place
        FROM input i
        LEFT JOIN placeholder p ON \(PlaceholderKey.matches("p", "i"))
        WHERE p.kind_id IS NULL OR (p.due_at = 'infinity' AND p.fetched_at < now() - interval '1 hour')
    ), room AS (
        SELECT n.kind_id, \(PlaceholderKey.limit) - (
            SELECT count(*) FROM (SELECT 1 FROM placeholder p WHERE p.kind_id = n.kind_id LIMIT \(PlaceholderKey.limit)) held
        ) AS places
        FROM (SELECT DISTINCT kind_id FROM wanted WHERE is_new) n
    )
    INSERT INTO placeholder AS p (kind_id, family, locale, time_zone)
    SELECT \(PlaceholderKey.columns(of: "w"))
    FROM wanted w LEFT JOIN room r ON r.kind_id = w.kind_id
    WHERE NOT w.is_new OR w.place <= r.places
    ORDER BY \(PlaceholderKey.columns(of: "w"))
    ON CONFLICT (kind_id, family, locale, time_zone) DO UPDATE SET due_at = now(), asked_at = now()
        WHERE p.due_at = 'infinity' AND p.fetched_at < now() - interval '1 hour'
    """

extension PostgresStatement where Self == Statements {
    /// The kind, neither paused nor retired, whose placeholders have been due for longest; one of an app that has not had
    /// its turn, if there is any.
    ///
    /// - Parameters:
    ///   - excluded: kinds to leave out.
    ///   - served: apps that have had their turn.
    package static func nextPlaceholderKind(excluding excluded: [Int32], served: [Int32]) -> PostgresQuery<Int32> {
        PostgresQuery(
            """
            SELECT k.id
            FROM kind k
            JOIN app a ON a.id = k.app_id
            CROSS JOIN LATERAL (
                SELECT p.due_at FROM placeholder p
                WHERE p.kind_id = k.id AND p.due_at < 'infinity' AND p.due_at <= now()
                ORDER BY p.due_at LIMIT 1
            ) d
            WHERE k.retired_at IS NULL AND k.paused_at IS NULL AND a.paused_at IS NULL AND k.id <> ALL ($1::int4[])
            ORDER BY k.app_id = ANY ($2::int4[]), d.due_at
            LIMIT 1
            """, PostgresArray(excluded), PostgresArray(served)
        ) { row in try row.value("id") }
    }

    /// Leases due placeholders of one kind; an expired lease makes a row due again.
    package static func claimPlaceholders(kindID: Int32, limit: Int, lease: Duration) -> PostgresQuery<
        ClaimedPlaceholder
    > {
        PostgresQuery(claimPlaceholdersSQL, kindID, limit, lease.wholeMilliseconds) { row in
            try ClaimedPlaceholder(key: PlaceholderKey(row), claim: row.value("claim"), attempts: row.value("attempts"))
        }
    }

    /// Ends leases of placeholders that still hold.
    package static func finishPlaceholders(_ results: [PlaceholderResult]) -> PostgresQuery<Void> {
        PostgresQuery(finishPlaceholdersSQL, binding: finishPlaceholdersInput.parameters(results))
    }

    /// Deletes placeholders that no longer fit the families or the variation of their kind.
    package static func dropPlaceholders(_ keys: [PlaceholderKey]) -> PostgresQuery<Void> {
        PostgresQuery(dropPlaceholdersSQL, binding: input.parameters(keys))
    }

    /// Deletes a chunk of the placeholders that no device asked for in 90 days.
    package static func expirePlaceholders(limit: Int) -> PostgresQuery<Void> {
        PostgresQuery(expirePlaceholdersSQL, limit)
    }

    /// Makes the placeholders of devices' new environments due, unless they were fetched within the last hour, are due
    /// already, or wait for a back-off.
    ///
    /// Devices choose environments freely, so a kind gets at most ``PlaceholderKey/limit`` placeholders; the manifest's
    /// serves the others. Rows that need no change are not locked, since all devices of a language share them.
    package static func recordPlaceholders(_ keys: [PlaceholderKey]) -> PostgresQuery<Void> {
        PostgresQuery(recordPlaceholdersSQL, binding: input.parameters(keys))
    }
}
