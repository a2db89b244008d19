// SPDX-License-Identifier: Apache-2.0

import JSON
package import PostgresClient
package import WidgetModel
package import WidgetStore

/// A migrated database with an app and kinds, for one test.
package struct TestStore: Sendable {
    package let pool: PostgresPool
    package let connectionString: String

    package var store: WidgetStore { WidgetStore(pool: pool) }

    /// Runs statements with the simple query protocol.
    package func sql(_ text: String) async throws {
        try await pool.withConnection { try await $0.simple(text) }
    }

    /// Returns the integer of a one-row query.
    package func integer(_ query: String) async throws -> Int {
        Int(try await pool.query(TestInteger(query: query)).first ?? 0)
    }

    package func timeline(_ id: TimelineID, app: String = TestKinds.app) async throws -> TimelineDetail? {
        try await pool.query(.readTimeline(id: id, app: app)).first
    }

    package func directory() async throws -> KindDirectory {
        try await DirectoryCache(pool: pool).refresh()
    }
}

/// Returns a query's single integer, through a function that ``withStore(_:)`` creates.
private struct TestInteger: PostgresStatement {
    let sql = "SELECT test_integer($1::text)"
    let query: String

    var parameters: PostgresParameters { PostgresParameters(query) }

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int64 {
        try row.optional("test_integer") ?? 0
    }
}

/// The app and kinds of the tests.
package enum TestKinds {
    package static let app = "com.example.bank"
    package static let otherApp = "com.example.other"

    /// Per user: Purchases, DueDate (two families). Shared by city: Weather.
    package static func apps(
        provider: String = "http://127.0.0.1:1/bank", maxBatch: Int = 100, minimumSpacing: Duration = .seconds(300),
        developerMode: Bool = false, timeout: Duration = KindDefinition.defaultTimeout
    ) -> [AppDefinition] {
        func kind(
            _ name: String, sharing: KindSharing = .perUser, variesBy: KindVariation = .all,
            families: [WidgetFamily] = WidgetFamily.allCases
        ) -> KindDefinition {
            KindDefinition(
                name: name, displayName: name, description: "\(name) for tests", families: families, sharing: sharing,
                variesBy: variesBy, providerURL: provider, maxBatch: maxBatch, timeout: timeout,
                minimumSpacing: minimumSpacing, placeholder: .object(JSONObject()))
        }
        return [
            AppDefinition(
                name: app, developerMode: developerMode,
                kinds: [
                    kind("Purchases"), kind("DueDate", families: [.systemSmall, .systemMedium]),
                    kind("Weather", sharing: .shared, variesBy: []),
                ]),
            AppDefinition(name: otherApp, developerMode: developerMode, kinds: [kind("Purchases")]),
        ]
    }
}

/// Template that is migrated once per process; every test gets a copy.
private let migrated = DatabaseTemplate(key: "store") { pool in
    _ = try await PostgresMigrator(migrations: PostgresMigration.all).apply(on: pool)
    try await pool.withConnection { connection in
        try await connection.simple(
            """
            CREATE FUNCTION test_integer(query text) RETURNS bigint LANGUAGE plpgsql AS $$
            DECLARE answer bigint;
            BEGIN EXECUTE query INTO answer; RETURN answer; END $$
            """)
    }
}

/// Creates a migrated database with the test kinds and passes it to the closure.
package func withStore<Result: Sendable>(
    _ apps: [AppDefinition] = TestKinds.apps(), _ body: (TestStore) async throws -> Result
) async throws -> Result {
    try await withDatabase(template: migrated) { database in
        let store = TestStore(pool: database.pool, connectionString: database.connectionString)
        _ = try await store.store.apply(apps, secrets: [:]) { Array(repeating: 7, count: 32) }
        return try await body(store)
    }
}

extension TestStore {
    /// Places widgets as ingest does; returns their timelines in order.
    ///
    /// - Parameter known: Kinds that the process has cached, if they are not the latest.
    @discardableResult
    package func place(
        _ placements: [WidgetPlacement], at time: Timestamp = Timestamp(microseconds: 1), known: KindDirectory? = nil
    ) async throws -> [TimelineID] {
        let latest = try await directory()
        let directory = known ?? latest
        var timelines: [TimelineID: TimelinePlacement] = [:]
        var ids: [TimelineID] = []
        var kinds: [RegisteredKind] = []
        for placement in placements {
            guard let app = directory.apps[placement.app], let kind = directory.kind(placement.kind, of: app) else {
                throw PostgresError(.misuse, "no kind \(placement.kind) of \(placement.app)")
            }
            let identity = kind.definition.identity(of: placement)
            ids.append(identity.id)
            kinds.append(kind)
            timelines[identity.id] = TimelinePlacement(
                id: identity.id, kindID: kind.id, identity: identity, lane: .interactive, cause: nil, reason: .placed)
        }
        let all = zip(zip(placements, kinds), ids).map { ($0.0, $0.1, $1) }
        let placing = Array(timelines.values)
        try await pool.withTransaction { connection in
            let placed = try await connection.place(placing)
            let writes = all.map { placement, kind, id in
                let resolved = kind.definition.resolve(placement)
                return WidgetWrite(
                    appID: kind.appID, id: placement.widget, kindID: kind.id, family: placement.family,
                    timelineID: placed.rows[id], user: placement.user, device: placement.device,
                    environment: placement.environment, configuration: resolved.configuration,
                    misfits: resolved.problems.count, changedAt: time)
            }
            _ = try await connection.query(.insertWidgets(writes))
            var marks = MarkInput()
            marks.revived = placed.stale
            if !marks.isEmpty { _ = try await connection.query(.markTimelines(marks, limit: 0)) }
        }
        return ids
    }

    /// Makes all timelines rendered and idle, as long after a successful fetch: none is due or listed.
    package func settle() async throws {
        try await sql(
            """
            UPDATE timeline t
            SET rendered = t.requested, generation = k.generation, listed_at = 'infinity', listed_lane = 3,
                eligible_at = '-infinity', free_at = '-infinity', retry_at = '-infinity', policy_at = 'infinity',
                rendered_at = now() - interval '1 day'
            FROM kind k WHERE k.id = t.kind_id;
            DELETE FROM work;
            DELETE FROM sweep
            """)
    }

    /// Returns a timeline's row; nil if it does not exist.
    package func row(of id: TimelineID) async throws -> Int64? {
        let row = try await integer("SELECT id FROM timeline WHERE identity = '\(id)'")
        return row == 0 ? nil : Int64(row)
    }

    /// Returns the number of audit findings: rows with pending work that no list will visit.
    package func unappointed(slack: Duration = .zero) async throws -> Int {
        var suspects = AuditSuspects(pass: 0)
        let page = Statements.auditTimelines(after: 0, limit: 1_000_000, slack: slack)
        let found = try await pool.query(page).compactMap(\.item)
        for timeline in found where timeline.listedAt != .distantFuture { suspects.add(timeline) }
        let lists = Statements.auditLists(after: 0, limit: 1_000_000, latest: suspects.latest)
        for list in try await pool.query(lists).compactMap(\.item) {
            suspects.remove(list.timelines, listedAt: list.dueAt)
        }
        let lost = found.filter { $0.listedAt == .distantFuture } + suspects.timelines
        return try await pool.query(.appointLost(lost)).first ?? 0
    }
}

extension WidgetPlacement {
    /// Returns a placement with default values.
    package static func test(
        _ widget: String, app: String = TestKinds.app, user: String = "u1", device: String = "d1",
        kind: String = "Purchases", family: WidgetFamily = .systemSmall, configuration: String = "{}",
        environment: WidgetEnvironment = WidgetEnvironment(storedLocale: "en-GB", timeZone: "Europe/London")
    ) -> WidgetPlacement {
        WidgetPlacement(
            app: app, widget: widget, user: user, device: device, kind: kind, family: family,
            configuration: WidgetConfiguration(storedCanonical: configuration), environment: environment)
    }
}

extension TestStore {
    /// Makes the database look like a standby that was promoted without the latest tokens: another WAL timeline, a
    /// sequence of tokens that is set back, and the end of all connections.
    package func failOver() async throws {
        try await sql(
            """
            UPDATE token_origin SET wal_timeline = wal_timeline + 1;
            SELECT setval('token', greatest(1, (SELECT last_value - 1000 FROM token)));
            """)
        // The last one ends its own connection.
        _ = try? await sql(
            """
            SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid();
            SELECT pg_terminate_backend(pg_backend_pid())
            """)
    }
}

extension EveryoneReload {
    /// Returns a bump with a number of events.
    package init(appID: Int32, kindID: Int32?, events: Int64 = 1, reason: ReloadReason = .push) {
        self.init(
            appID: appID, kindID: kindID, events: events, urgency: reason.urgency,
            cause: EventPosition(topic: 0, partition: 0, offset: 0), reason: reason)
    }
}
