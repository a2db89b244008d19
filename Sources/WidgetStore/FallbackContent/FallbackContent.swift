// SPDX-License-Identifier: Apache-2.0

import JSON
package import PostgresClient
package import WidgetModel

/// Content shown while a timeline has no content of its own.
package enum FallbackContent: Hashable, Sendable {
    /// Canonical JSON of one entry, and its storage time.
    case snapshot(entry: String, storedAt: Timestamp)
    /// JSON of the content, and the time of its fetch; nil for the manifest's placeholder.
    case placeholder(content: String, fetchedAt: Timestamp?)
}

/// A stored placeholder, or the manifest's.
package struct PlaceholderDetail: Sendable {
    package let app: String
    package let kind: String
    /// Family, locale and time zone are nil for the manifest's placeholder, which is the default for all environments.
    package let family: WidgetFamily?
    package let locale: String?
    /// Also nil if the kind does not vary by time zone.
    package let timeZone: String?
    /// Nil before the first fetch. Until then the manifest's placeholder is shown.
    package let content: String?
    package let fetchedAt: Timestamp?
    /// Time of the next fetch; nil if none is scheduled.
    package let dueAt: Timestamp?
    /// Failures since the last fetch.
    package let attempts: Int16
}

extension PostgresStatement where Self == Statements {
    /// The placeholder of a kind's widgets in an environment; no row if the app has no such kind.
    package static func readKindPlaceholder(
        app: String, kind: String, family: WidgetFamily, environment: WidgetEnvironment
    ) -> PostgresQuery<FallbackContent> {
        PostgresQuery(
            """
            SELECT p.content, p.fetched_at, (d.definition -> 'placeholder')::text AS manifest
            FROM app a
            JOIN kind k ON k.app_id = a.id
            JOIN kind_definition d ON d.kind_id = k.id
            LEFT JOIN placeholder p ON p.kind_id = k.id AND p.family = $3::int2 AND p.locale = $4::text
                AND p.time_zone IN ('', $5::text) AND p.content IS NOT NULL
            WHERE a.name = $1::text AND k.name = $2::text AND k.retired_at IS NULL
            ORDER BY p.time_zone DESC NULLS LAST LIMIT 1
            """, app, kind, family, environment.locale, environment.timeZone
        ) { row in
            if let content = try row.optional("content", as: String.self) {
                return .placeholder(content: content, fetchedAt: try row.optional("fetched_at"))
            }
            return .placeholder(content: try row.value("manifest"), fetchedAt: nil)
        }
    }

    /// An app's placeholders. For each kind that is not retired, the manifest's placeholder precedes the provider's.
    ///
    /// - Parameter kind: name of the kind; nil for all.
    package static func listPlaceholders(app: String, kind: String? = nil, limit: Int) -> PostgresQuery<
        PlaceholderDetail
    > {
        PostgresQuery(
            """
            SELECT a.name AS app, k.name AS kind, l.family, l.locale, l.time_zone, l.content, l.fetched_at, l.due_at, l.attempts
            FROM app a
            JOIN kind k ON k.app_id = a.id AND k.retired_at IS NULL
            JOIN kind_definition d ON d.kind_id = k.id
            CROSS JOIN LATERAL (
                SELECT NULL::int2 AS family, NULL::text AS locale, '' AS time_zone,
                       (d.definition -> 'placeholder')::text AS content, NULL::timestamptz AS fetched_at,
                       'infinity'::timestamptz AS due_at, 0::int2 AS attempts
                UNION ALL
                SELECT p.family, p.locale, p.time_zone, p.content, p.fetched_at, p.due_at, p.attempts
                FROM placeholder p WHERE p.kind_id = k.id
            ) l
            WHERE a.name = $1::text AND ($2::text IS NULL OR k.name = $2::text)
            ORDER BY k.name, l.family NULLS FIRST, l.locale, l.time_zone
            LIMIT $3::int8
            """, app, kind, limit
        ) { row in
            let timeZone: String = try row.value("time_zone")
            let dueAt: Timestamp = try row.value("due_at")
            return try PlaceholderDetail(
                app: row.value("app"), kind: row.value("kind"),
                family: row.optional("family", as: Int16.self).flatMap { WidgetFamily(rawValue: $0) },
                locale: row.optional("locale"), timeZone: timeZone.isEmpty ? nil : timeZone,
                content: row.optional("content"), fetchedAt: row.optional("fetched_at"),
                dueAt: dueAt == .distantFuture ? nil : dueAt, attempts: row.value("attempts"))
        }
    }
}

/// Key of a placeholder.
package struct PlaceholderKey: Hashable, Sendable {
    /// Most placeholders of a kind, approximately.
    package static let limit = 2_000

    package let kindID: Int32
    package let family: WidgetFamily
    package let locale: String
    /// Nil if the kind does not vary by time zone.
    package let timeZone: String?

    package init(kindID: Int32, family: WidgetFamily, locale: String, timeZone: String?) {
        (self.kindID, self.family, self.locale, self.timeZone) = (kindID, family, locale, timeZone)
    }

    /// The placeholder of a kind's widget in an environment.
    package init(kind: RegisteredKind, family: WidgetFamily, environment: WidgetEnvironment) {
        self.init(
            kindID: kind.id, family: family, locale: environment.locale,
            timeZone: kind.definition.variesBy.contains(.timeZone) ? environment.timeZone : nil)
    }

    package static func == (left: PlaceholderKey, right: PlaceholderKey) -> Bool {
        left.kindID == right.kindID && left.family == right.family && Text.equal(left.locale, right.locale)
            && Text.equal(left.timeZone, right.timeZone)
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(kindID)
        hasher.combine(family)
        Text.hash(locale, into: &hasher)
    }
}

extension PlaceholderKey {
    /// The columns that ``init(_:)`` reads, in the order of the primary key.
    static func columns(of alias: String) -> String {
        ["kind_id", "family", "locale", "time_zone"].map { "\(alias).\($0)" }.joined(separator: ", ")
    }

    /// Condition that rows of two tables have the same key.
    static func matches(_ left: String, _ right: String) -> String {
        "(\(columns(of: left))) = (\(columns(of: right)))"
    }

    /// Input columns of a key.
    static func input<Element: Sendable>(
        _ key: @escaping @Sendable (Element) -> PlaceholderKey
    ) -> [InputColumns<Element>.Column] {
        [
            .init("kind_id") { key($0).kindID }, .init("family") { key($0).family },
            .init("locale") { key($0).locale }, .init("time_zone") { key($0).timeZone ?? "" },
        ]
    }

    init(_ row: borrowing PostgresRow) throws(PostgresError) {
        let timeZone: String = try row.value("time_zone")
        try self.init(
            kindID: row.value("kind_id"), family: row.value("family"), locale: row.value("locale"),
            timeZone: timeZone.isEmpty ? nil : timeZone)
    }
}

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

/// Result of fetching a placeholder: canonical JSON, or nil after a failure, which keeps the stored content and delays
/// the next attempt.
package typealias PlaceholderResult = (placeholder: ClaimedPlaceholder, content: String?, delay: Duration)

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

private let fetchPlaceholdersInput = InputColumns<PlaceholderKey>(PlaceholderKey.input { $0 })

private let dropPlaceholdersSQL = """
    WITH locked AS (
        SELECT \(PlaceholderKey.columns(of: "p"))
        FROM \(fetchPlaceholdersInput.rows("i"))
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

/// Placeholder of an environment that a device uses.
///
/// - Parameter renews: whether the device is new in the environment, so that one that was fetched before is asked for
///   again; a placed widget wants one only where there is none.
package typealias WantedPlaceholder = (key: PlaceholderKey, renews: Bool)

private let recordPlaceholdersInput = InputColumns<WantedPlaceholder>(
    PlaceholderKey.input { (wanted: WantedPlaceholder) in wanted.key } + [.init("renews") { $0.renews }])

private let recordPlaceholdersSQL = """
    WITH input AS MATERIALIZED (
        SELECT i.kind_id, i.family, i.locale COLLATE "C" AS locale, i.time_zone COLLATE "C" AS time_zone,
               bool_or(i.renews) AS renews
        FROM \(recordPlaceholdersInput.rows("i")) GROUP BY 1, 2, 3, 4
    ), wanted AS MATERIALIZED (
        SELECT \(PlaceholderKey.columns(of: "i")), p.kind_id IS NULL AS is_new,
               row_number() OVER (PARTITION BY i.kind_id, p.kind_id IS NULL
                                  ORDER BY i.family, i.locale, i.time_zone) AS place
        FROM input i
        LEFT JOIN placeholder p ON \(PlaceholderKey.matches("p", "i"))
        WHERE p.kind_id IS NULL
            OR (i.renews AND p.due_at = 'infinity' AND p.fetched_at < now() - interval '1 hour')
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
    /// The kind, neither paused nor retired, whose placeholders have been due for longest; one of an app that has not
    /// had its turn, if there is any.
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
        PostgresQuery(dropPlaceholdersSQL, binding: fetchPlaceholdersInput.parameters(keys))
    }

    /// Deletes a chunk of the placeholders that no device asked for in 90 days.
    package static func expirePlaceholders(limit: Int) -> PostgresQuery<Void> {
        PostgresQuery(expirePlaceholdersSQL, limit)
    }

    /// Makes the placeholders of environments due that have none, and those of devices' new environments, unless they
    /// were fetched within the last hour, are due already, or wait for a back-off.
    ///
    /// Devices choose environments freely, so a kind gets at most ``PlaceholderKey/limit`` placeholders; the manifest's
    /// serves the others. Rows that need no change are not locked, since all devices of a language share them.
    package static func recordPlaceholders(_ wanted: [WantedPlaceholder]) -> PostgresQuery<Void> {
        PostgresQuery(recordPlaceholdersSQL, binding: recordPlaceholdersInput.parameters(wanted))
    }
}

/// A snapshot to store: the timeline's primary key, the fetch's token, and canonical JSON of one entry.
package typealias SnapshotWrite = (row: Int64, token: Int64, entry: String)

private let saveSnapshotsInput = InputColumns<SnapshotWrite>([
    .init("id") { $0.row }, .init("token") { $0.token }, .init("entry") { $0.entry },
])

private let saveSnapshotsSQL = """
    WITH live AS MATERIALIZED (
        SELECT i.id, i.token, i.entry
        FROM \(saveSnapshotsInput.rows("i")) JOIN timeline t ON t.id = i.id AND t.content_revision = 0 AND NOT t.orphaned
        ORDER BY t.id
        FOR SHARE OF t
    ), stored AS (
        INSERT INTO snapshot AS p (timeline_id, revision, entry)
        SELECT l.id, l.token, l.entry FROM live l
        ON CONFLICT (timeline_id) DO UPDATE
            SET revision = excluded.revision, entry = excluded.entry, stored_at = now()
            WHERE p.revision <= excluded.revision
        RETURNING 1
    )
    SELECT count(*) AS stored FROM stored
    """

extension PostgresStatement where Self == Statements {
    /// Stores snapshots of shown timelines without content, unless a later fetch has stored one. Returns the number
    /// stored.
    package static func saveSnapshots(_ writes: [SnapshotWrite]) -> PostgresQuery<Int> {
        PostgresQuery(saveSnapshotsSQL, binding: saveSnapshotsInput.parameters(writes)) { row in try row.value("stored")
        }
    }
}
