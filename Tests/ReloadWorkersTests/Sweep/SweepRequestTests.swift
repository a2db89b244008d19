import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// Recorded sweeps: everyone with a match, and audiences of very many widgets.
@Suite(.serialized, .tags(.database), .timeLimit(.minutes(5)))
struct SweepRequestTests {
    private func record(
        _ store: TestStore, _ audience: SweepRequest.Audience, kinds: [String] = [], matching: String? = nil,
        app: String = TestKinds.app, events: Int64 = 1, isFree: Bool = true
    ) async throws {
        let directory = try await store.directory()
        guard let app = directory.apps[app] else { return }
        let request = SweepRequest(
            appID: app.id, audience: audience, kindIDs: kinds.compactMap { directory.kind($0, of: app)?.id }.sorted(),
            matching: matching, events: events, urgency: isFree ? .free : .budgeted,
            cause: TestStore.cause, reason: isFree ? .foreground : .push)
        _ = try await store.pool.execute(InsertSweep(request))
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
            try await record(worker.store, .everyone, kinds: ["Purchases"], matching: #"{"card":"c1"}"#, events: 4)
            #expect(try await worker.sweeper.pass().marked == 20)
            #expect(try await sweeps(worker.store) == 0)
            try await worker.drain()
            let expected = ids.dropLast().enumerated().filter { $0.offset % 3 == 1 }.map(\.element)
            #expect(Set(worker.provider.requestedIDs) == Set(expected))
            let detail = try await worker.store.detail(expected[0])
            #expect(detail.requested == 5 && detail.rendered == 5)
            #expect(detail.cause == TestStore.cause)
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
            try await record(worker.store, .everyone, matching: configuration)
            #expect(try await worker.sweeper.pass().marked == 11)
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
            try await record(worker.store, .user("shared"))
            #expect(try await worker.sweeper.pass().marked == 40)
            try await worker.drain()
            #expect(Set(worker.provider.requestedIDs) == Set(ids.dropLast()))

            try await worker.store.settle()
            try await record(worker.store, .device("d1"), matching: #"{"n":3}"#)
            #expect(try await worker.sweeper.pass().marked == 1)
            #expect(try await sweeps(worker.store) == 0)
        }
    }

    @Test func sweepsArePacedAndGoOnWhereTheyStopped() async throws {
        try await withWorker { configuration in
            configuration.sweepChunk = 10
            configuration.bulkHighWater = 20
        } _: { worker in
            try await worker.store.place((0..<70).map { .test("w\($0)", user: "u\($0)", configuration: #"{"a":1}"#) })
            try await worker.store.settle()
            try await record(worker.store, .everyone, kinds: ["Purchases"], matching: #"{"a":1}"#)
            let first = try await worker.sweeper.pass()
            #expect(first.marked == 20 && first.isHeldBack)
            #expect(try await worker.sweeper.pass().marked == 0)
            // The one who goes on may be another process.
            repeat {
                try await worker.drain()
                _ = try await worker.another().sweeper.pass()
            } while try await sweeps(worker.store) > 0
            try await worker.drain()
            #expect(worker.provider.requestedIDs.count == 70, "each of them once")
        }
    }

    @Test func aSweepWithoutRoomDoesNotHoldUpTheOthers() async throws {
        try await withWorker { configuration in
            configuration.sweepChunk = 10
            configuration.bulkHighWater = 10
        } _: { worker in
            let configuration = #"{"a":1}"#
            try await worker.store.place(
                (0..<30).map { .test("w\($0)", user: "u\($0)", configuration: configuration) }
                    + (0..<5).map {
                        .test("o\($0)", app: TestKinds.otherApp, user: "u\($0)", configuration: configuration)
                    })
            try await worker.store.settle()
            try await record(worker.store, .everyone, matching: configuration)
            try await record(worker.store, .everyone, matching: configuration, app: TestKinds.otherApp)
            let pass = try await worker.sweeper.pass()
            #expect(pass.marked == 15 && pass.isHeldBack)
            #expect(try await sweeps(worker.store) == 1)
        }
    }

    @Test func aRetiredKindDoesNotHoldASweepBack() async throws {
        try await withWorker { configuration in
            configuration.sweepChunk = 10
            configuration.bulkHighWater = 10
        } _: { worker in
            try await worker.store.place(
                (0..<30).map { .test("w\($0)", user: "u\($0)", configuration: #"{"a":1}"#) }
                    + [.test("d", kind: "DueDate", configuration: #"{"a":1}"#)])
            try await worker.store.settle()
            try await record(worker.store, .everyone, matching: #"{"a":1}"#)
            try await worker.store.sql("UPDATE kind SET retired_at = now() WHERE name = 'Purchases'")
            #expect(try await worker.sweeper.pass().marked == 1)
            #expect(try await sweeps(worker.store) == 0)
        }
    }

    @Test func twoProcessesShareManySweeps() async throws {
        try await withWorker {
            $0.sweepChunk = 3
        } _: { worker in
            try await worker.store.place(
                (0..<120).map { .test("w\($0)", user: "u\($0)", configuration: #"{"a":\#($0 % 12)}"#) })
            try await worker.store.settle()
            for index in 0..<12 {
                try await record(worker.store, .everyone, kinds: ["Purchases"], matching: #"{"a":\#(index)}"#)
            }
            let other = worker.another()
            async let first = worker.sweeper.pass()
            async let second = other.sweeper.pass()
            var marked = try await first.marked + second.marked
            while try await sweeps(worker.store) > 0 { marked += try await worker.sweeper.pass().marked }
            #expect(marked == 120)
            #expect(
                try await worker.store.integer("SELECT count(*) FROM timeline_state WHERE requested = 2") == 120,
                "each is requested exactly once")
        }
    }
}
