// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import WidgetModel

@testable import WidgetStore

@Suite("States of widgets", .timeLimit(.patience))
struct WidgetStatesTests {
    /// Columns of a timeline with content and nothing to do, and those that bring it into each state.
    private static let fresh =
        "content_revision = 1, requested = 0, rendered = 0, generation = 0, listed_at = 'infinity', attempts = 0"
    private static let changes: [(WidgetState, String)] = [
        (.failing, "attempts = 1, listed_at = now() - interval '1 hour'"),
        (.overdue, "listed_at = now() - interval '2 minutes', requested = 1"), (.stale, "requested = 1"),
        (.empty, "content_revision = 0"), (.sleeping, "asleep = true"), (.fresh, "listed_at = now()"),
    ]

    private func list(_ store: TestStore, _ state: WidgetState?) async throws -> [String] {
        try await store.pool.query(.listWidgets(WidgetFilter(app: TestKinds.app, state: state), limit: 100)).map(\.id)
    }

    @Test("A widget is in the first state that applies, and lists and counts agree")
    func states() async throws {
        try await withStore { store in
            for (state, columns) in Self.changes {
                let id = try await store.place([.test("w-\(state)", user: "u-\(state)")])[0]
                try await store.sql("UPDATE timeline SET \(Self.fresh) WHERE identity = '\(id)'")
                try await store.sql("UPDATE timeline SET \(columns) WHERE identity = '\(id)'")
            }
            try await store.place([.test("w-paused", kind: "DueDate")])
            _ = try await store.store.pause(app: TestKinds.app, kind: "DueDate")
            for state in WidgetState.allCases {
                #expect(try await list(store, state) == ["w-\(state)"], "\(state)")
            }
            #expect(try await list(store, nil).count == WidgetState.allCases.count)
            let counts = try await store.pool.query(.countWidgetStates(WidgetFilter(app: TestKinds.app)))
            #expect(Set(counts.map(\.state)) == Set(WidgetState.allCases) && counts.allSatisfy { $0.widgets == 1 })
            #expect(counts.first { $0.state == .paused }?.kind == "DueDate")
            #expect(try await store.pool.query(.countWidgetStates(WidgetFilter(app: TestKinds.otherApp))).isEmpty)
        }
    }

    @Test("The oldest due list of each kind counts for its own app, unless the kind is paused")
    func oldest() async throws {
        try await withStore { store in
            try await store.place([.test("w1"), .test("w2", kind: "DueDate")])
            try await store.sql(
                """
                UPDATE work SET due_at = now() - interval '1 hour', ready_at = now() - interval '1 hour'
                WHERE kind_id = (SELECT min(id) FROM kind WHERE name = 'DueDate')
                """)
            let found = try await store.pool.query(.oldestDue(app: TestKinds.app))
            #expect(found.map(\.kind) == ["DueDate", "Purchases"])
            #expect(found.first.map { Timestamp.now() - $0.since > .seconds(3_000) } == true)
            #expect(try await store.pool.query(.oldestDue(app: TestKinds.otherApp)).isEmpty)
            _ = try await store.store.pause(app: TestKinds.app, kind: "DueDate")
            #expect(try await store.pool.query(.oldestDue(app: TestKinds.app)).map(\.kind) == ["Purchases"])
        }
    }
}
