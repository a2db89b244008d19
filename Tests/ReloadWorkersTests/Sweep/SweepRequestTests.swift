// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// Recorded sweeps: everyone with a match, and audiences with very many widgets.
@Suite(.serialized, .tags(.database), .timeLimit(.patience))
struct SweepRequestTests {
    /// Records sweeps of everyone with a match.
    private func record(
        _ store: TestStore, kind: String? = nil, matching: String, app: String = TestKinds.app, events: Int64 = 1,
        urgency: RequestUrgency = .free
    ) async throws {
        let directory = try await store.directory()
        guard let app = directory.apps[app] else { return }
        let sweep = EveryoneReload(
            appID: app.id, kindID: kind.flatMap { directory.kind($0, of: app)?.id }, matching: matching, events: events,
            urgency: urgency, cause: TestStore.cause, reason: urgency == .budgeted ? .push : .foreground)
        _ = try await store.pool.execute(.recordSweep([sweep]))
    }

    /// Requests a reload of an audience with more widgets than a mark may have.
    private func record(
        _ store: TestStore, _ audience: TimelineMark.Audience, _ id: String, matching: String? = nil
    ) async throws {
        guard let app = try await store.directory().apps[TestKinds.app] else { return }
        var input = MarkInput()
        input.marks = [
            TimelineMark(
                audience: audience, appID: app.id, audienceID: id, kindID: nil, matching: matching, events: 1,
                urgency: .free, lane: .push, cause: TestStore.cause, reason: .foreground)
        ]
        _ = try await store.pool.query(.markTimelines(input, limit: 4))
    }

    private func sweeps(_ store: TestStore) async throws -> Int {
        try await store.integer("SELECT count(*) FROM sweep")
    }

    @Test func everyoneWithAMatchReachesThoseThatMatch() async throws {
        try await withWorker {
            $0.sweepChunk = 7
        } _: { worker in
            let ids = try await worker.store.place(
                (0..<60).map {
                    .test("w\($0)", user: "u\($0)", configuration: #"{"card":"c\#($0 % 3)","n":\#($0)}"#)
                } + [.test("d", kind: "DueDate", configuration: #"{"card":"c1"}"#)])
            try await worker.store.settle()
            try await record(worker.store, kind: "Purchases", matching: #"{"card":"c1"}"#, events: 4)
            try await worker.sweep()
            #expect(worker.metrics.swept.total() == 20)
            #expect(try await sweeps(worker.store) == 0)
            try await worker.drain()
            let expected = ids.dropLast().enumerated().filter { $0.offset % 3 == 1 }.map(\.element)
            #expect(Set(worker.provider.requestedIDs) == Set(expected))
            let detail = try await worker.store.detail(expected[0])
            #expect(detail.requested == 5 && detail.rendered == 5)
            #expect(detail.latestCause == TestStore.cause)
        }
    }

    @Test func allKindsOfTheAppAreWalkedOneAfterAnother() async throws {
        try await withWorker {
            $0.sweepChunk = 2
        } _: { worker in
            let configuration = #"{"card":"x"}"#
            try await worker.store.place(
                (0..<5).flatMap { index -> [WidgetPlacement] in
                    ["Purchases", "DueDate"].map {
                        .test("w\($0)\(index)", user: "u\(index)", kind: $0, configuration: configuration)
                    }
                } + [
                    .test("s", kind: "Weather", configuration: configuration),
                    .test("o", app: TestKinds.otherApp, configuration: configuration),
                ])
            try await worker.store.settle()
            try await record(worker.store, matching: configuration)
            try await worker.sweep()
            #expect(worker.metrics.swept.total() == 11)
            #expect(try await sweeps(worker.store) == 0)
        }
    }

    @Test func aUserOrDeviceOfVeryManyWidgets() async throws {
        try await withWorker {
            $0.sweepChunk = 8
        } _: { worker in
            let ids = try await worker.store.place(
                (0..<40).map {
                    .test("w\($0)", user: "shared", device: "d\($0 % 2)", configuration: #"{"n":\#($0)}"#)
                } + [.test("x", user: "other", device: "d1")])
            try await worker.store.settle()
            try await record(worker.store, .user, "shared")
            try await worker.sweep()
            #expect(worker.metrics.swept.total() == 40)
            try await worker.drain()
            #expect(Set(worker.provider.requestedIDs) == Set(ids.dropLast()))

            try await worker.store.settle()
            try await record(worker.store, .device, "d1", matching: #"{"n":3}"#)
            try await worker.sweep()
            #expect(worker.metrics.swept.total() == 41)
            #expect(try await sweeps(worker.store) == 0)
        }
    }

    @Test func sweepsArePacedAndGoOnWhereTheyStopped() async throws {
        try await withWorker { configuration in
            configuration.sweepChunk = 10
            configuration.bulkHighWater = 400
        } _: { worker in
            try await worker.store.place((0..<70).map { .test("w\($0)", user: "u\($0)", configuration: #"{"a":1}"#) })
            try await worker.store.settle()
            try await record(worker.store, kind: "Purchases", matching: #"{"a":1}"#)
            try await worker.sweep()
            #expect(worker.metrics.swept.total() == 20)
            // Another process may continue.
            let other = worker.another()
            repeat {
                try await worker.drain()
                try await other.sweep()
            } while try await sweeps(worker.store) > 0
            try await worker.drain()
            #expect(worker.provider.requestedIDs.count == 70, "each timeline is fetched once")
        }
    }

    @Test func aSweepWithoutRoomDoesNotHoldUpTheOthers() async throws {
        try await withWorker { configuration in
            configuration.sweepChunk = 10
            configuration.bulkHighWater = 200
        } _: { worker in
            let configuration = #"{"a":1}"#
            try await worker.store.place(
                (0..<30).map { .test("w\($0)", user: "u\($0)", configuration: configuration) }
                    + (0..<5).map {
                        .test("o\($0)", app: TestKinds.otherApp, user: "u\($0)", configuration: configuration)
                    })
            try await worker.store.settle()
            try await record(worker.store, matching: configuration)
            try await record(worker.store, matching: configuration, app: TestKinds.otherApp)
            try await worker.sweep()
            #expect(worker.metrics.swept.total() == 15)
            #expect(try await sweeps(worker.store) == 1)
        }
    }

    @Test("1,001 sweeps of a paused kind hold up neither sweeps nor reloads of everyone of other apps")
    func blockedSweeps() async throws {
        try await withWorker { worker in
            try await worker.store.place(
                (0..<3).map { .test("w\($0)", user: "u\($0)") }
                    + (0..<5).map { .test("o\($0)", app: TestKinds.otherApp, user: "u\($0)") })
            try await worker.store.settle()
            _ = try await worker.store.store.pause(app: TestKinds.app, kind: "Purchases")
            // As many ready lists as a kind may have.
            try await worker.store.sql(
                """
                INSERT INTO work (kind_id, lane, due_at, ready_at, timelines)
                SELECT k.id, 3, now(), now(), '{0}'
                FROM kind k JOIN app a ON a.id = k.app_id, generate_series(1, 25)
                WHERE a.name = '\(TestKinds.app)' AND k.name = 'Purchases'
                """)
            for index in 0..<1_001 {
                try await record(worker.store, kind: "Purchases", matching: #"{"n":\#(index)}"#)
            }
            try await record(worker.store, matching: "{}", app: TestKinds.otherApp)
            try await worker.sweep()
            #expect(worker.metrics.swept.total() == 5)
            try await worker.store.bumpApp(TestKinds.otherApp)
            try await worker.sweep()
            try await worker.drain()
            #expect(worker.metrics.swept.total() == 10)
            #expect(try await sweeps(worker.store) == 1_001, "they wait for the kind's resumption")
        }
    }

    @Test("A matching reload of timelines that all have to wait comes to its end, whatever the number of their times")
    func deferredTimes() async throws {
        try await withWorker {
            $0.sweepChunk = 2
            $0.bulkHighWater = 400
        } _: { worker in
            let ids = try await worker.store.place((0..<30).map { .test("w\($0)", user: "u\($0)") })
            try await worker.store.settle()
            try await worker.store.sql("UPDATE timeline SET eligible_at = now() + id * interval '10 minutes'")
            try await record(worker.store, kind: "Purchases", matching: "{}", urgency: .budgeted)
            try await worker.sweep()
            #expect(try await sweeps(worker.store) == 0 && worker.metrics.swept.total() == 30)
            for id in ids { #expect(try await worker.store.detail(id).isStale) }
            #expect(try await worker.store.unappointed() == 0)
        }
    }

    @Test("A sweep whose chunks fail goes behind the others")
    func failing() async throws {
        try await withWorker { worker in
            try await worker.store.place(
                [.test("w"), .test("d", kind: "DueDate"), .test("o", app: TestKinds.otherApp)])
            try await worker.store.settle()
            try await record(worker.store, kind: "Purchases", matching: "{}")
            try await worker.store.sql("UPDATE sweep SET matching = '{'")
            try await record(worker.store, kind: "DueDate", matching: "{}")
            try await record(worker.store, matching: "{}", app: TestKinds.otherApp)
            _ = try await worker.sweeper.pass()
            #expect(worker.metrics.swept.total() == 2 && worker.metrics.databaseErrors.total() == 1)
            #expect(try await sweeps(worker.store) == 1)
            #expect(try await worker.store.integer("SELECT count(*) FROM sweep WHERE failed_at > '-infinity'") == 1)
        }
    }

    @Test("A sweep whose chunks fail waits while a sweeper tries it, whether others of its kind go on or not")
    func failingForLong() async throws {
        try await withWorker {
            $0.sweepChunk = 1
        } _: { worker in
            let store = worker.store
            func waiting() async throws -> [WaitingSweeps] {
                try await store.pool.query(
                    .waitingSweeps(app: nil, silence: .seconds(600), maximumLists: 1_000, limit: 20))
            }
            try await store.place((0..<40).map { .test("w\($0)", user: "u\($0)", configuration: #"{"a":\#($0)}"#) })
            try await store.settle()
            try await record(store, kind: "Purchases", matching: #"{"b":1}"#)
            try await store.sql("UPDATE sweep SET matching = '{', created_at = now() - interval '2 hours'")
            await #expect(throws: PostgresError.self) { try await worker.sweeper.pass() }
            let alone = try await waiting()
            #expect(alone.map(\.count) == [1] && alone.map(\.obstacle) == [.fails], "\(alone)")
            // Another sweep of the queue goes on.
            try await record(store, kind: "Purchases", matching: "{}")
            try await store.sql(
                "UPDATE sweep SET created_at = now() - interval '2 hours', failed_at = '-infinity'")
            #expect(try await waiting().map(\.count) == [2], "neither has begun")
            for _ in 0..<3 { _ = try await worker.sweeper.pass() }
            #expect(try await sweeps(store) == 2 && worker.metrics.swept.total() == 3)
            let beside = try await waiting()
            #expect(beside.map(\.count) == [1] && beside.map(\.obstacle) == [.fails], "\(beside)")
        }
    }

    @Test("A pass whose chunks all fail ends with the error, so that the worker backs off")
    func nothingButFailures() async throws {
        try await withWorker { worker in
            try await worker.store.place([.test("w")])
            try await worker.store.settle()
            try await record(worker.store, kind: "Purchases", matching: "{}")
            try await worker.store.sql("UPDATE sweep SET matching = '{'")
            await #expect(throws: PostgresError.self) { try await worker.sweeper.pass() }
            #expect(try await sweeps(worker.store) == 1)
        }
    }

    @Test func twoProcessesShareManySweeps() async throws {
        try await withWorker {
            $0.sweepChunk = 3
            $0.bulkHighWater = 100_000
        } _: { worker in
            try await worker.store.place(
                (0..<120).map { .test("w\($0)", user: "u\($0)", configuration: #"{"a":\#($0 % 12)}"#) })
            try await worker.store.settle()
            for index in 0..<12 {
                try await record(worker.store, kind: "Purchases", matching: #"{"a":\#(index)}"#)
            }
            let other = worker.another()
            async let first: Void = worker.sweep()
            async let second: Void = other.sweep()
            _ = try await (first, second)
            try await worker.sweep()
            #expect(worker.metrics.swept.total() + other.metrics.swept.total() == 120)
            #expect(try await sweeps(worker.store) == 0)
            #expect(
                try await worker.store.integer("SELECT count(*) FROM timeline WHERE requested = 2") == 120,
                "each timeline is requested exactly once")
        }
    }
}
