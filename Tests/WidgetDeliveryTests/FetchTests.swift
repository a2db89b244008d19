import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import WidgetDelivery

@Suite("Acknowledgement by pull", .timeLimit(.patience))
struct FetchTests {
    private func record(
        _ store: TestStore, _ served: [ServedContent], objective: Duration = .seconds(30)
    ) async throws -> [Int] {
        try await store.pool.query(.recordFetches(served, objective: objective))
    }

    private func served(_ widget: String, _ revision: Int, app: String = TestKinds.app) -> ServedContent {
        ServedContent(app: app, widget: widget, revision: Int64(revision), age: .zero)
    }

    @Test("A fetch is recorded with its latency, a device once a minute")
    func once() async throws {
        try await withDelivery { delivery in
            let store = delivery.store
            try await store.place([.test("w1"), .test("w2", kind: "DueDate"), .test("w3", user: "u2", device: "d2")])
            try await delivery.register()
            try await delivery.change()
            try await delivery.deliver()
            try await store.sql("UPDATE timeline SET stored_at = now() - interval '5 seconds'")
            let revision = try await store.integer(
                "SELECT content_revision FROM timeline t JOIN widget w ON w.timeline_id = t.id WHERE w.id = 'w1'")
            #expect(try await record(store, [served("w1", revision), served("w3", revision)]) == [])
            #expect(try await store.integer("SELECT count(*) FROM registration WHERE fetched_at IS NOT NULL") == 1)
            let totals = try await store.pool.query(.deliveryTotals(hours: 1))
            #expect(totals.map(\.changes).reduce(0, +) == 2 && totals.map(\.fetched).reduce(0, +) == 1)
            let kind = try #require(totals.first { $0.fetched == 1 })
            #expect(kind.late == 0)
            let latency = try #require(kind.latency(0.5))
            #expect(latency > .seconds(4) && latency < .seconds(8.2))

            // Within the minute it waits; later the same content counts once.
            #expect(try await record(store, [served("w2", revision)]) == [0])
            try await store.sql("UPDATE registration SET fetched_at = fetched_at - interval '2 minutes'")
            #expect(try await record(store, [served("w1", revision), served("w2", revision + 1)]) == [])
            #expect(try await store.integer("SELECT cardinality(fetched_timelines) FROM registration") == 2)
            #expect(try await store.pool.query(.deliveryTotals(hours: 1)).map(\.fetched).reduce(0, +) == 2)
        }
    }

    @Test("A fetch after the objective is late, and counts add up")
    func late() async throws {
        try await withDelivery { delivery in
            let store = delivery.store
            try await store.place([.test("w1")])
            try await delivery.register()
            for _ in 0..<2 {
                try await delivery.change()
                try await store.sql(
                    """
                    UPDATE timeline SET stored_at = now() - interval '40 seconds';
                    UPDATE registration SET fetched_at = fetched_at - interval '2 minutes'
                    """)
                let revision = try await store.integer("SELECT content_revision FROM timeline")
                #expect(try await record(store, [served("w1", revision)]) == [])
            }
            let totals = try #require(try await store.pool.query(.deliveryTotals(hours: 1)).first)
            #expect(totals.late == 2 && totals.fetched == 2 && totals.latencies.reduce(0, +) == 2)
        }
    }

    @Test("Nothing is recorded for another app's widget of the same id")
    func tenants() async throws {
        try await withDelivery { delivery in
            try await delivery.store.place([.test("w1")])
            try await delivery.register()
            try await delivery.change()
            #expect(try await record(delivery.store, [served("w1", 1, app: TestKinds.otherApp)]) == [])
            #expect(
                try await delivery.store.integer("SELECT count(*) FROM registration WHERE fetched_at IS NOT NULL") == 0)
        }
    }
}
