// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@Suite("Current widgets of an app, a person or a device", .timeLimit(.patience))
struct ListWidgetsTests {
    private static let filters: [(WidgetFilter, [String])] = {
        func filter(_ change: (inout WidgetFilter) -> Void) -> WidgetFilter {
            var filter = WidgetFilter(app: TestKinds.app)
            change(&filter)
            return filter
        }
        return [
            (filter { _ in }, ["w1", "w2", "w3", "w4"]),
            (filter { $0.kind = "DueDate" }, ["w2"]),
            (filter { $0.kind = "Nothing" }, []),
            (filter { $0.user = "u1" }, ["w1", "w2", "w3"]),
            (
                filter {
                    $0.user = "u1"
                    $0.kind = "Purchases"
                }, ["w1", "w3"]
            ),
            (
                filter {
                    $0.user = "u1"
                    $0.device = "d2"
                }, ["w3"]
            ),
            (
                filter {
                    $0.user = "u1"
                    $0.after = "w1"
                }, ["w2", "w3"]
            ),
            (
                filter {
                    $0.user = "u1"
                    $0.widget = "w4"
                }, []
            ),
            (filter { $0.device = "d2" }, ["w3", "w4"]),
            (
                filter {
                    $0.device = "d2"
                    $0.after = "w3"
                }, ["w4"]
            ),
            (
                filter {
                    $0.device = "d2"
                    $0.user = "u2"
                }, ["w4"]
            ),
            (filter { $0.widget = "w4" }, ["w4"]),
            (filter { $0.widget = "gone" }, ["gone"]),
            (filter { $0.app = TestKinds.otherApp }, ["x1"]),
            (
                filter {
                    $0.app = TestKinds.otherApp
                    $0.user = "u1"
                }, ["x1"]
            ),
            (filter { $0.app = "com.example.nobody" }, []),
        ]
    }()

    @Test("Every filter finds its widgets in ID order, with the person's configuration")
    func filters() async throws {
        try await withStore { store in
            try await store.place([
                .test("w3", device: "d2"), .test("w1", configuration: #"{"card":"acme"}"#),
                .test("w2", kind: "DueDate"),
                .test("w4", user: "u2", device: "d2"), .test("x1", app: TestKinds.otherApp), .test("gone"),
            ])
            try await store.sql("UPDATE widget SET timeline_id = NULL WHERE id = 'gone'")
            for (filter, expected) in Self.filters {
                let found = try await store.pool.query(.listWidgets(filter, limit: 10))
                #expect(found.map(\.id) == expected, "\(filter)")
            }
            var page = WidgetFilter(app: TestKinds.app, user: "u1")
            #expect(try await store.pool.query(.listWidgets(page, limit: 2)).map(\.id) == ["w1", "w2"])
            page.after = "w2"
            #expect(try await store.pool.query(.listWidgets(page, limit: 2)).map(\.id) == ["w3"])
            let first = try #require(
                try await store.pool.query(.listWidgets(WidgetFilter(app: TestKinds.app), limit: 1)).first)
            #expect(first.configuration == #"{"card":"acme"}"# && first.kind == "Purchases")
            #expect(first.family == .systemSmall)
        }
    }

    private struct Plan: PostgresStatement {
        let sql = "SELECT test_plan($1::text)"
        let query: String

        var parameters: PostgresParameters { PostgresParameters(query) }

        func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> String {
            try row.value("test_plan")
        }
    }

    @Test(
        "Listing by person or device reads only their index and widgets, also with a generic plan",
        arguments: [("'u77'", "NULL", "widget_by_user"), ("NULL", "'d77'", "widget_by_device")],
        ["force_generic_plan", "force_custom_plan"])
    func plans(audience: (user: String, device: String, index: String), mode: String) async throws {
        try await withStore { store in
            try await store.sql(
                """
                INSERT INTO widget (app_id, id, kind_id, family, timeline_id, user_id, device_id, locale, time_zone,
                                    placed_at, changed_at)
                SELECT k.app_id, 'w' || n, k.id, 0, n, 'u' || n % 1000, 'd' || n % 1000, 'en-GB',
                       'Europe/London', now(), now()
                FROM generate_series(1, 20000) n, (SELECT min(id) AS id, min(app_id) AS app_id FROM kind) k;
                ANALYZE widget;
                CREATE FUNCTION test_plan(query text) RETURNS text LANGUAGE plpgsql AS $$
                DECLARE line text; plan text := '';
                BEGIN
                    FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
                        plan := plan || line || chr(10);
                    END LOOP;
                    RETURN plan;
                END $$
                """)
            let plan = try await store.pool.withConnection { connection in
                try await connection.simple("SET plan_cache_mode = \(mode)")
                let listing = Statements.listWidgets(WidgetFilter(app: "a"), limit: 1)
                try await connection.simple("PREPARE listing AS \(listing.sql)")
                let call =
                    "EXECUTE listing('\(TestKinds.app)', \(audience.user), \(audience.device), NULL, NULL, '', 100, NULL, 100)"
                return try await connection.query(Plan(query: call)).first ?? ""
            }
            // Scans of widgets that were executed and not only planned.
            let lines = plan.split(separator: "\n")
            let scans = lines.filter { $0.contains(" on widget w") && !$0.contains("never executed") }
            #expect(!scans.isEmpty)
            #expect(scans.allSatisfy { $0.contains(audience.index) && $0.contains("rows=20 ") }, "\(plan)")
            #expect(!lines.contains { $0.contains("Seq Scan on widget") && !$0.contains("never executed") }, "\(plan)")
        }
    }
}
