// SPDX-License-Identifier: Apache-2.0

import JSON
import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@Suite("Placeholders are limited in number and fetched rarely", .timeLimit(.patience))
struct PlaceholderTests {
    private func kind(_ name: String, _ store: TestStore) async throws -> RegisteredKind {
        let directory = try await store.directory()
        let app = try #require(directory.apps[TestKinds.app])
        return try #require(directory.kind(name, of: app))
    }

    private func key(
        _ kind: RegisteredKind, _ locale: String = "de-DE", family: WidgetFamily = .systemSmall,
        timeZone: String = "Europe/Berlin"
    ) -> PlaceholderKey {
        PlaceholderKey(
            kind: kind, family: family, environment: WidgetEnvironment(storedLocale: locale, timeZone: timeZone))
    }

    private func claim(
        _ kind: RegisteredKind, _ store: TestStore, lease: Duration = .seconds(600)
    ) async throws -> [ClaimedPlaceholder] {
        try await store.pool.query(.claimPlaceholders(kindID: kind.id, limit: 100, lease: lease))
    }

    private func finish(
        _ claims: [ClaimedPlaceholder], _ store: TestStore, content: String? = #"{"a":1}"#
    ) async throws -> Int {
        try await store.pool.execute(
            .finishPlaceholders(claims.map { (placeholder: $0, content: content, delay: .seconds(60)) }))
    }

    private func record(
        _ keys: [PlaceholderKey], renews: Bool = true, _ store: TestStore
    ) async throws -> Int {
        try await store.pool.execute(.recordPlaceholders(keys.map { (key: $0, renews: renews) }))
    }

    /// Moves the placeholders' times into the past.
    private func pass(_ time: String, _ store: TestStore) async throws {
        try await store.sql(
            """
            UPDATE placeholder SET due_at = due_at - interval '\(time)', asked_at = asked_at - interval '\(time)',
                fetched_at = fetched_at - interval '\(time)'
            """)
    }

    private func next(_ store: TestStore, excluding kinds: [Int32] = []) async throws -> [Int32] {
        try await store.pool.query(.nextPlaceholderKind(excluding: kinds, served: []))
    }

    @Test("An environment is recorded and fetched once")
    func once() async throws {
        try await withStore { store in
            let kind = try await kind("Purchases", store)
            let keys = [key(kind), key(kind, "fr-FR"), key(kind), key(kind, family: .systemLarge)]
            #expect(try await record(keys, store) == 3)
            #expect(try await record(keys, store) == 0, "due already")
            let claims = try await claim(kind, store)
            #expect(Set(claims.map(\.key)) == Set(keys))
            #expect(try await record(keys, store) == 0, "being fetched")
            #expect(try await claim(kind, store).isEmpty, "leased")
            #expect(try await finish(claims, store) == 3)
            #expect(try await next(store).isEmpty)
            #expect(try await record(keys, store) == 0, "fetched just now")
        }
    }

    @Test("A fetched environment is fetched again only on a request after an hour")
    func seldom() async throws {
        try await withStore { store in
            let kind = try await kind("Purchases", store)
            _ = try await record([key(kind), key(kind, "fr-FR")], store)
            _ = try await finish(try await claim(kind, store), store)
            try await pass("61 minutes", store)
            #expect(try await record([key(kind)], renews: false, store) == 0, "a placed widget needs no other one")
            #expect(try await record([key(kind)], store) == 1)
            #expect(try await next(store) == [kind.id])
            #expect(try await next(store, excluding: [kind.id]).isEmpty)
            #expect(try await claim(kind, store).map(\.key) == [key(kind)])
        }
    }

    @Test("Results of expired leases are dropped")
    func leases() async throws {
        try await withStore { store in
            let kind = try await kind("Purchases", store)
            _ = try await record([key(kind)], store)
            let slow = try await claim(kind, store, lease: .zero)
            let quick = try await claim(kind, store)
            #expect(quick.map(\.key) == [key(kind)])
            #expect(try await finish(quick, store, content: "new") == 1)
            #expect(try await finish(slow, store, content: "old") == 0)
            let listed = try await store.pool.query(
                .listPlaceholders(app: TestKinds.app, kind: "Purchases", limit: 10))
            #expect(listed.map(\.content) == ["{}", "new"])
        }
    }

    @Test("A failure keeps the stored content and backs off")
    func failure() async throws {
        try await withStore { store in
            let kind = try await kind("Purchases", store)
            _ = try await record([key(kind)], store)
            _ = try await finish(try await claim(kind, store), store, content: "new")
            try await pass("2 hours", store)
            _ = try await record([key(kind)], store)
            #expect(try await finish(try await claim(kind, store), store, content: nil) == 1)
            let listed = try await store.pool.query(
                .listPlaceholders(app: TestKinds.app, kind: "Purchases", limit: 10))
            #expect(listed.map(\.content) == ["{}", "new"])
            #expect(listed.map(\.attempts) == [0, 1])
            #expect(listed.map { $0.dueAt == nil } == [true, false])
            #expect(try await record([key(kind)], store) == 0, "the back-off applies")
            #expect(try await claim(kind, store).isEmpty)
            try await pass("61 seconds", store)
            #expect(try await claim(kind, store).map(\.attempts) == [1])
        }
    }

    @Test("Placeholders of paused and retired kinds are not fetched", arguments: ["kind", "app", "retired"])
    func paused(what: String) async throws {
        try await withStore { store in
            let kind = try await kind("Purchases", store)
            _ = try await record([key(kind)], store)
            switch what {
            case "kind": try await store.sql("UPDATE kind SET paused_at = now() WHERE id = \(kind.id)")
            case "app": try await store.sql("UPDATE app SET paused_at = now() WHERE id = \(kind.appID)")
            default: try await store.sql("UPDATE kind SET retired_at = now() WHERE id = \(kind.id)")
            }
            #expect(try await next(store).isEmpty)
        }
    }

    @Test("A kind has a limited number of placeholders; expired ones make room")
    func bounded() async throws {
        try await withStore { store in
            let kind = try await kind("Purchases", store)
            let other = try await self.kind("DueDate", store)
            let many = (0..<(PlaceholderKey.limit - 1)).map { key(kind, "en-\($0)") }
            #expect(try await record(many, store) == many.count)
            let more = (0..<10).map { key(kind, "fr-\($0)") }
            #expect(try await record(more + [key(other)], store) == 2, "one of this kind and one of the other")
            #expect(try await record(more, store) == 0)
            // Existing placeholders can still be requested.
            #expect(try await finish(try await claim(kind, store), store) == 100)
            try await pass("2 hours", store)
            #expect(try await record(many + more, store) == 100)

            try await store.sql(
                "UPDATE placeholder SET asked_at = now() - interval '91 days' WHERE locale LIKE 'en-1%'")
            let old = try await store.integer("SELECT count(*) FROM placeholder WHERE locale LIKE 'en-1%'")
            #expect(try await store.pool.execute(.expirePlaceholders(limit: 50)) == 50)
            #expect(try await store.pool.execute(.expirePlaceholders(limit: 100_000)) == old - 50)
            #expect(try await record(more, store) == 9)
        }
    }

    @Test(
        "A changed definition requests the kind's placeholders again and drops fetches for the old one")
    func renewed() async throws {
        try await withStore { store in
            let kind = try await kind("Purchases", store)
            let other = try await self.kind("DueDate", store)
            _ = try await record([key(kind), key(kind, "fr-FR"), key(other)], store)
            _ = try await finish(try await claim(other, store), store)
            let claims = try await claim(kind, store)
            _ = try await finish([claims[0]], store)

            func apply(_ change: (inout KindDefinition) -> Void) async throws {
                var apps = TestKinds.apps()
                change(&apps[0].kinds[0])
                _ = try await store.store.apply(apps, secrets: [:]) { [] }
            }
            try await apply { _ in }
            #expect(try await claim(kind, store).isEmpty, "nothing has changed")
            try await apply { $0.placeholder = ["anew": true] }
            #expect(try await finish([claims[1]], store) == 0)
            #expect(try await claim(kind, store).count == 2)
            #expect(try await claim(other, store).isEmpty)
            #expect(try await store.pool.execute(.dropPlaceholders([key(kind)])) == 1)
        }
    }

    @Test("A timeline shows the stored placeholder of its environment, or else the manifest's")
    func shown() async throws {
        try await withStore { store in
            let berlin = WidgetEnvironment(storedLocale: "de-DE", timeZone: "Europe/Berlin")
            let ids = try await store.place([
                .test("w1", environment: berlin), .test("w2"), .test("w3", kind: "Weather", environment: berlin),
            ])
            let purchases = try await kind("Purchases", store)
            let weather = try await kind("Weather", store)
            #expect(key(weather).timeZone == nil && key(purchases).timeZone == "Europe/Berlin")
            _ = try await record([key(purchases), key(weather)], store)
            func fallback(_ index: Int, _ widget: String? = nil) async throws -> FallbackContent? {
                if let widget {
                    let statement = Statements.readWidgetTimeline(app: TestKinds.app, widget: widget)
                    return try await store.pool.query(statement).first?.fallback
                }
                return try await store.timeline(ids[index])?.fallback
            }
            #expect(try await fallback(0) == .placeholder(content: "{}", fetchedAt: nil), "not fetched yet")
            for kind in [purchases, weather] { _ = try await finish(try await claim(kind, store), store) }
            guard case .placeholder(#"{"a":1}"#, .some) = try await fallback(0) else {
                Issue.record("\(String(describing: try await fallback(0)))")
                return
            }
            #expect(try await fallback(1) == .placeholder(content: "{}", fetchedAt: nil), "another environment")
            // A kind that varies by nothing has timelines without an environment: the widget's applies.
            #expect(try await fallback(2) == .placeholder(content: "{}", fetchedAt: nil))
            guard case .placeholder(#"{"a":1}"#, .some) = try await fallback(2, "w3") else {
                Issue.record("\(String(describing: try await fallback(2, "w3")))")
                return
            }
        }
    }
}
