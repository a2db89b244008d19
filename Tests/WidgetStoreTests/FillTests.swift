// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import Synchronization
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@Suite("Filling an empty database", .timeLimit(.patience))
struct FillTests {
    private static let environment = WidgetEnvironment(storedLocale: "en-GB", timeZone: "Europe/London")

    private static func population(_ store: TestStore) async throws -> @Sendable (Int) -> FilledWidget {
        let directory = try await store.directory()
        let app = try #require(directory.apps[TestKinds.app])
        let kind = try #require(directory.kind("Purchases", of: app))
        return { index in
            FilledWidget(
                placement: WidgetPlacement(
                    app: app.name, widget: "w\(index)", user: "u\(index)", device: "d\(index)", kind: "Purchases",
                    family: .systemSmall, environment: environment),
                identity: TimelineIdentity(
                    app: app.name, kind: "Purchases", sharing: .perUser, variesBy: .all, family: .systemSmall,
                    configuration: .empty, environment: environment, user: "u\(index)"),
                kind: kind, content: index % 2 == 0 ? #"{"entries":[]}"# : nil,
                hash: ContentHash(high: UInt64(index), low: 1), nextReload: index % 3 == 0 ? .seconds(600) : nil)
        }
    }

    @Test("Every row exists, idle, readable and with an appointment")
    func everything() async throws {
        try await withStore { store in
            let widget = try await Self.population(store)
            var seen: [Int] = []
            try await store.store.fill(25_000, connections: 3, widget) { seen.append($0) }
            #expect(seen.first == 0 && seen.last == 25_000 && seen == seen.sorted())
            let counts = [
                ("timeline", 25_000), ("widget", 25_000), ("timeline WHERE content IS NOT NULL", 12_500),
                ("timeline WHERE listed_at = 'infinity'", 16_666), ("work, unnest(timelines)", 8_334),
                ("widget w JOIN timeline t ON t.id = w.timeline_id AND t.user_id = w.user_id", 25_000),
            ]
            for (rows, count) in counts {
                #expect(try await store.integer("SELECT count(*) FROM \(rows)") == count, "\(rows)")
            }
            #expect(try await store.lists("cardinality(timelines) = 200") >= 41)
            #expect(try await store.unappointed() == 0)
            let overview = try #require(try await store.pool.query(.overview()).first)
            #expect(overview.due == 0 && overview.stale == 0 && overview.leased == 0)
        }
    }

    @Test("An event finds a filled timeline by its identity, and further widgets can be placed")
    func identity() async throws {
        try await withStore { store in
            let widget = try await Self.population(store)
            try await store.store.fill(10, connections: 1, widget)
            #expect(
                try await store.timeline(widget(4).identity.id)?.content.map { String(decoding: $0, as: UTF8.self) }
                    == #"{"entries":[]}"#)
            try await store.place([.test("later", user: "later")])
        }
    }

    @Test("A filled timeline can be marked and claimed at once")
    func claimable() async throws {
        try await withStore { store in
            try await store.store.fill(10, connections: 1, Self.population(store))
            let row = try await store.apply([try await store.mark(.user, "u3")])
            #expect(row.marked == 1 && row.due == 1)
            let list = try #require(try await store.claim(.push).first)
            #expect(list.timelines.map(\.user) == ["u3"])
            #expect(try await store.complete(list).count == 1)
        }
    }
}
