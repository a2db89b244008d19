// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

@Suite("Order of locks", .timeLimit(.patience))
struct LockOrderTests {
    @Sendable private static func unexpected(_ event: RejectedEvent) -> DeadLetter {
        Issue.record("rejected: \(event)")
        return DeadLetter(
            topic: "t", partition: 0, offset: 0, app: nil, code: event.code, error: event.message, key: nil,
            headers: [],
            payload: nil)
    }

    @Test("Transactions with outcomes of the same events in different orders wait for each other without a deadlock")
    func lockOrder() async throws {
        try await withStore { store in
            let app = try #require(try await store.directory().apps[TestKinds.app])
            @Sendable func outcomes(_ ids: [String]) -> [EventOutcome] {
                ids.map { id in
                    EventOutcome(appID: app.id, event: id, source: "/s", type: "t", topic: "t", partition: 0, offset: 0)
                }
            }
            let applier = BatchApplier(pool: store.pool, audienceLimit: 100)
            @Sendable func apply(_ ids: [String]) async throws {
                _ = try await applier.apply(
                    BatchFold(directory: KindDirectory(apps: [], kinds: [])), advancing: [],
                    outcomes: { _, _ in outcomes(ids) }, deadLetter: Self.unexpected)
            }
            try await store.pool.withTransaction { holder in
                _ = try await holder.execute(.insertEventOutcomes(outcomes(["m"])))
                async let one: Void = apply(["a", "m", "z"])
                try await store.waitUntilBlocked(1)
                async let other: Void = apply(["z", "m", "a"])
                try await store.waitUntilBlocked(2)
                try await holder.simple("COMMIT; BEGIN")
                _ = try await (one, other)
            }
            #expect(try await store.integer("SELECT count(*) FROM event_outcome") == 3)
        }
    }

    @Test("A batch that waits for a timeline holds no registration, which a walk of the timeline's devices needs")
    func registrationsLast() async throws {
        try await withStore { store in
            try await store.place([.test("w1")])
            let request = ReloadRequest(
                app: TestKinds.app, audience: .user("u1"), kinds: .all, reason: .push)
            let directory = try await store.directory()
            let applier = BatchApplier(pool: store.pool, audienceLimit: 100)
            @Sendable func apply(_ first: Int) async throws {
                var fold = BatchFold(directory: directory)
                for (record, event) in [
                    FreshetEvent.deviceRegistered(
                        app: TestKinds.app, user: "u1", device: "d1", channel: .webhook), .reload(request),
                ].enumerated() {
                    fold.add(
                        BatchEvent(
                            record: record, position: .at(first + record), time: Timestamp(microseconds: Int64(first)),
                            event: event))
                }
                let outcome = try await applier.apply(fold, advancing: [], deadLetter: Self.unexpected)
                #expect(outcome.marked == 1 && outcome.ignored.isEmpty)
            }
            try await apply(1)
            try await store.pool.withTransaction { holder in
                try await holder.simple("SELECT 1 FROM timeline FOR UPDATE")
                async let other: Void = apply(3)
                try await store.waitUntilBlocked(1)
                try await holder.simple("SELECT 1 FROM registration FOR UPDATE NOWAIT; COMMIT; BEGIN")
                try await other
            }
            #expect(try await store.integer("SELECT count(*) FROM registration") == 1)
        }
    }
}
