// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import PostgresClient
import Synchronization
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

/// Workers that record hand-overs.
final class RecordingWorkers: HandOverReceiving {
    struct State {
        /// Most timelines of a hand-over; 0: the workers accept none.
        var room = 1_000
        var open = 0
        var kinds: [Set<Int32>] = []
        var claims: [Claim] = []
        var refusals = 0
        /// Arguments of ``ingestIsBehind(_:)``, which precedes each transaction.
        var isBehind: [Bool] = []
    }

    let state = Mutex(State())
    let areBusy: Bool

    init(areBusy: Bool = false) {
        self.areBusy = areBusy
    }

    func reserve(_ kindIDs: Set<Int32>) -> HandOver? {
        state.withLock { state in
            guard state.room > 0 else { return nil }
            state.open += 1
            state.kinds.append(kindIDs)
            return .all(of: kindIDs, atMost: state.room)
        }
    }

    func accept(_ grant: HandOver, _ claim: Claim?) {
        state.withLock { state in
            state.open -= 1
            if let claim { state.claims.append(claim) } else { state.refusals += 1 }
        }
    }

    func ingestIsBehind(_ isBehind: Bool) {
        state.withLock { $0.isBehind.append(isBehind) }
    }

    var now: State { state.withLock { $0 } }
}

extension HandOver {
    /// Room for timelines of any of the kinds.
    static func all(of kindIDs: Set<Int32>, atMost timelines: Int = 1_000) -> HandOver {
        HandOver(shares: [Share(kindIDs: Array(kindIDs), timelines: timelines)], lease: .seconds(30))
    }
}

@Suite("Marked timelines are handed over to workers in the same process", .timeLimit(.patience))
struct HandOverTests {
    private let at = Timestamp(microseconds: 1_700_000_000_000_000)

    @Test("Workers receive leased lists, rows as marked, and a token above all revisions that were read")
    func handedOver() async throws {
        try await IngestHarness.lend { ingest in
            let ids = try await ingest.store.place([.test("w1", user: "u1"), .test("w2", user: "u2")])
            try await ingest.store.settle()
            // Another store after the start of this service, and before the mark.
            try await ingest.store.sql("UPDATE timeline SET revision = nextval('token') WHERE identity = '\(ids[0])'")
            let workers = RecordingWorkers()
            let signals = Mutex(0)
            let service = ingest.service(workers: workers, onLists: { signals.withLock { $0 += 1 } })
            try await ingest.running([service]) {
                try await ingest.publish([ingest.push("u1")])
                try await eventually("the timelines are handed over") { workers.now.claims.count == 1 }
                let claim = try #require(workers.now.claims.first)
                let list = try #require(claim.lists.first)
                let timeline = try #require(list.timelines.first)
                #expect(claim.count == 1 && timeline.id == ids[0])
                #expect(timeline.state.requested == 2 && timeline.state.rendered == 1)
                #expect(timeline.reason == .push && list.lane == .push && !list.wasLeasedBefore)
                #expect(claim.token > timeline.revision && claim.token == list.lease)
                let leased = "SELECT count(*) FROM work WHERE lease = \(list.lease) AND leases = 1 AND ready_at > now()"
                #expect(try await ingest.store.integer(leased) == 1)
                #expect(signals.withLock { $0 } == 0, "nothing is left to claim")
                // The timeline is in flight, so its list also covers the next request.
                try await ingest.publish([ingest.push("u1")])
                try await ingest.waitUntilApplied(2)
            }
            let state = workers.now
            #expect(state.open == 0 && state.claims.count == 1 && state.refusals == 1)
            #expect(try await ingest.store.unappointed() == 0)
        }
    }

    @Test("Without room in the workers any worker may claim the list, and the workers are woken")
    func withoutRoom() async throws {
        try await IngestHarness.lend { ingest in
            try await ingest.store.place([.test("w1", user: "u1")])
            try await ingest.store.settle()
            let workers = RecordingWorkers()
            workers.state.withLock { $0.room = 0 }
            let signals = Mutex(0)
            let service = ingest.service(workers: workers, onLists: { signals.withLock { $0 += 1 } })
            try await ingest.running([service]) {
                try await ingest.publish([ingest.push("u1")])
                try await ingest.waitUntilApplied(1)
                try await eventually("the workers are woken") { signals.withLock { $0 } == 1 }
            }
            #expect(try await ingest.store.integer("SELECT count(*) FROM work WHERE lease IS NULL") == 1)
            #expect(workers.now.open == 0 && workers.now.claims.isEmpty)
            #expect(try await ingest.store.unappointed() == 0)
        }
    }

    @Test("An event that reaches more timelines than the workers have room for is handed over in part")
    func beyondRoom() async throws {
        try await IngestHarness.lend { ingest in
            try await ingest.store.place((0..<30).map { .test("w\($0)", configuration: #"{"n":\#($0)}"#) })
            try await ingest.store.settle()
            let workers = RecordingWorkers()
            workers.state.withLock { $0.room = 10 }
            let signals = Mutex(0)
            let service = ingest.service(workers: workers, onLists: { signals.withLock { $0 += 1 } })
            try await ingest.running([service]) {
                try await ingest.publish([ingest.push("u1")])
                try await eventually("some timelines are handed over") { workers.now.claims.count == 1 }
                try await eventually("other workers are woken") { signals.withLock { $0 } == 1 }
            }
            #expect(workers.now.claims.map(\.count) == [10] && workers.now.open == 0)
            let ready = "SELECT sum(cardinality(timelines)) FROM work WHERE lease IS NULL AND ready_at <= now()"
            #expect(try await ingest.store.integer(ready) == 20)
            #expect(try await ingest.store.unappointed() == 0)
        }
    }

    @Test("The token is taken behind the locks, above revisions of concurrent transactions")
    func tokenBehindLocks() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1", user: "u1")])[0]
            try await store.settle()
            let directory = try await store.directory()
            var fold = BatchFold(directory: directory)
            fold.add(.push(app: TestKinds.app, user: "u1", kinds: ["Purchases"], offset: 0))
            let room = HandOver.all(of: fold.urgentKinds)
            let before = try await store.integer("SELECT nextval('token')")
            // This store holds the row's lock and takes its revision while the mark waits.
            let applied = try await withThrowingTaskGroup(of: BatchApplier.Outcome.self) { [fold] group in
                try await store.pool.withTransaction { connection in
                    try await connection.simple("SELECT 1 FROM timeline WHERE identity = '\(id)' FOR UPDATE")
                    group.addTask {
                        try await BatchApplier(pool: store.pool, audienceLimit: 100).apply(
                            fold, advancing: [], handOver: room,
                            deadLetter: Self.noLetter)
                    }
                    try await store.waitUntilBlocked()
                    try await connection.simple("UPDATE timeline SET revision = nextval('token')")
                }
                return try #require(try await group.next())
            }
            let claim = try #require(applied.claim)
            let list = try #require(claim.lists.first)
            let revision = try #require(list.timelines.first).revision
            #expect(claim.token > revision && revision > before)
        }
    }

    @Test("A failed COMMIT hands nothing over")
    func failedCommit() async throws {
        try await withStore { store in
            try await store.place([.test("w1", user: "u1")])
            try await store.settle()
            // A constraint that is checked at COMMIT.
            try await store.sql(
                """
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = '53100'; END $$;
                CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON work DEFERRABLE INITIALLY DEFERRED
                    FOR EACH ROW EXECUTE FUNCTION refuse();
                """)
            var fold = BatchFold(directory: try await store.directory())
            fold.add(.push(app: TestKinds.app, user: "u1", kinds: ["Purchases"], offset: 0))
            let applier = BatchApplier(pool: store.pool, audienceLimit: 100)
            let room = HandOver.all(of: fold.urgentKinds)
            let before = try await store.integer("SELECT nextval('token')")
            let batch = fold
            let error = await #expect(throws: PostgresError.self) {
                _ = try await applier.apply(
                    batch, advancing: [], handOver: room,
                    deadLetter: Self.noLetter)
            }
            #expect(error?.sqlState == "53100")
            // The mark's token.
            #expect(try await store.integer("SELECT last_value FROM token") == before + 1)
            #expect(try await store.integer("SELECT count(*) FROM work") == 0)
        }
    }

    @Test("A failed transaction releases its room, and the next one hands over")
    func failedTransaction() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            try await ingest.store.place([.test("w1", user: "u1")])
            try await ingest.store.settle()
            let workers = RecordingWorkers()
            let service = ingest.service(configure: { $0.retryBase = .milliseconds(2) }, workers: workers)
            try await ingest.store.fail(writesTo: "timeline", with: "53200")
            try await ingest.running([service]) {
                try await ingest.publish([ingest.push("u1")])
                try await eventually("the transaction is retried") { workers.now.refusals >= 2 }
                #expect(workers.now.claims.isEmpty)
                try await ingest.store.healFaults()
                try await eventually("the timeline is handed over") { workers.now.claims.count == 1 }
            }
            #expect(workers.now.open == 0)
            #expect(try await ingest.store.integer("SELECT requested FROM timeline") == 2)
        }
    }

    @Test("A transaction may mix requests and views; each request for all kinds is handed over")
    func requestsAndViews() async throws {
        try await IngestHarness.lend(partitions: 1, maximumBatch: 4) { ingest in
            try await ingest.store.place([
                .test("w1", user: "u1"), .test("w2", user: "u1", kind: "DueDate"), .test("w3", user: "u2"),
            ])
            try await ingest.store.settle()
            try await ingest.store.sql("UPDATE timeline SET asleep = true")
            let workers = RecordingWorkers()
            let service = ingest.service(workers: workers)
            try await ingest.running([service]) {
                try await ingest.publish([ingest.push("nobody")], key: "k")
                try await ingest.waitUntilApplied(1)
                // The events gather while another one waits, and so form one batch.
                try await ingest.store.locking("consumer_position") {
                    try await ingest.publish([ingest.push("nobody")], key: "k")
                    try await ingest.store.waitUntilBlocked()
                    try await ingest.publish(
                        [
                            .viewed(app: TestKinds.app, widget: "w1"), .viewed(app: TestKinds.app, widget: "w1"),
                            .viewed(app: TestKinds.app, widget: "w3"),
                        ], at: at, key: "k")
                    try await ingest.publish([ingest.push("u1", kinds: [])], key: "k")
                    try await eventually("a full batch waits") {
                        service.current.withLock { $0 }?.counters.messages == 6
                    }
                }
                try await ingest.waitUntilApplied(6)
            }
            #expect(try await ingest.store.integer("SELECT sum(views) FROM timeline") == 2)
            #expect(try await ingest.store.integer("SELECT count(*) FROM timeline WHERE asleep") == 0)
            #expect(try await ingest.store.integer("SELECT count(*) FROM timeline WHERE requested = 2") == 2)
            let claimed = workers.now.claims.flatMap(\.lists).flatMap(\.timelines)
            #expect(Set(claimed.map(\.user)) == ["u1"] && claimed.count == 2)
            #expect(try await ingest.store.unappointed() == 0)
        }
    }

    @Test(
        "Events that arrive during a transaction form the next batch; any worker may claim large batches"
    )
    func notHandedOver() async throws {
        // Everything that is published during the first transaction fills the second batch.
        try await IngestHarness.lend(partitions: 1, maximumBatch: 299) { ingest in
            try await ingest.store.place((0..<300).map { .test("w\($0)", user: "u\($0)") })
            try await ingest.store.settle()
            let workers = RecordingWorkers()
            let signals = Mutex(0)
            let service = ingest.service(workers: workers, onLists: { signals.withLock { $0 += 1 } })
            try await ingest.running([service]) {
                try await ingest.store.locking("timeline") {
                    try await ingest.publish([ingest.push("u0")], key: "k")
                    try await ingest.store.waitUntilBlocked()
                    try await ingest.publish((1..<300).map { ingest.push("u\($0)") }, key: "k")
                    try await eventually("all events are read") {
                        service.current.withLock { $0 }?.counters.messages == 300
                    }
                }
                try await ingest.waitUntilApplied(300)
                try await ingest.publish([.placed(.test("new", user: "new"))], at: at, key: "k")
                try await ingest.waitUntilApplied(301)
            }
            #expect(service.metrics.ingestBatches.total() == 3)
            #expect(signals.withLock { $0 } == 2)
            #expect(workers.now.claims.map(\.count) == [1] && workers.now.open == 0)
            #expect(
                try await ingest.store.integer("SELECT sum(cardinality(timelines)) FROM work WHERE lease IS NULL")
                    == 300)
        }
    }

    @Test("While ingest has a backlog, it hands nothing over and notifies the workers")
    func backlog() async throws {
        try await IngestHarness.lend(partitions: 1, maximumBatch: 20) { ingest in
            try await ingest.store.place((0..<50).map { .test("w\($0)", user: "u\($0)") })
            try await ingest.store.settle()
            try await ingest.publish((0..<50).map { ingest.push("u\($0)") }, key: "k")
            let workers = RecordingWorkers()
            let service = ingest.service(
                configure: { configuration in
                    configuration.backlog = 15
                    configuration.maximumMarks = 10
                    configuration.leastDivided = 10
                }, workers: workers)
            try await ingest.running([service]) {
                try await ingest.waitUntilApplied(50)
                // The log ends are read every 20 ms at most, so the first batches may not count as a backlog, and later
                // ones still may.
                var published = 50
                try await eventually("ingest is behind") {
                    guard !workers.now.isBehind.contains(true) else { return true }
                    try await ingest.store.settle()
                    try await ingest.publish((0..<50).map { ingest.push("u\($0)") }, key: "k")
                    published += 50
                    try await ingest.waitUntilApplied(published)
                    return false
                }
                try await eventually("ingest has caught up") {
                    try await ingest.publish([ingest.push("u0")], key: "k")
                    published += 1
                    try await ingest.waitUntilApplied(published)
                    return workers.now.isBehind.last == false
                }
                let ready = try await ingest.store.integer("SELECT count(*) FROM work WHERE lease IS NULL")
                #expect(ready > 0, "any worker may claim timelines of the backlog")
                try await ingest.store.settle()
                let before = workers.now.claims.count
                try await ingest.publish([ingest.push("u0")], key: "k")
                try await eventually("timelines are handed over again") { workers.now.claims.count == before + 1 }
            }
        }
    }

    @Test("Workers go on claiming while Kafka delivers a backlog in small batches")
    func slowBacklog() async throws {
        try await IngestHarness.lend(partitions: 1, maximumBatch: 20) { ingest in
            try await ingest.publish((0..<50).map { ingest.push("u\($0)") }, key: "k")
            let workers = RecordingWorkers()
            let service = ingest.service(
                configure: { configuration in
                    configuration.backlog = 1
                    configuration.leastDivided = 21
                }, workers: workers)
            try await ingest.running([service]) { try await ingest.waitUntilApplied(50) }
            #expect(workers.now.isBehind.count > 2 && !workers.now.isBehind.contains(true))
        }
    }

    static let noLetter: @Sendable (RejectedEvent) -> DeadLetter = { event in
        DeadLetter(
            topic: "test", partition: 0, offset: Int64(event.record), app: event.app, code: event.code,
            error: event.message, key: nil, headers: [], payload: nil)
    }
}
