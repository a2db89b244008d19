// SPDX-License-Identifier: Apache-2.0

import PostgresClient
package import WidgetModel
package import WidgetStore

/// Helpers of the tests that pause, retire and change kinds.
extension TestStore {
    /// Applies a manifest.
    @discardableResult
    package func apply(_ apps: [AppDefinition]) async throws -> [KindChange] {
        try await store.apply(apps, secrets: [:]) { [1, 2, 3] }
    }

    /// Returns the registered manifest with one kind of the bank changed.
    package func changing(
        _ kind: String, _ change: (inout KindDefinition) -> Void
    ) async throws -> [AppDefinition] {
        let kinds = try await pool.query(.listKinds(app: TestKinds.app)).readable.filter { !$0.isRetired }
        let definitions = kinds.map { registered in
            var definition = registered.definition
            if definition.name == kind { change(&definition) }
            return definition
        }
        return [
            AppDefinition(
                name: TestKinds.app, developerMode: kinds.first?.isDeveloperMode ?? false, kinds: definitions)
        ]
    }

    package func widget(_ id: String, app: String = TestKinds.app) async throws -> WidgetDetail? {
        try await pool.query(.listWidgets(WidgetFilter(app: app, widget: id), limit: 1)).first
    }

    /// Waits until this many statements wait for locks of other sessions.
    package func waitUntilBlocked(_ count: Int = 1) async throws {
        try await eventually("\(count) statements wait for a lock") {
            try await integer(
                """
                SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND wait_event_type = 'Lock'
                """) >= count
        }
    }

    /// Changes or removes (nil) a widget's configuration as ingest does: reads the row, then writes it.
    ///
    /// - Parameters:
    ///   - known: Kinds that the process has cached.
    ///   - afterReading: Runs while the widget is locked, before anything is written.
    package func configure(
        _ widget: String, _ configuration: String?, at time: Timestamp, known: KindDirectory,
        afterReading: () async throws -> Void = {}
    ) async throws {
        guard let app = known.apps[TestKinds.app] else { return }
        try await pool.withTransaction { connection in
            let scope = WidgetScope(widgets: [(appID: app.id, id: widget)])
            _ = try await connection.query(.lockWidgets(scope))
            guard let stored = try await connection.query(.readWidgets(scope)).first,
                let kind = known.kinds[stored.kindID], let family = stored.family
            else { return }
            try await afterReading()
            let identity = configuration.map {
                kind.identity(
                    family: family, configuration: WidgetConfiguration(storedCanonical: $0),
                    environment: stored.environment, user: stored.user)
            }
            let placed = try await connection.place(
                identity.map {
                    [
                        TimelinePlacement(
                            id: $0.id, kindID: kind.id, identity: $0, lane: .interactive, cause: nil, reason: .placed)
                    ]
                } ?? [])
            _ = try await connection.query(
                .updateWidgets([
                    WidgetWrite(
                        appID: app.id, id: widget, kindID: kind.id, family: family,
                        timelineID: identity.flatMap { placed.rows[$0.id] }, user: stored.user, device: stored.device,
                        environment: stored.environment, changedAt: time)
                ]))
            var marks = MarkInput()
            marks.revived = placed.stale
            if let old = stored.timeline, old.id != identity?.id { marks.departed = [old.row] }
            guard !marks.isEmpty else { return }
            var pipeline = PostgresPipeline()
            _ = pipeline.append(.markTimelines(marks, limit: 0))
            _ = pipeline.append(.orphanTimelines(marks.departed))
            _ = try await connection.run(pipeline)
        }
    }
}

extension RegisteredKind {
    /// Returns the identity of the timeline that a widget of the kind shows.
    package func identity(
        family: WidgetFamily, configuration: WidgetConfiguration, environment: WidgetEnvironment, user: String
    ) -> TimelineIdentity {
        definition.identity(
            of: WidgetPlacement(
                app: app, widget: "w", user: user, device: "d", kind: definition.name, family: family,
                configuration: configuration, environment: environment))
    }
}

extension TestStore {
    /// Merges members into a kind's stored definition, as a newer version may have written it.
    package func overwrite(_ kind: String, with members: String, app: String = TestKinds.app) async throws {
        try await sql(
            """
            UPDATE kind_definition d SET definition = d.definition || '\(members)'::jsonb
            FROM kind k JOIN app a ON a.id = k.app_id
            WHERE d.kind_id = k.id AND k.name = '\(kind)' AND a.name = '\(app)'
            """)
    }
}
