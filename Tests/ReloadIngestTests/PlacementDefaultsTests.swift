// SPDX-License-Identifier: Apache-2.0

import JSON
import PostgresClient
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

/// DESIGN.md, D: a dynamic default comes from the provider: card = the primary card.
@Suite("Dynamic defaults of new widgets", .timeLimit(.patience))
struct PlacementDefaultsTests {
    private struct Provider: ConfigurationProvider {
        typealias Answer = Result<WidgetConfiguration, ProviderFailure>

        let asked = Tally()
        let answer: @Sendable (ConfigurationContext) async -> Answer

        init(_ answer: @escaping @Sendable (ConfigurationContext) async -> Answer) { self.answer = answer }

        func options(
            _ question: OptionsQuestion, of kind: KindDefinition, app: String
        ) async throws(ProviderFailure) -> IntentOptions { IntentOptions() }

        func defaults(
            _ context: ConfigurationContext, of kind: KindDefinition, app: String
        ) async throws(ProviderFailure) -> WidgetConfiguration {
            asked.add()
            return try await answer(context).get()
        }
    }

    private let at = Timestamp(microseconds: 1_700_000_000_000_000)
    private static let acme = WidgetConfiguration(storedCanonical: #"{"card":"acme"}"#)

    /// Runs ingest with a kind whose card has a dynamic default.
    private func withIngest(
        _ provider: Provider, patience: Duration = .seconds(3_600), maximumWaiting: Int = 1_000,
        _ body: (IngestHarness, Provider) async throws -> Void
    ) async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            let apps = try await ingest.store.changing("Purchases") { kind in
                kind.intent = IntentDefinition(
                    title: "Purchases",
                    parameters: [
                        IntentParameter(
                            name: "card", displayName: "Card", type: .custom(typeName: "Card"), defaultValue: "any",
                            hasDynamicOptions: true, hasDynamicDefault: true),
                        IntentParameter(
                            name: "category", displayName: "Category", type: .string(.none), defaultValue: "all"),
                    ])
            }
            let others = apps.map { AppDefinition(name: TestKinds.otherApp, developerMode: false, kinds: $0.kinds) }
            try await ingest.store.apply(apps + others)
            let pool = ingest.store.pool
            let defaults = PlacementDefaults(
                provider: provider, pool: pool, directory: DirectoryCache(pool: pool), audienceLimit: 1_000,
                patience: patience, maximumWaiting: maximumWaiting,
                logger: IngestHarness.quiet, onLists: {})
            try await ingest.running([defaults, ingest.service(defaults: defaults)]) {
                try await body(ingest, provider)
            }
        }
    }

    /// Runs ingest with a placed widget for whose card the provider was asked and answers when the gate opens.
    private func withHeldAnswer(_ body: (IngestHarness, Provider, Gate) async throws -> Void) async throws {
        let gate = Gate()
        let provider = Provider { _ in
            try? await gate.pass()
            return .success(Self.acme)
        }
        try await withIngest(provider) { ingest, provider in
            try await ingest.publish([.placed(.test("w1"))], at: at)
            try await provider.asked.reaches(1)
            try await body(ingest, provider, gate)
        }
    }

    private func configured(_ widget: String, _ json: String) -> FreshetEvent {
        .configured(
            app: TestKinds.app, widget: widget, configuration: WidgetConfiguration(storedCanonical: json))
    }

    private func configuration(_ widget: String, _ ingest: IngestHarness) async throws -> String? {
        try await ingest.store.widget(widget)?.configuration
    }

    /// Configurations of a widget's timelines that are due now.
    private func due(_ configuration: String, _ ingest: IngestHarness) async throws -> Int {
        try await ingest.store.integer(
            """
            SELECT count(*) FROM timeline t JOIN widget w ON w.timeline_id = t.id
            WHERE t.configuration = '\(configuration)' AND t.listed_at <= now()
            """)
    }

    @Test("D: the provider is asked once at placement; the timeline waits, and uses the provider's values")
    func chosen() async throws {
        try await withHeldAnswer { ingest, provider, gate in
            #expect(try await due(#"{"card":"any","category":"all"}"#, ingest) == 0)
            #expect(try await ingest.store.unappointed() == 0)
            gate.open()
            try await eventually("the widget has its card") {
                try await configuration("w1", ingest) == #"{"card":"acme"}"#
            }
            #expect(try await due(#"{"card":"acme","category":"all"}"#, ingest) == 1)
            #expect(try await ingest.store.integer("SELECT count(*) FROM timeline WHERE NOT orphaned") == 1)

            // A later configuration or placement without the card keeps it, without a request.
            try await ingest.publish(
                [configured("w1", #"{"category":"food"}"#)],
                at: at + .seconds(1))
            try await ingest.waitUntilApplied(2)
            #expect(try await configuration("w1", ingest) == #"{"card":"acme","category":"food"}"#)
            try await ingest.publish([.placed(.test("w1"))], at: at + .seconds(2))
            try await ingest.waitUntilApplied(3)
            #expect(try await configuration("w1", ingest) == #"{"card":"acme"}"#)
            #expect(provider.asked.count == 1)
            #expect(try await ingest.store.unappointed() == 0)
        }
    }

    @Test("D: a placement that has the value causes no request")
    func given() async throws {
        try await withIngest(Provider { _ in .success(Self.acme) }) { ingest, provider in
            try await ingest.publish([.placed(.test("w1", configuration: #"{"card":"soup"}"#))], at: at)
            try await ingest.waitUntilApplied(1)
            #expect(try await due(#"{"card":"soup","category":"all"}"#, ingest) == 1)
            #expect(provider.asked.count == 0)
        }
    }

    @Test("When the provider fails, the definition's defaults apply and the timeline stops waiting")
    func failing() async throws {
        try await withIngest(Provider { _ in .failure(ProviderFailure(.provider, "down")) }) { ingest, provider in
            try await ingest.publish([.placed(.test("w1"))], at: at)
            try await eventually("the timeline is due") {
                try await due(#"{"card":"any","category":"all"}"#, ingest) == 1
            }
            #expect(try await configuration("w1", ingest) == "{}")
            #expect(provider.asked.count == 1)
        }
    }

    @Test("D: a late answer is not waited for")
    func late() async throws {
        let provider = Provider { _ in
            try? await Gate().pass()
            return .success(Self.acme)
        }
        try await withIngest(provider, patience: .milliseconds(50)) { ingest, provider in
            try await ingest.publish([.placed(.test("w1"))], at: at)
            try await eventually("the timeline is due") {
                try await due(#"{"card":"any","category":"all"}"#, ingest) == 1
            }
        }
    }

    @Test("A value that the person sets during the request is not overridden")
    func meanwhile() async throws {
        try await withHeldAnswer { ingest, provider, gate in
            try await ingest.publish(
                [configured("w1", #"{"card":"soup"}"#)],
                at: at + .seconds(1))
            try await ingest.waitUntilApplied(2)
            gate.open()
            try await ingest.publish([.placed(.test("w2"))], at: at)
            try await eventually("the other widget has its card") {
                try await configuration("w2", ingest) == #"{"card":"acme"}"#
            }
            #expect(try await configuration("w1", ingest) == #"{"card":"soup"}"#)
        }
    }

    @Test("A provider that does not answer blocks neither ingest nor other apps' widgets")
    func slow() async throws {
        let provider = Provider { context in
            if context.user == "slow" { try? await Gate().pass() }
            return .success(Self.acme)
        }
        try await withIngest(provider) { ingest, _ in
            try await ingest.publish((0..<7).map { .placed(.test("slow\($0)", user: "slow")) }, at: at)
            try await ingest.publish([.placed(.test("w1"))], at: at)
            try await ingest.waitUntilApplied(8)
            try await eventually("the widget has its card") {
                try await configuration("w1", ingest) == #"{"card":"acme"}"#
            }
        }
    }

    @Test("A provider with more waiting widgets than there are places leaves places for others")
    func full() async throws {
        let provider = Provider { context in
            if context.user == "slow" { try? await Gate().pass() }
            return .success(Self.acme)
        }
        try await withIngest(provider, maximumWaiting: 8) { ingest, _ in
            try await ingest.publish((0..<40).map { .placed(.test("slow\($0)", user: "slow")) }, at: at)
            try await ingest.waitUntilApplied(40)
            try await ingest.publish([.placed(.test("w1", app: TestKinds.otherApp))], at: at)
            try await eventually("the widget has its card") {
                try await ingest.store.integer(
                    """
                    SELECT count(*) FROM widget w JOIN timeline t ON t.id = w.timeline_id
                    WHERE w.id = 'w1' AND t.configuration = '{"card":"acme","category":"all"}'
                    """) == 1
            }
        }
    }
}
