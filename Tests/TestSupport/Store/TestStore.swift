package import PostgresClient
package import WidgetModel
package import WidgetStore

/// A migrated database with an app and kinds in it, for one test.
package struct TestStore: Sendable {
    package let pool: PostgresPool
    package let connectionString: String

    package var store: WidgetStore { WidgetStore(pool: pool) }

    /// Runs statements by the simple protocol.
    package func sql(_ text: String) async throws {
        try await pool.withConnection { try await $0.simple(text) }
    }

    /// The value of a query that answers one integer.
    package func integer(_ query: String) async throws -> Int {
        Int(try await pool.query(TestInteger(query: query)).first ?? 0)
    }

    package func timeline(_ id: TimelineID, app: String = TestKinds.app) async throws -> TimelineDetail? {
        try await pool.query(ReadTimeline(id: id, app: app)).first
    }

    package func directory() async throws -> KindDirectory {
        try await DirectoryCache(pool: pool).refresh()
    }
}

/// Answers any query's single integer, through a function that ``withStore(_:)`` makes.
private struct TestInteger: PostgresStatement {
    static let sql = "SELECT test_integer($1::text)"
    let query: String

    func bind(_ parameters: inout PostgresParameters) {
        parameters.append(query)
    }

    static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int64 {
        try row.optional(0) ?? 0
    }
}

/// The app and kinds of the tests.
package enum TestKinds {
    package static let app = "com.example.bank"
    package static let otherApp = "com.example.other"

    /// Per user: Purchases, DueDate (two families). Shared by city: Weather.
    package static func apps(
        provider: String = "http://127.0.0.1:1/bank", maxBatch: Int = 100, minimumSpacing: Duration = .seconds(300),
        developerMode: Bool = false
    ) -> [AppDefinition] {
        func kind(
            _ name: String, sharing: KindSharing = .perUser, variesBy: KindVariation = .all,
            families: [WidgetFamily] = WidgetFamily.allCases
        ) -> KindDefinition {
            KindDefinition(
                name: name, displayName: name, description: "\(name) for tests", families: families, sharing: sharing,
                variesBy: variesBy, providerURL: provider, maxBatch: maxBatch, minimumSpacing: minimumSpacing,
                placeholder: .object(JSONObject()))
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

/// Migrated once a process; every test gets a copy.
private let migrated = DatabaseTemplate(key: "store") { pool in
    _ = try await PostgresMigrator(migrations: StoreMigrations.all).apply(on: pool)
    try await pool.withConnection { connection in
        try await connection.simple(
            """
            CREATE FUNCTION test_integer(query text) RETURNS bigint LANGUAGE plpgsql AS $$
            DECLARE answer bigint;
            BEGIN EXECUTE query INTO answer; RETURN answer; END $$
            """)
    }
}

/// Lends a migrated database with the test kinds registered.
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
    /// Places widgets as ingest does, each with a timeline by its kind's identity; answers the timelines in order.
    ///
    /// - Parameter known: the kinds as the process knows them, when it does not know the latest.
    @discardableResult
    package func place(
        _ placements: [WidgetPlacement], at time: Timestamp = Timestamp(microseconds: 1), known: KindDirectory? = nil
    ) async throws -> [TimelineID] {
        let latest = try await directory()
        let directory = known ?? latest
        var timelines: [TimelineID: TimelinePlacement] = [:]
        var writes: [WidgetWrite] = []
        var ids: [TimelineID] = []
        for placement in placements {
            guard let app = directory.apps[placement.app], let kind = directory.kind(placement.kind, of: app) else {
                throw PostgresError(.misuse, "no kind \(placement.kind) of \(placement.app)")
            }
            let identity = TimelineIdentity(
                app: app.name, kind: placement.kind, sharing: kind.definition.sharing,
                variesBy: kind.definition.variesBy, family: placement.family,
                configuration: placement.configuration, environment: placement.environment, user: placement.user)
            let id = identity.id
            ids.append(id)
            timelines[id] = TimelinePlacement(
                id: id, kindID: kind.id, identity: identity, lane: .interactive, cause: nil, reason: .placed)
            writes.append(
                WidgetWrite(
                    appID: app.id, id: placement.widget, kindID: kind.id, family: placement.family, timelineID: id,
                    user: placement.user, device: placement.device, environment: placement.environment,
                    changedAt: time))
        }
        var pipeline = PostgresPipeline()
        _ = pipeline.append(PlaceTimelines(Array(timelines.values)))
        _ = pipeline.append(InsertWidgets(writes))
        _ = try await pool.transaction(pipeline)
        return ids
    }

    /// Makes all timelines rendered and idle, as after a successful fetch long ago: nothing is due.
    package func settle() async throws {
        try await sql(
            """
            UPDATE timeline_state s
            SET rendered = s.requested, rendered_kind_generation = k.generation, rendered_app_generation = a.generation,
                swept_generation = k.generation + a.generation, leased = false, due_at = 'infinity', lane = 2,
                eligible_at = '-infinity', retry_at = '-infinity', rendered_at = now() - interval '1 day'
            FROM kind k JOIN app a ON a.id = k.app_id WHERE k.id = s.kind_id
            """)
    }
}

extension WidgetPlacement {
    /// A placement with defaults, for tests.
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

extension GenerationBump {
    /// A bump by one event.
    package init(id: Int32, events: Int64, reason: ReloadReason) {
        self.init(
            id: id, events: events, urgency: reason.urgency, cause: EventPosition(topic: 0, partition: 0, offset: 0),
            reason: reason)
    }
}
