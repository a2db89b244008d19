// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import PostgresClient
import TestSupport
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

extension DeadLetterLimits {
    /// Limits that a few failures exceed.
    static func few(_ letters: Int = 5, share: Int = 10, haltingApps: Int = 100) -> DeadLetterLimits {
        var limits = DeadLetterLimits()
        limits.letters = letters
        limits.share = share
        limits.haltingApps = haltingApps
        limits.window = .seconds(600)
        return limits
    }
}

extension IngestHarness {
    static let lateApp = "com.example.late"

    var replayer: DeadLetterReplayer { DeadLetterReplayer(configuration: configuration, pool: store.pool) }

    /// A reload of everyone, which increments the generation.
    func everyone(_ app: String, kinds: KindScope = .all) -> FreshetEvent {
        .reload(ReloadRequest(app: app, audience: .everyone, kinds: kinds, reason: .push))
    }

    /// A reload of a kind that the app does not have.
    func bad(_ app: String = TestKinds.app) -> FreshetEvent { everyone(app, kinds: .kinds(["Later"])) }

    /// Number of reloads of everyone for all of the app's kinds.
    func generation(of app: String) async throws -> Int {
        try await store.integer(
            """
            SELECT k.generation FROM kind k JOIN app a ON a.id = k.app_id
            WHERE a.name = '\(app)' AND k.name = 'Purchases'
            """)
    }

    func letters(_ condition: String) async throws -> Int {
        try await store.integer("SELECT count(*) FROM dead_letter WHERE \(condition)")
    }

    func isDiverted(_ app: String = TestKinds.app) async throws -> Bool {
        try await store.pool.query(Statements.listDiversions(countLimit: 0)).contains { $0.app == app }
    }

    /// Registers an app with one kind, or adds the kind `Later` to an app.
    func register(_ app: String, kind: String = "Purchases") async throws {
        var definition = TestKinds.apps()[1]
        definition.name = app
        definition.kinds[0].name = kind
        try await store.apply([definition])
    }

    /// Publishes bytes that are not an event.
    func publishGarbage(_ count: Int, to topic: String? = nil) async throws {
        let messages = (0..<count).map { index in
            KafkaMessage(
                topic: topic ?? configuration.topics.pushes, key: Array("k\(index)".utf8), value: Array("{".utf8))
        }
        for result in await producer.send(messages) { _ = try result.get() }
    }
}
