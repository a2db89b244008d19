// SPDX-License-Identifier: Apache-2.0

import JSON
import PostgresClient
import ServiceLifecycle
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// Counts by kind, in memory and over all processes.
@Suite(.serialized, .tags(.database), .timeLimit(.patience))
struct KindRecorderTests {
    private func stored(_ worker: TestWorker, _ kind: String = "Purchases") async throws -> KindCounters {
        try await worker.store.pool.query(.readKindStatistics(app: TestKinds.app, days: 2))
            .filter { $0.kind == kind }.reduce(KindCounters()) { $0 + $1.counters }
    }

    private func recorder(_ worker: TestWorker, interval: Duration = .seconds(3_600)) -> KindRecorder {
        KindRecorder(pool: worker.store.pool, metrics: worker.metrics, interval: interval, logger: .silent)
    }

    @Test("Requests, decisions, unchanged content and lints are counted by kind")
    func counting() async throws {
        try await withWorker(minimumSpacing: .zero) { worker in
            let kindID = try await worker.store.kindID("Purchases")
            try await worker.store.place([.test("w1", user: "u1"), .test("w2", user: "u2")])
            try await worker.turn()
            let first = worker.context.kinds.counters(of: kindID)
            var expected = KindCounters()
            (expected.requests, expected.asked, expected.reloaded) = (1, 2, 2)
            (expected.bytesStored, expected.messagesPublished) = (first.bytesStored, 2)
            #expect(first == expected)
            #expect(first.bytesStored > 0)
            #expect(worker.metrics.decisions.total(["kind": "Purchases", "decision": "reloaded"]) == 2)
            #expect(worker.metrics.decisions.total() == 2)

            try await worker.store.markUser("u1")
            try await worker.turn()
            let second = worker.context.kinds.counters(of: kindID) - first
            expected = KindCounters()
            (expected.requests, expected.asked, expected.unchanged) = (1, 1, 1)
            (expected.bytesSpared, expected.messagesSpared) = (first.bytesStored / 2, 1)
            #expect(second == expected)

            worker.provider.respond {
                .timelines($0.ids.map { .stubTimeline($0, content: "new", policy: ["after": "2100-01-01T05:00:00Z"]) })
            }
            try await worker.store.markUser("u1")
            try await worker.turn()
            // Its last entry is far away, so that the next turn does not find it due.
            worker.provider.respond {
                .timelines($0.ids.map { .stubTimeline($0, date: "2100-01-01T05:00:00Z", policy: "atEnd") })
            }
            try await worker.store.markUser("u1")
            try await worker.turn()
            worker.provider.respond { .timelines($0.ids.map { .stubError($0, code: "away") }) }
            try await worker.store.markUser("u2")
            try await worker.turn()
            let third = worker.context.kinds.counters(of: kindID) - first - second
            #expect(third.roundHours == 1 && third.singleEntriesAtEnd == 1 && third.shortGaps == 0)
            #expect(third.reloaded + third.unchanged == 2 && third.failed == 1 && third.requests == 3)
        }
    }

    @Test("Increments are added once; those that cannot be added are kept")
    func flushing() async throws {
        try await withWorker { worker in
            let kindID = try await worker.store.kindID("Purchases")
            let recorder = recorder(worker)
            recorder.count(kind: kindID) { $0.count(.reloaded, 3) }
            await recorder.flush()
            await recorder.flush()
            #expect(try await stored(worker).reloaded == 3)
            recorder.count(kind: kindID) { $0.count(.failed, 2) }

            try await worker.store.sql("ALTER TABLE kind_statistics RENAME TO away")
            await recorder.flush()
            try await worker.store.sql("ALTER TABLE away RENAME TO kind_statistics")
            #expect(try await stored(worker).failed == 0)
            await recorder.flush()
            #expect(try await stored(worker).failed == 2)
            #expect(try await stored(worker).reloaded == 3)

            // Stands for another process.
            let other = self.recorder(worker.another())
            other.count(kind: kindID) { $0.count(.reloaded, 10) }
            await other.flush()
            #expect(try await stored(worker).reloaded == 13)
        }
    }

    @Test(
        "The last counts are added when the service stops, in order or by cancellation", arguments: [true, false])
    func stopping(isGraceful: Bool) async throws {
        try await withWorker { worker in
            let kindID = try await worker.store.kindID("Purchases")
            // Its clock stands still, so that no time limit ends the last flush.
            let recorder = KindRecorder(
                pool: worker.store.pool, metrics: worker.metrics, clock: WorkerClock(HandClock()), logger: .silent)
            let group = ServiceGroup(services: [recorder], logger: .silent)
            try await withThrowingTaskGroup(of: Void.self) { tasks in
                tasks.addTask { try await group.run() }
                recorder.count(kind: kindID) { $0.count(.reloaded, 7) }
                if isGraceful { await group.triggerGracefulShutdown() } else { tasks.cancelAll() }
                do { try await tasks.waitForAll() } catch is CancellationError {}
            }
            #expect(try await stored(worker).reloaded == 7)
        }
    }

    @Test("The service adds counts and removes old ones at its interval")
    func interval() async throws {
        try await withWorker { worker in
            let kindID = try await worker.store.kindID("Purchases")
            try await worker.store.sql(
                """
                INSERT INTO kind_statistics (kind_id, day, reloaded)
                VALUES (\(kindID), (now() AT TIME ZONE 'UTC')::date - 401, 1)
                """)
            let recorder = recorder(worker, interval: .milliseconds(5))
            recorder.count(kind: kindID) { $0.count(.slept, 4) }
            try await withThrowingTaskGroup(of: Void.self) { tasks in
                tasks.addTask { try await recorder.run() }
                try await eventually("the counts are added and old ones removed") {
                    let rows = try await worker.store.integer("SELECT count(*) FROM kind_statistics")
                    return try await stored(worker).slept == 4 && rows == 1
                }
                tasks.cancelAll()
                try await tasks.waitForAll()
            }
        }
    }
}
