// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

@Suite("A kind whose definition only a newer version can read stops no other kind", .timeLimit(.patience))
struct UnreadableKindTests {
    private let at = Timestamp(microseconds: 1_700_000_000_000_000)
    private let later = Timestamp(microseconds: 1_700_000_001_000_000)
    private let paris = WidgetEnvironment(storedLocale: "fr-FR", timeZone: "Europe/Paris")

    private func locale(of widget: String, _ ingest: IngestHarness) async throws -> String? {
        try await ingest.store.widget(widget)?.environment.locale
    }

    /// Publishes events of all sorts after the definition of a kind has become unreadable.
    private func withUnreadableKind(_ body: (IngestHarness, TestStore) async throws -> Void) async throws {
        try await IngestHarness.lend(partitions: 1, deadLetters: .few(1)) { ingest in
            let store = ingest.store
            _ = try await store.place([.test("w1"), .test("w2", kind: "DueDate")])
            try await store.settle()
            try await store.overwrite("Purchases", with: #"{"sharing":"perHousehold"}"#)
            try await ingest.running([ingest.service()]) {
                try await ingest.publish(
                    [
                        ingest.everyone(TestKinds.app), ingest.everyone(TestKinds.app, kinds: .kinds(["Purchases"])),
                        ingest.everyone(TestKinds.otherApp), ingest.push("u1"),
                    ])
                try await ingest.publish(
                    [
                        .placed(.test("w3", user: "u3")), .placed(.test("w4", user: "u4", kind: "DueDate")),
                        .configured(app: TestKinds.app, widget: "w1", configuration: .empty),
                        .environmentChanged(
                            app: TestKinds.app, device: "d1", environment: paris, significantTimeChange: false),
                    ], at: later)
                try await ingest.waitUntilApplied(8)
            }
            try await body(ingest, store)
        }
    }

    @Test("Reloads and events of other kinds are applied")
    func applied() async throws {
        try await withUnreadableKind { ingest, store in
            #expect(try await ingest.generation(of: TestKinds.app) == 2)
            #expect(try await ingest.generation(of: TestKinds.otherApp) == 1)
            #expect(try await ingest.counted() == 1, "the push is applied to the timeline of w1")
            let placed = try await store.widget("w4")
            #expect(placed != nil)
            #expect(try await locale(of: "w2", ingest) == "fr-FR")
        }
    }

    @Test("Events that need the definition wait as dead letters")
    func waiting() async throws {
        try await withUnreadableKind { ingest, store in
            let waiting = try await store.widget("w3")
            #expect(waiting == nil)
            #expect(try await locale(of: "w1", ingest) == "en-GB")
            #expect(try await ingest.letters("cause = 'unreadable' AND code = 'unreadableKind'") == 1)
            #expect(try await ingest.letters("cause = 'unreadable' AND code = 'unreadableWidget'") == 2)
            #expect(try await ingest.letters("true") == 3)
            #expect(try await !ingest.isDiverted(), "its producer made no mistake")
        }
    }

    @Test("A replay by a version that reads the definition loses none of the events that need it")
    func replayed() async throws {
        try await withUnreadableKind { ingest, store in
            try await store.overwrite("Purchases", with: #"{"sharing":"perUser"}"#)
            let filter = DeadLetterFilter(owner: .app(TestKinds.app), causes: [.unreadable])
            let outcome = try await ingest.replayer.replay(filter)
            #expect(outcome.replayed == 3 && outcome.failed == 0)
            #expect(try await store.widget("w3") != nil)
            #expect(try await locale(of: "w1", ingest) == "fr-FR")
            #expect(try await locale(of: "w2", ingest) == "fr-FR")
        }
    }

    @Test("A widget of an unknown family stays as it is, and its events wait")
    func family() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            let store = ingest.store
            _ = try await store.place([.test("w1"), .test("w2", kind: "DueDate")])
            try await store.sql("UPDATE widget SET family = 77 WHERE id = 'w1'")
            try await ingest.running([ingest.service()]) {
                try await ingest.publish(
                    [
                        .removed(app: TestKinds.app, widget: "w1"),
                        .environmentChanged(
                            app: TestKinds.app, device: "d1", environment: paris, significantTimeChange: false),
                        .placed(.test("w3", user: "u3")),
                    ], at: later)
                try await ingest.waitUntilApplied(3)
            }
            #expect(try await ingest.letters("cause = 'unreadable' AND code = 'unreadableWidget'") == 2)
            #expect(try await locale(of: "w2", ingest) == "fr-FR")
            #expect(try await locale(of: "w1", ingest) == "en-GB")
            #expect(try await store.integer("SELECT family FROM widget WHERE id = 'w1'") == 77)
            #expect(try await store.widget("w3") != nil)
        }
    }
}
