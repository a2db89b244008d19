// SPDX-License-Identifier: Apache-2.0

import Hummingbird
import JSON
import PostgresClient
import ServiceLifecycle
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import WidgetAPI

@Suite("Recording of fetches by reads of the API", .tags(.api), .timeLimit(.patience))
struct FetchRecorderTests {
    /// Runs an API with two widgets on a registered device that has stale content of them.
    private func withRecorder(
        _ body: @escaping @Sendable (TestStore, TestAPI, FetchRecorder) async throws -> Void
    ) async throws {
        try await withStore { store in
            try await store.place([.test("w1"), .test("w2", kind: "DueDate"), .test("other", user: "u2", device: "d2")])
            try await store.sql(
                """
                UPDATE timeline SET content = '{"entries":[]}', content_revision = 5, revision = 5, stored_at = now(),
                    rendered_at = now();
                INSERT INTO registration (app_id, user_id, device_id, registered_at, channel, stale_timelines,
                    stale_revisions, stale_since)
                SELECT 1, 'u1', 'd1', now(), 2, array_agg(id), array_agg(5), array_agg(now()) FROM timeline;
                UPDATE app SET delivers = true WHERE id = 1
                """)
            let recorder = FetchRecorder(
                store: store.store, directory: DirectoryCache(pool: store.pool), objective: .seconds(30), logger: quiet)
            try await withAPI(store, fetches: recorder) { api in try await body(store, api, recorder) }
        }
    }

    private static func user(_ api: TestAPI) async throws -> TestAPI.Bearer {
        .token(try await api.tokens.token(user: "u1"))
    }

    private static func fetched(_ store: TestStore) async throws -> Int {
        try await store.integer("SELECT cardinality(fetched_timelines) FROM registration")
    }

    @Test("Reads within a minute are one write; later ones wait for the next")
    func coalesced() async throws {
        try await withRecorder { store, api, recorder in
            let user = try await Self.user(api)
            for _ in 0..<5 {
                #expect(try await api.ask(.get, "\(TestAPI.base)/widgets/w1/timeline", as: user).status == 200)
            }
            #expect(try await !recorder.flush())
            #expect(try await Self.fetched(store) == 1)
            // The push for both contents has gone out.
            try await store.sql("UPDATE registration SET sent_at = now()")
            #expect(try await api.ask(.get, "\(TestAPI.base)/widgets/w2/timeline", as: user).status == 200)
            let second = ContinuousClock.now
            _ = try await recorder.flush(at: second)
            #expect(try await Self.fetched(store) == 1)
            try await store.sql("UPDATE registration SET recorded_at = now() - interval '61 seconds'")
            _ = try await recorder.flush(at: second + .seconds(29))
            #expect(try await Self.fetched(store) == 1)
            _ = try await recorder.flush(at: second + .seconds(31))
            #expect(try await Self.fetched(store) == 2)
        }
    }

    @Test("The first read of each content within the minute is kept, so that its delay is the change's")
    func firstReads() async throws {
        try await withRecorder { store, _, recorder in
            try await store.sql(
                """
                UPDATE registration SET stale_since = ARRAY(SELECT now() - interval '10 seconds' FROM unnest(stale_since));
                UPDATE timeline SET content_revision = 1000, stored_at = now()
                """)
            recorder.noteServed(app: TestKinds.app, widget: "w1", revision: 4)
            for revision in [5, 5, 6, 7] {
                recorder.noteServed(app: TestKinds.app, widget: "w1", revision: Int64(revision))
            }
            for revision in 8..<1_001 {
                recorder.noteServed(app: TestKinds.app, widget: "w1", revision: Int64(revision))
            }
            _ = try await recorder.flush()
            // The change of revision 5, and the newest one.
            #expect(try await store.integer("SELECT sum(fetched) FROM delivery_statistics") == 2)
            #expect(try await store.integer("SELECT sum(changes) FROM delivery_statistics") == 1)
            #expect(try await store.integer("SELECT max(fetched_revisions[1]) FROM registration") == 1_000)
        }
    }

    @Test("Reads that wait for the next write precede later ones")
    func keptReads() async throws {
        try await withRecorder { store, _, recorder in
            try await store.sql("UPDATE registration SET recorded_at = now(), sent_at = now()")
            recorder.noteServed(app: TestKinds.app, widget: "w1", revision: 5)
            let first = ContinuousClock.now
            _ = try await recorder.flush(at: first)
            recorder.noteServed(app: TestKinds.app, widget: "w1", revision: 6)
            try await store.sql(
                """
                UPDATE registration SET recorded_at = now() - interval '61 seconds';
                UPDATE timeline SET content_revision = 6, stored_at = now() + interval '1 hour'
                """)
            _ = try await recorder.flush(at: first + .seconds(31))
            #expect(try await store.integer("SELECT sum(fetched) FROM delivery_statistics") == 2)
        }
    }

    @Test("A read that spares a push is written at once, also seconds after another one")
    func sparesPush() async throws {
        try await withRecorder { store, _, recorder in
            recorder.noteServed(app: TestKinds.app, widget: "w1", revision: 5)
            let first = ContinuousClock.now
            _ = try await recorder.flush(at: first)
            #expect(try await Self.fetched(store) == 1)
            // The push for the other content has gone out: its read waits.
            try await store.sql("UPDATE registration SET sent_at = now()")
            recorder.noteServed(app: TestKinds.app, widget: "w2", revision: 5)
            _ = try await recorder.flush(at: first + .seconds(1))
            #expect(try await Self.fetched(store) == 1)
            // Content that changed after the push, and is read before the next one.
            try await store.sql(
                """
                UPDATE timeline SET content_revision = 6, revision = 6, stored_at = now()
                WHERE id = (SELECT timeline_id FROM widget WHERE id = 'w2')
                """)
            recorder.noteServed(app: TestKinds.app, widget: "w2", revision: 6)
            _ = try await recorder.flush(at: first + .seconds(2))
            #expect(try await Self.fetched(store) == 2)
            #expect(
                try await store.integer("SELECT count(*) FROM registration WHERE cardinality(stale_timelines) = 0") == 1
            )
        }
    }

    @Test("A read of many widgets counts for each, a 404 or another user's device for none")
    func many() async throws {
        try await withRecorder { store, api, recorder in
            let body: JSONValue = ["widgets": ["w1", "w2", "other", "none"]]
            let user = try await Self.user(api)
            #expect(try await api.ask(.post, "\(TestAPI.base)/timelines", as: user, body: body).status == 200)
            _ = try await recorder.flush()
            #expect(try await Self.fetched(store) == 2)
            #expect(
                try await store.integer("SELECT count(*) FROM registration WHERE cardinality(stale_timelines) = 0") == 1
            )
        }
    }

    @Test("Reads with the app's token, such as a backend's, do not count for the device")
    func backend() async throws {
        try await withRecorder { store, api, recorder in
            #expect(try await api.ask(.get, "\(TestAPI.base)/widgets/w1/timeline").status == 200)
            let body: JSONValue = ["widgets": ["w1", "w2"]]
            #expect(try await api.ask(.post, "\(TestAPI.base)/timelines", body: body).status == 200)
            _ = try await recorder.flush()
            #expect(
                try await store.integer("SELECT count(*) FROM registration WHERE cardinality(stale_timelines) = 0") == 0
            )
        }
    }

    @Test("A database error loses no fetches")
    func databaseError() async throws {
        try await withRecorder { store, _, recorder in
            recorder.noteServed(app: TestKinds.app, widget: "w1", revision: 5)
            try await store.sql("ALTER TABLE registration RENAME TO hidden")
            await #expect(throws: PostgresError.self) { try await recorder.flush() }
            try await store.sql("ALTER TABLE hidden RENAME TO registration")
            _ = try await recorder.flush()
            #expect(try await Self.fetched(store) == 1)
        }
    }

    @Test("Unwritten fetches are written when the service stops")
    func stop() async throws {
        try await withRecorder { store, api, recorder in
            let (ports, continuation) = AsyncStream.makeStream(of: Int.self)
            let keys = api.tokens.store()
            try await keys.load()
            var resources = APIResources(keys: keys)
            resources.fetches = recorder
            let service = APIService(
                configuration: .test(), store: store.store, resources: resources, readiness: Readiness(checks: []),
                logger: quiet, onListening: { continuation.yield($0) })
            let group = ServiceGroup(services: [service], logger: quiet)
            async let running: Void = group.run()
            for await _ in ports { break }
            recorder.noteServed(app: TestKinds.app, widget: "w1", revision: 5)
            await group.triggerGracefulShutdown()
            try await running
            #expect(try await Self.fetched(store) == 1)
        }
    }
}
