import PostgresClient
package import WidgetModel

/// A widget of a synthetic population with a timeline of its own, rendered and quiet.
package struct FilledWidget: Sendable {
    package var placement: WidgetPlacement
    package var identity: TimelineIdentity
    package var kind: RegisteredKind
    /// Canonical JSON of policy and entries; nil without content.
    package var content: String?
    package var hash: ContentHash
    /// Delay of the policy's next reload; nil without one.
    package var nextReload: Duration?

    package init(
        placement: WidgetPlacement, identity: TimelineIdentity, kind: RegisteredKind, content: String?,
        hash: ContentHash, nextReload: Duration?
    ) {
        (self.placement, self.identity, self.kind) = (placement, identity, kind)
        (self.content, self.hash, self.nextReload) = (content, hash, nextReload)
    }
}

private let input = InputColumns<FilledWidget>([
    .init("app_id") { $0.kind.appID }, .init("widget") { $0.placement.widget }, .init("kind_id") { $0.kind.id },
    .init("family") { $0.placement.family }, .init("user_id") { $0.placement.user },
    .init("device_id") { $0.placement.device }, .init("locale") { $0.placement.environment.locale },
    .init("time_zone") { $0.placement.environment.timeZone }, .init("identity") { $0.identity.id },
    .init("timeline_family") { $0.identity.family }, .init("configuration") { $0.identity.configuration.canonical },
    .init("timeline_locale") { $0.identity.locale }, .init("timeline_time_zone") { $0.identity.timeZone },
    .init("timeline_user") { $0.identity.user }, .init("content") { $0.content }, .init("hash") { $0.hash },
    .init("next_reload") { $0.nextReload?.wholeMilliseconds },
])

private let fillWidgetsSQL = """
    WITH revision AS MATERIALIZED (
        SELECT nextval('token') AS revision
    ), input AS MATERIALIZED (
        -- Rendered so long ago that no spacing holds a reload back, and on the grid of lists, so that many share one.
        SELECT i.*, nextval('timeline_id') AS id, k.generation, now() - interval '1 hour' AS rendered_at,
               coalesce(date_bin('268.435456 seconds',
                                 now() + i.next_reload * interval '1 millisecond' + interval '268.435455 seconds', 'epoch'),
                        'infinity') AS policy_at
        FROM \(input.rows("i")) JOIN kind k ON k.id = i.kind_id
    ), filled AS (
        INSERT INTO timeline (
            id, identity, kind_id, family, configuration, locale, time_zone, user_id, requested, rendered,
            free_requested, generation, revision, content_revision, listed_at, policy_at, rendered_at, requested_at,
            placed_at, stored_at, hash, content)
        SELECT i.id, i.identity, i.kind_id, i.timeline_family, i.configuration, i.timeline_locale, i.timeline_time_zone,
               i.timeline_user, 1, 1, 1, i.generation, r.revision,
               CASE WHEN i.content IS NULL THEN 0 ELSE r.revision END,
               CASE WHEN i.policy_at < 'infinity' THEN greatest(now(), least(i.policy_at, list_horizon()))
                    ELSE 'infinity' END,
               i.policy_at, i.rendered_at, i.rendered_at, i.rendered_at,
               CASE WHEN i.content IS NOT NULL THEN i.rendered_at END,
               CASE WHEN i.content IS NOT NULL THEN i.hash END, i.content
        FROM input i, revision r
    )
    INSERT INTO widget (
        app_id, id, kind_id, family, timeline_id, user_id, device_id, locale, time_zone, placed_at, changed_at)
    SELECT app_id, widget, kind_id, family, id, user_id, device_id, locale, time_zone, rendered_at, rendered_at
    FROM input
    """

private let appointFilledSQL = """
    WITH filled AS (
        SELECT id, kind_id, listed_lane, listed_at, true AS listed_anew FROM timeline
    ), \(Appending.lists(of: "filled"))
    SELECT count(*) AS lists FROM appended
    """

extension PostgresStatement where Self == Statements {
    /// Inserts widgets of a population with their timelines, without lists.
    static func fillWidgets(_ widgets: [FilledWidget]) -> PostgresQuery<Void> {
        PostgresQuery(fillWidgetsSQL, binding: input.parameters(widgets))
    }

    /// Appends the lists of all timelines.
    static func appointFilled() -> PostgresQuery<Void> { PostgresQuery(appointFilledSQL) }
}

extension WidgetStore {
    /// Number of widgets of one statement.
    private static let fillChunk = 2_000

    /// Fills an empty database with a synthetic population, over several connections.
    ///
    /// - Parameters:
    ///   - count: number of widgets, each with its own timeline.
    ///   - connections: number of concurrent statements.
    ///   - widget: makes a widget by its index.
    ///   - progress: receives the number of widgets so far.
    package func fill(
        _ count: Int, connections: Int = 4, _ widget: @escaping @Sendable (Int) -> FilledWidget,
        progress: (Int) -> Void = { _ in }
    ) async throws {
        try await withThrowingTaskGroup(of: Int.self) { group in
            var done = 0
            for (place, start) in stride(from: 0, to: count, by: Self.fillChunk).enumerated() {
                if place >= connections { done += try await group.next() ?? 0 }
                progress(done)
                group.addTask { [pool] in
                    let widgets = (start..<min(start + Self.fillChunk, count)).map(widget)
                    _ = try await pool.execute(.fillWidgets(widgets))
                    return widgets.count
                }
            }
            for try await inserted in group { done += inserted }
            progress(done)
        }
        try await pool.withConnection { connection in
            connection.discardAfterUse()
            try await connection.simple("SET statement_timeout = 0")
            _ = try await connection.execute(.appointFilled())
            // For the visibility map, which index-only scans need, and for the planner.
            try await connection.simple("VACUUM (ANALYZE) timeline, widget, work")
        }
    }
}
