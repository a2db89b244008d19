// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import TestSupport
import Testing
import WidgetModel
import WidgetStore

/// `freshet kinds stats` and `freshet forecast`.
@Suite(.tags(.process), .timeLimit(.patience))
struct StatisticsTests {
    @Test("Counts of workers are shown after the process has stopped in order")
    func stats() async throws {
        try await withInstallation { installation in
            let (process, _) = try await installation.run()
            for user in ["u1", "u2"] {
                _ = try await installation.freshet(
                    "publish", "widget", "placed", "--app", Installation.app, "--user", user, "--device", "d-\(user)",
                    "--kind", "DueDate", "w-\(user)")
            }
            try await eventually("both are rendered") {
                try await installation.store.integer(
                    "SELECT count(*) FROM timeline WHERE rendered_at IS NOT NULL") == 2
            }
            process.send(signal: SIGTERM)
            #expect(try await process.end().status == 0)

            let json = try await installation.freshet(
                "kinds", "stats", "--app", Installation.app, "--json", "--days", "2")
            #expect(json.status == 0, "\(json.err)")
            let kinds = try #require(try JSONValue.parse(json.out)["kinds"]?.arrayValue)
            #expect(kinds.map { $0["kind"] } == ["DueDate", "RecentPurchases"])
            for (counter, least) in [("reloaded", Int64(2)), ("bytesStored", 1)] {
                #expect((kinds[0]["total"]?[counter]?.numberValue?.int64 ?? 0) >= least, "\(counter)")
            }
            #expect(kinds[1]["total"]?["requests"] == 0)
            let text = try await installation.freshet("kinds", "stats", "--app", Installation.app)
            #expect(text.status == 0 && text.out.hasPrefix("KIND") && text.out.contains("\nDueDate "))

            let forecast = try await installation.freshet("forecast", "--json", "--hours", "48")
            let providers = try #require(try JSONValue.parse(forecast.out)["providers"]?.arrayValue)
            #expect(providers.map { $0["kinds"] } == [["DueDate", "RecentPurchases"]])
            #expect(providers.map { $0["hours"]?.arrayValue?.count } == [48])
        }
    }

    @Test("`kinds stats` tells how devices fetched the changes, below the reloads")
    func delivery() async throws {
        try await withStore { store in
            try await store.sql(
                """
                INSERT INTO delivery_statistics (kind_id, bucket, changes, fetched, late, latencies, push_latencies)
                SELECT k.id, now() - interval '1 hour', 8, 6, 2, '{0,0,0,0,0,0,0,0,0,6}', '{0,0,0,0,0,0,0,0,6,0}'
                FROM kind k WHERE k.name = 'Purchases';
                INSERT INTO registration (app_id, user_id, device_id, registered_at, channel, changed, first_sent_at)
                VALUES (1, 'u1', 'd1', now(), 2, 1, now() - interval '2 days'), (1, 'u2', 'd2', now(), 2, 0, NULL)
                """)
            let environment = ["FRESHET_POSTGRES_URL": store.connectionString]
            let text = try await FreshetProcess.run(
                ["kinds", "stats", "--app", TestKinds.app], environment: environment)
            let tables = text.out.components(separatedBy: "\n\n")
            #expect(text.status == 0 && tables.count == 3, "\(text.out)\(text.err)")
            let cells = tables[1].split(separator: "\n").map {
                $0.components(separatedBy: "  ").map { $0.trimmingCharacters(in: .whitespaces) }.filter { !$0.isEmpty }
            }
            #expect(cells[0].prefix(6) == ["KIND", "CHANGES", "FETCHED", "NOT FETCHED", "LATE", "IN TIME"])
            #expect(cells[1].prefix(6) == ["Purchases", "8", "6", "25 %", "2", "50 %"], "\(tables[1])")
            #expect(tables[2].hasPrefix("2 devices, 1 waiting for a notification, 1 silent for"), "\(tables[2])")
        }
    }

    @Test("An unknown app is exit status 1, an invalid command line is 64")
    func exits() async throws {
        try await withStore { store in
            let environment = ["FRESHET_POSTGRES_URL": store.connectionString]
            for arguments in [["kinds", "stats", "--app", "no.such"], ["forecast", "--app", "no.such"]] {
                let (status, out, err) = try await FreshetProcess.run(arguments, environment: environment)
                #expect(status == 1 && out.isEmpty && err.contains("no.such"))
            }
            for arguments in [
                ["kinds", "stats"], ["kinds", "stats", "--app", "a", "--days", "0"], ["forecast", "--hours", "169"],
                ["forecast", "--hours", "soon"],
            ] {
                let (status, out, _) = try await FreshetProcess.run(arguments, environment: environment)
                #expect(status == 64 && out.isEmpty)
            }
            // Another app's kinds and numbers are not included.
            try await store.place([.test("w1"), .test("w2", app: TestKinds.otherApp, user: "u2")])
            let own = try await FreshetProcess.run(["forecast", "--app", TestKinds.app], environment: environment)
            #expect(own.status == 0 && !own.out.contains(TestKinds.otherApp))
            #expect(own.out.contains("1 scheduled") && own.out.contains("1 reload scheduled in 24 h"))
            let all = try await FreshetProcess.run(["forecast"], environment: environment)
            #expect(all.out.contains(TestKinds.otherApp) && all.out.contains("2 reloads scheduled in 24 h"))
            #expect(all.out.split(separator: "\n").allSatisfy { $0.count <= 80 || !$0.hasPrefix("  ") })
        }
    }
}
