import KafkaClient
import Synchronization
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

/// Workers that have room for everything, and only note what they get.
private final class NotingWorkers: DirectClaiming {
    private struct State {
        var asked: [Set<Int32>] = []
        var granted = 0
        var settled: [[ClaimedTimeline]] = []
    }

    private let state = Mutex(State())

    var asked: [Set<Int32>] { state.withLock { $0.asked } }
    /// Grants that are not settled.
    var open: Int { state.withLock { $0.granted - $0.settled.count } }
    var claimed: [ClaimedTimeline] { state.withLock { $0.settled.flatMap { $0 } } }

    func grant(_ kindIDs: Set<Int32>, of directory: KindDirectory) -> DirectGrant? {
        state.withLock { state in
            state.asked.append(kindIDs)
            state.granted += 1
            return DirectGrant(
                number: UInt64(state.granted),
                marks: MarkGrant(kindIDs: kindIDs.sorted(), lease: .seconds(30), limit: 100))
        }
    }

    func settle(_ grant: DirectGrant, _ claimed: [ClaimedTimeline]) {
        state.withLock { $0.settled.append(claimed) }
    }
}

private final class Calls: Sendable {
    private let calls = Atomic(0)

    var count: Int { calls.load(ordering: .acquiring) }

    func call() { calls.add(1, ordering: .releasing) }
}

@Suite("Ingest hands over what it claims", .timeLimit(.minutes(5)))
struct DirectClaimTests {
    private func request(_ user: String, _ kinds: KindScope) -> FreshetEvent {
        .push(
            ReloadRequest(
                app: TestKinds.app, audience: .user(user), kinds: kinds, matching: nil, reason: .push))
    }

    private func place(_ ingest: IngestHarness, users: Int) async throws -> [TimelineID] {
        let ids = try await ingest.store.place((0..<users).map { .test("w\($0)", user: "u\($0)") })
        try await ingest.store.settle()
        return ids
    }

    @Test("A few requests are marked and claimed in their transaction; nobody else is told")
    func handsOver() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            let ids = try await place(ingest, users: 3)
            let (workers, told) = (NotingWorkers(), Calls())
            let service = ingest.service(direct: workers, onDue: { told.call() })
            try await ingest.running([service]) {
                let kinds = try #require(KindScope(names: ["Purchases"]))
                try await ingest.publish((0..<3).map { request("u\($0)", kinds) }, key: "k")
                try await eventually("all are claimed") { workers.claimed.count == 3 }
                #expect(Set(workers.claimed.map(\.id)) == Set(ids))
                #expect(workers.open == 0)
                #expect(workers.asked.allSatisfy { $0.count == 1 })
                #expect(told.count == 0, "nothing is left to look for")
                #expect(try await ingest.store.integer("SELECT count(*) FROM timeline_state WHERE leased") == 3)
            }
        }
    }

    @Test("What is leased already is left to its completion, and requests for all kinds are not claimed")
    func leavesOthers() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            _ = try await place(ingest, users: 2)
            try await ingest.store.sql(
                "UPDATE timeline_state SET leased = true, claim = 1, due_at = now() + interval '1 hour'")
            let (workers, told) = (NotingWorkers(), Calls())
            let service = ingest.service(direct: workers, onDue: { told.call() })
            try await ingest.running([service]) {
                let kinds = try #require(KindScope(names: ["Purchases"]))
                try await ingest.publish([request("u0", kinds)], key: "k")
                try await eventually("it is applied") { try await ingest.applied() >= 1 }
                try await eventually("its grant is settled") { workers.asked.count == 1 && workers.open == 0 }
                #expect(workers.claimed.isEmpty)
                try await ingest.store.settle()
                try await ingest.publish([request("u1", .all)], key: "k")
                try await eventually("others are told") { told.count == 1 }
                #expect(workers.asked.count == 1, "of which kinds it will be is not known")
                #expect(try await ingest.store.integer("SELECT count(*) FROM timeline_state WHERE leased") == 0)
            }
        }
    }

    @Test("A grant is settled when the transaction fails, and asked for again")
    func fails() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            let ids = try await place(ingest, users: 1)
            let workers = NotingWorkers()
            let service = ingest.service(configure: { $0.retryBase = .milliseconds(1) }, direct: workers)
            try await ingest.store.sql("ALTER TABLE timeline_state RENAME COLUMN cause_reason TO gone")
            try await ingest.running([service]) {
                let kinds = try #require(KindScope(names: ["Purchases"]))
                try await ingest.publish([request("u0", kinds)], key: "k")
                try await eventually("it is tried again") { workers.asked.count > 1 }
                try await ingest.store.sql("ALTER TABLE timeline_state RENAME COLUMN gone TO cause_reason")
                try await eventually("it is claimed") { workers.claimed.map(\.id) == ids }
                #expect(workers.open == 0)
            }
        }
    }
}
