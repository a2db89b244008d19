// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import Synchronization
import TestSupport
import Testing
import WidgetModel
import WidgetStore

/// Widgets that change continuously while their kind is moved or retired. No order of changes loses a widget or leaves
/// rows behind.
@Suite("Kinds change under load", .timeLimit(.patience))
struct KindChurnTests {
    /// Configurations by the last event of each widget; nil for removed ones.
    private final class Truth: Sendable {
        private let configurations = Mutex<[String: String?]>([:])

        var all: [String: String?] { configurations.withLock { $0 } }

        func set(_ widget: String, _ configuration: String?) {
            configurations.withLock { $0[widget] = configuration }
        }
    }

    private static let widgetsPerTask = 8

    /// Retries a transaction after conflicts with others, as ingest does.
    private func persistently(_ body: () async throws -> Void) async throws {
        var attempt = 0
        while true {
            do {
                return try await body()
            } catch let error as PostgresError where error.isRetriable && attempt < 50 {
                attempt += 1
            }
        }
    }

    /// A partition of events, with widgets of its own on shared timelines.
    private func churn(
        _ task: Int, rounds: Int, _ store: TestStore, _ truth: Truth, known: @Sendable () async throws -> KindDirectory
    ) async throws {
        var generator = SystemRandomNumberGenerator()
        for round in 0..<rounds {
            let widget = "t\(task)w\(Int.random(in: 0..<Self.widgetsPerTask, using: &generator))"
            let removes = Int.random(in: 0..<8, using: &generator) == 0
            let configuration = removes ? nil : #"{"c":\#(Int.random(in: 0..<4, using: &generator))}"#
            let directory = try await known()
            try await persistently {
                try await store.configure(
                    widget, configuration, at: Timestamp(microseconds: Int64(round) + 10), known: directory)
            }
            truth.set(widget, configuration)
        }
    }

    private func begin(_ store: TestStore, tasks: Int, _ truth: Truth) async throws {
        for task in 0..<tasks {
            let widgets = (0..<Self.widgetsPerTask).map { "t\(task)w\($0)" }
            try await store.place(
                widgets.map { .test($0, user: "u\(task)", kind: "Weather", configuration: #"{"c":0}"#) })
            for widget in widgets { truth.set(widget, #"{"c":0}"#) }
        }
    }

    private func weather(_ store: TestStore) async throws -> RegisteredKind {
        let kinds = try await store.pool.query(.listKinds(app: TestKinds.app)).readable
        return try #require(kinds.first { $0.definition.name == "Weather" })
    }

    @Test("While the definition alternates, every widget ends on the timeline of its last configuration")
    func moving() async throws {
        try await withStore { store in
            let truth = Truth()
            try await begin(store, tasks: 4, truth)
            let kindID = try await weather(store).id
            try await withThrowingTaskGroup(of: Bool.self) { group in
                for task in 0..<4 {
                    // Half of the processes never learn of a change.
                    let old = try await store.directory()
                    group.addTask {
                        try await churn(task, rounds: 120, store, truth) {
                            task % 2 == 0 ? old : try await store.directory()
                        }
                        return true
                    }
                }
                for _ in 0..<2 {
                    group.addTask {
                        while !Task.isCancelled {
                            try await persistently {
                                _ = try await store.store.changeChunk(
                                    kindID: kindID, limit: 5, grace: .seconds(3_600))
                            }
                            try await Task.sleep(for: .milliseconds(1))
                        }
                        return false
                    }
                }
                group.addTask {
                    for round in 0..<6 {
                        let sharing: KindSharing = round % 2 == 0 ? .perUser : .shared
                        try await store.apply(
                            try await store.changing("Weather") {
                                $0.sharing = sharing
                                $0.variesBy = round % 3 == 0 ? [.family] : []
                            })
                        try await Task.sleep(for: .milliseconds(40))
                    }
                    return true
                }
                var left = 5
                do {
                    while left > 0, let isWork = try await group.next() { left -= isWork ? 1 : 0 }
                } catch {
                    group.cancelAll()
                    throw error
                }
                group.cancelAll()
                // Cancellation may reach a waiting task or a running statement.
                do {
                    while try await group.next() != nil {}
                } catch is CancellationError {
                } catch let error as PostgresError where error.kind == .cancelled {}
            }
            // Makes the last pass begin after every process has learned of the change.
            try await store.sql(
                "UPDATE kind_change SET pass_begins_at = now() - interval '1 s', started_at = now() - interval '1 h'")
            while try await store.store.changeChunk(kindID: kindID, limit: 5, grace: .zero) != nil {}
            #expect(try await store.integer("SELECT count(*) FROM kind_change") == 0)

            let definition = try await weather(store).definition
            for (widget, configuration) in truth.all {
                let stored = try #require(try await store.widget(widget))
                let family = try #require(stored.family)
                let expected = configuration.map {
                    TimelineIdentity(
                        app: TestKinds.app, kind: "Weather", sharing: definition.sharing,
                        variesBy: definition.variesBy, family: family,
                        configuration: WidgetConfiguration(storedCanonical: $0), environment: stored.environment,
                        user: stored.user
                    ).id
                }
                #expect(stored.timelineID == expected, "\(widget)")
            }
            try await expectNothingLeftBehind(store)
        }
    }

    @Test("Retiring a kind under load leaves no widget with a timeline, and no timeline")
    func retiring() async throws {
        try await withStore { store in
            let truth = Truth()
            try await begin(store, tasks: 4, truth)
            let kindID = try await weather(store).id
            let old = try await store.directory()
            _ = try await store.store.retire(app: TestKinds.app, kind: "Weather")
            try await withThrowingTaskGroup(of: Void.self) { group in
                for task in 0..<4 {
                    group.addTask {
                        try await churn(task, rounds: 60, store, truth) { old }
                        try await store.place(
                            [.test("late\(task)", user: "u\(task)", kind: "Weather", configuration: #"{"c":0}"#)],
                            known: old)
                    }
                }
                for _ in 0..<2 {
                    group.addTask {
                        for _ in 0..<60 {
                            try await persistently {
                                _ = try await store.store.changeChunk(
                                    kindID: kindID, limit: 4, grace: .seconds(3_600))
                            }
                        }
                    }
                }
                try await group.waitForAll()
            }
            try await store.sql(
                "UPDATE kind_change SET pass_begins_at = now() - interval '1 s', started_at = now() - interval '1 h'")
            while try await store.store.changeChunk(kindID: kindID, limit: 4, grace: .zero) != nil {}
            #expect(try await store.integer("SELECT count(*) FROM widget WHERE timeline_id IS NOT NULL") == 0)
            #expect(try await store.integer("SELECT count(*) FROM timeline WHERE NOT orphaned") == 0)
            try await expectNothingLeftBehind(store)
            #expect(try await store.integer("SELECT count(*) FROM timeline") == 0)
        }
    }

    /// Collects orphans, and expects that exactly the timelines remain that widgets show.
    ///
    /// A timeline is orphaned although a widget shows it if the widget's transaction had not committed. The collection
    /// finds the widget.
    private func expectNothingLeftBehind(_ store: TestStore) async throws {
        #expect(try await store.unappointed() == 0)
        while case let lists = try await store.claimAll(), !lists.isEmpty {
            for list in lists { _ = try await store.collect(list) }
        }
        #expect(
            try await store.integer(
                """
                SELECT count(*) FROM timeline s
                WHERE s.orphaned = EXISTS (SELECT 1 FROM widget w WHERE w.timeline_id = s.id)
                """) == 0)
        #expect(
            try await store.integer(
                """
                SELECT count(*) FROM widget w WHERE w.timeline_id IS NOT NULL
                    AND NOT EXISTS (SELECT 1 FROM timeline s WHERE s.id = w.timeline_id)
                """) == 0)
        #expect(try await store.unappointed() == 0)
    }
}
