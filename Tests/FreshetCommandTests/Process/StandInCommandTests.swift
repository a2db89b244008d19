// SPDX-License-Identifier: Apache-2.0

import JSON
import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

/// Output of the commands for widgets without a timeline.
@Suite(.tags(.process), .serialized, .timeLimit(.patience))
struct StandInCommandTests {
    private static let app = TestKinds.app

    private func freshet(_ store: TestStore, _ arguments: String...) async throws -> (status: Int32, out: String) {
        let result = try await FreshetProcess.run(
            arguments, environment: ["FRESHET_POSTGRES_URL": store.connectionString], input: "")
        return (result.status, result.out)
    }

    @Test("`timelines show` prints the placeholder, then the snapshot, and names its source")
    func shown() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            let none = try await freshet(store, "timelines", "show", "--app", Self.app, "--widget", "w1")
            #expect(none.status == 0)
            #expect(none.out.contains("* placeholder of the manifest  {"), "\(none.out)")
            try await store.sql(
                """
                INSERT INTO snapshot (timeline_id, revision, entry)
                SELECT id, 1, '{"content":"at once","date":"2020-01-01T00:00:00Z"}' FROM timeline WHERE identity = '\(id)'
                """)
            let byID = try await freshet(store, "timelines", "show", "--app", Self.app, id.description)
            #expect(byID.out.contains("* snapshot  {") && byID.out.contains("at once"), "\(byID.out)")
            let json = try await freshet(store, "timelines", "show", "--app", Self.app, "--widget", "w1", "--json")
            let document = try JSONValue.parse(json.out)
            #expect(document["shown"]?["state"] == "snapshot")
            #expect(document["shown"]?["entry"] == ["content": "at once", "date": "2020-01-01T00:00:00Z"])
        }
    }

    @Test("`placeholders list` prints the manifest's placeholders and the provider's")
    func list() async throws {
        try await withStore { store in
            let directory = try await store.directory()
            let kind = try #require(directory.apps[Self.app].flatMap { directory.kind("DueDate", of: $0) })
            let sydney = WidgetEnvironment(storedLocale: "en-AU", timeZone: "Australia/Sydney")
            _ = try await store.pool.execute(
                .recordPlaceholders([
                    (key: PlaceholderKey(kind: kind, family: .systemSmall, environment: sydney), renews: true)
                ]))
            let waiting = try await freshet(store, "placeholders", "list", "--app", Self.app, "--kind", "DueDate")
            #expect(waiting.status == 0)
            #expect(waiting.out.contains("manifest") && waiting.out.contains("provider"))
            let claimed = try await store.pool.query(
                .claimPlaceholders(kindID: kind.id, limit: 10, lease: .seconds(30)))
            _ = try await store.pool.execute(
                .finishPlaceholders(claimed.map { (placeholder: $0, content: #"{"card":"Card"}"#, delay: .zero) }))

            let json = try await freshet(
                store, "placeholders", "list", "--app", Self.app, "--kind", "DueDate", "--json")
            let all = try #require(try JSONValue.parse(json.out).arrayValue)
            #expect(all.map { $0["source"] } == ["manifest", "provider"])
            #expect(all.map { $0["content"] } == [[:], ["card": "Card"]])
            #expect(
                ["family", "locale", "timeZone", "dueAt"].map { all[1][$0] }
                    == ["systemSmall", "en-AU", "Australia/Sydney", .null])
            #expect(all[1]["fetchedAt"]?.stringValue.flatMap { Timestamp(rfc3339: $0) } != nil)
            let text = try await freshet(store, "placeholders", "list", "--app", Self.app)
            #expect(text.out.contains("Australia/Sydney") && text.out.contains(#"{"card":"Card"}"#))
            #expect(text.out.split(separator: "\n").count == 5, "a header, three kinds of the manifest, one stored")
        }
    }
}
