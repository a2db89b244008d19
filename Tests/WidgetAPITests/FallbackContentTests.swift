// SPDX-License-Identifier: Apache-2.0

import HummingbirdTesting
import JSON
import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import WidgetAPI

@Suite("Fallback content without a timeline", .tags(.api), .timeLimit(.patience))
struct FallbackContentTests {
    @Test("Placeholder, snapshot and timeline are marked as such")
    func shown() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            try await withAPI(store) { client in
                let path = "/v1/apps/com.example.bank/widgets/w1/timeline"
                let none = try await client.json(path).document
                #expect(none["shown"] == ["state": "placeholder", "entry": ["content": [:]], "source": "manifest"])
                #expect(none["content"] == .null && none["currentEntry"] == .null)

                try await store.sql(
                    """
                    INSERT INTO placeholder (kind_id, family, locale, time_zone, fetched_at, due_at, content)
                    SELECT kind_id, family, locale, time_zone, now(), 'infinity', '{"card":"Card"}' FROM timeline
                    """)
                let made = try await client.json(path).document
                #expect(
                    made["shown"]
                        == ["state": "placeholder", "entry": ["content": ["card": "Card"]], "source": "provider"])

                try await store.sql(
                    """
                    INSERT INTO snapshot (timeline_id, revision, entry, stored_at)
                    SELECT id, 1, '{"content":1,"date":"2020-01-01T00:00:00Z"}', '2026-01-01T00:00:00Z' FROM timeline
                    """)
                let snapshot = try await client.json(path).document
                #expect(
                    snapshot["shown"] == [
                        "state": "snapshot", "entry": ["content": 1, "date": "2020-01-01T00:00:00Z"],
                        "storedAt": "2026-01-01T00:00:00Z",
                    ])
                #expect(snapshot["content"] == .null)

                try await store.saveStored(
                    #"{"entries":[{"content":2,"date":"2021-01-01T00:00:00Z"}],"policy":"never"}"#, id, hash: 7)
                let timeline = try await client.json(path).document
                #expect(timeline["shown"]?["state"] == "timeline")
                #expect(timeline["shown"]?["entry"] == timeline["currentEntry"])
                #expect(timeline["shown"]?["entry"]?["content"] == 2)
            }
        }
    }
}
