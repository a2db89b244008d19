// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@Suite("Snapshots are shown until there is a timeline", .timeLimit(.patience))
struct SnapshotTests {
    private static let entry = #"{"content":"at once","date":"2026-01-01T00:00:00Z"}"#

    private func save(_ list: LeasedList, _ store: TestStore, entry: String = entry) async throws -> Int? {
        try await store.pool.query(
            .saveSnapshots(list.timelines.map { (row: $0.row, token: list.lease, entry: entry) })
        ).first
    }

    @Test("A widget shows the manifest's placeholder, then the snapshot, then only the timeline")
    func order() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            let first = try #require(try await store.timeline(id))
            #expect(first.fallback == .placeholder(content: "{}", fetchedAt: nil))
            #expect(try await store.timeline(id, app: TestKinds.otherApp) == nil)

            let list = try #require(try await store.claim(.interactive).first)
            #expect(list.timelines.map(\.renderedAt) == [nil])
            #expect(try await save(list, store) == 1)
            guard case .snapshot(Self.entry, let storedAt)? = try await store.timeline(id)?.fallback else {
                Issue.record("no snapshot")
                return
            }
            #expect(storedAt >= first.readAt)

            try await store.complete(list, content: "stored")
            let last = try #require(try await store.timeline(id))
            #expect(last.fallback == nil && last.content.map { String(decoding: $0, as: UTF8.self) } == "stored")
            #expect(try await store.integer("SELECT count(*) FROM snapshot") == 0)
            #expect(try await save(list, store) == 0, "the snapshot is later than its timeline")
        }
    }

    @Test("A snapshot of a later fetch replaces the stored one, one of an earlier fetch does not")
    func ordered() async throws {
        try await withStore { store in
            try await store.place([.test("w1")])
            let first = try #require(try await store.claim(.interactive, lease: .zero).first)
            let second = try #require(try await store.claim(.interactive).first)
            #expect(try await save(second, store) == 1)
            #expect(try await save(first, store, entry: "old") == 0)
            #expect(try await save(second, store, entry: #"{"content":2,"date":"2026-01-01T00:00:00Z"}"#) == 1)
            #expect(
                try await store.integer(
                    "SELECT count(*) FROM snapshot WHERE entry LIKE '%2,%' AND revision = \(second.lease)") == 1)
        }
    }

    @Test("A snapshot is deleted with its collected timeline or its erased user")
    func goes() async throws {
        try await withStore { store in
            let ids = try await store.place([
                .test("w1", user: "me"), .test("w2", user: "you"), .test("w3", user: "them"),
            ])
            func snapshots(_ id: TimelineID) async throws -> Int {
                try await store.integer(
                    "SELECT count(*) FROM snapshot s JOIN timeline t ON t.id = s.timeline_id WHERE identity = '\(id)'")
            }
            let list = try #require(try await store.claim(.interactive).first)
            #expect(try await save(list, store) == 3)
            _ = try await store.store.erase(user: "me", of: TestKinds.app)
            #expect(try await snapshots(ids[0]) == 0)

            try await store.remove(["w2"])
            #expect(try await save(list, store) == 1, "the others are not shown any more")
            try await store.sql("UPDATE work SET ready_at = now()")
            for orphans in try await store.claimAll() {
                var orphans = orphans
                orphans.timelines.removeAll { !$0.state.isOrphaned }
                #expect(try await store.collect(orphans).isEmpty)
            }
            #expect(try await store.integer("SELECT count(*) FROM snapshot") == 1)
            #expect(try await snapshots(ids[2]) == 1)
        }
    }
}
