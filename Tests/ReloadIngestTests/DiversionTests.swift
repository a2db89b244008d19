import KafkaClient
import PostgresClient
import Synchronization
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

@Suite("An app over its limit of dead letters is diverted, and nothing else is", .timeLimit(.patience))
struct DiversionTests {
    private let good = TestKinds.app
    private let other = TestKinds.otherApp

    @Test(
        "Its events wait, the others flow, also past a restart; resuming applies what waits, in order, and then new ones"
    )
    func divertAndResume() async throws {
        try await IngestHarness.lend(deadLetters: .few()) { ingest in
            try await ingest.running([ingest.service()]) {
                try await ingest.publish((0..<6).map { _ in ingest.bad() })
                try await ingest.waitUntilApplied(6)
                #expect(try await ingest.isDiverted())
                try await ingest.publish((0..<20).map { _ in ingest.everyone(good) })
                try await ingest.publish((0..<20).map { _ in ingest.everyone(other) })
                try await ingest.waitUntilApplied(46)
            }
            // Another process knows it from the start.
            let second = ingest.service()
            try await ingest.running([second]) {
                try await ingest.publish([ingest.everyone(good), ingest.everyone(other)])
                try await ingest.waitUntilApplied(48)
                #expect(second.divertedApps == [good])
                #expect(try await ingest.generation(of: good) == 0)
                #expect(try await ingest.generation(of: other) == 21)
                #expect(try await ingest.letters("cause = 'diverted' AND payload IS NOT NULL") == 21)
                #expect(try await ingest.letters("cause = 'unknownKind'") == 6)
                #expect(second.statistics.snapshot.diverted == 1 && second.statistics.snapshot.deadLetters == 0)

                let (outcome, wasDiverted) = try await ingest.replayer.resume(app: good)
                #expect(outcome.replayed == 21 && outcome.failed == 0 && wasDiverted)
                #expect(try await ingest.generation(of: good) == 21)
                #expect(try await !ingest.isDiverted())
                try await ingest.publish([ingest.everyone(good)])
                try await ingest.waitUntilApplied(49)
                #expect(try await ingest.generation(of: good) == 22)
                // A second time there is nothing to do.
                let again = try await ingest.replayer.resume(app: good)
                #expect(again.outcome == DeadLetterReplayer.Outcome() && !again.wasDiverted)
                #expect(try await ingest.generation(of: good) == 22)
            }
        }
    }

    @Test("Events that come while what waits is replayed are applied once, and the diversion ends")
    func resumeUnderLoad() async throws {
        try await IngestHarness.lend(maximumBatch: 20, deadLetters: .few()) { ingest in
            let first = ingest.service()
            let second = ingest.service()
            try await ingest.running([first, second]) {
                try await eventually("both have partitions") {
                    [first, second].allSatisfy { $0.statistics.snapshot.assignedPartitions > 0 }
                }
                try await ingest.publish((0..<6).map { _ in ingest.bad() })
                try await eventually("the app is diverted") { try await ingest.isDiverted() }
                try await ingest.publish((0..<300).map { _ in ingest.everyone(good) })
                try await eventually("some wait") { try await ingest.letters("cause = 'diverted'") > 100 }
                async let resumed = ingest.replayer.resume(app: good)
                for _ in 0..<10 { try await ingest.publish((0..<30).map { _ in ingest.everyone(good) }) }
                #expect(try await resumed.outcome.failed == 0)
                try await ingest.waitUntilApplied(606)
            }
            #expect(try await ingest.generation(of: good) == 600)
            #expect(try await !ingest.isDiverted())
            #expect(try await ingest.letters("cause = 'diverted' AND replayed_at IS NULL") == 0)
        }
    }

    @Test("A diversion does not end while a batch that diverts is under way")
    func endWaitsForBatch() async throws {
        try await withStore { store in
            let app = try #require(try await store.directory().apps[good])
            _ = try await store.pool.query(
                CountFailures([.init(appID: app.id, letters: 9, events: 9)], limits: .few()))
            func end() async throws -> Int {
                try await store.pool.withTransaction { connection in
                    _ = try await connection.query(LockDiversion(app: good))
                    return try await connection.execute(EndDiversion(app: good))
                }
            }
            let ending = try await store.pool.withTransaction { connection in
                _ = try await connection.query(RequireFlow(apps: [app.id], diverted: [app.id]))
                let ending = Task { try await end() }
                try await store.waitUntilBlocked()
                let letter = DeadLetter(
                    topic: "t", partition: 0, offset: 1, app: good, code: "diverted", error: "", key: nil, headers: [],
                    payload: nil)
                _ = try await connection.execute(InsertDeadLetter(letter))
                return ending
            }
            #expect(try await ending.value == 0)
            try await store.sql("UPDATE dead_letter SET replayed_at = now()")
            #expect(try await end() == 1)
            // Whoever still believes in it is told.
            await #expect {
                _ = try await store.pool.query(RequireFlow(apps: [app.id], diverted: [app.id]))
            } throws: { error in
                (error as? PostgresError)?.sqlState == RequireFlow.diversionsState
            }
        }
    }

    @Test("Many failures that are few of an app's events do not divert it")
    func share() async throws {
        try await IngestHarness.lend(deadLetters: .few(5, share: 10)) { ingest in
            try await ingest.running([ingest.service()]) {
                for round in 1...10 {
                    try await ingest.publish((0..<99).map { _ in ingest.everyone(good) })
                    try await ingest.waitUntilApplied(round * 100 - 1)
                    try await ingest.publish([ingest.bad()])
                    try await ingest.waitUntilApplied(round * 100)
                }
            }
            #expect(try await ingest.letters("cause = 'unknownKind'") == 10)
            #expect(try await !ingest.isDiverted())
            #expect(try await ingest.generation(of: good) == 990)
        }
    }

    @Test("Several apps over their limit halt ingest; no offset moves until an operator says so; nothing is lost")
    func haltForApps() async throws {
        try await IngestHarness.lend(deadLetters: .few(haltingApps: 2)) { ingest in
            let service = ingest.service()
            try await ingest.running([service]) {
                try await ingest.publish((0..<6).map { _ in ingest.bad(good) })
                try await ingest.waitUntilApplied(6)
                #expect(service.halt == nil)
                try await ingest.publish((0..<6).map { _ in ingest.bad(other) })
                try await eventually("ingest is halted") { service.halt != nil }
                let halt = try #require(service.halt)
                #expect(halt.cause == .apps && halt.apps == [good, other])
                #expect("\(halt)".contains(#"has no kind "Later""#) && "\(halt)".contains("freshet ingest resume"))
                let before = try await ingest.applied()
                try await ingest.publish((0..<10).map { _ in ingest.everyone(other) })
                try await eventually("some of them have been taken") {
                    service.current.withLock { $0 }.map { $0.counters.messages > 12 } ?? false
                }
                try await eventually("halted is alive, however long it takes") { service.heartbeat.silence == nil }
                #expect(try await ingest.applied() == before)

                _ = try await ingest.store.pool.execute(ResumeIngest())
                try await ingest.waitUntilApplied(22)
                try await eventually("it says so") { service.halt == nil }
            }
            #expect(try await ingest.letters("cause = 'unknownKind'") == 12)
            #expect(try await ingest.letters("cause = 'diverted'") == 10)
        }
    }

    @Test("Messages that name no app halt ingest when they are too many; resuming lets it go on")
    func haltForNameless() async throws {
        try await IngestHarness.lend(deadLetters: .few()) { ingest in
            let service = ingest.service()
            try await ingest.running([service]) {
                try await ingest.publishGarbage(6)
                try await eventually("ingest is halted") { service.halt?.cause == .nameless }
                #expect(service.halt?.detail.contains("missingAttribute") == true)
                try await ingest.publish([ingest.everyone(good)])
                var pipeline = PostgresPipeline()
                _ = pipeline.append(ForgetFailures(app: nil))
                _ = pipeline.append(ResumeIngest())
                _ = try await ingest.store.pool.transaction(pipeline)
                try await ingest.waitUntilApplied(7)
            }
            #expect(try await ingest.generation(of: good) == 1)
            #expect(try await ingest.letters("cause = 'invalid' AND app IS NULL") == 6)
        }
    }

    @Test("More that waits than may halts ingest, instead of filling the database or dropping anything")
    func full() async throws {
        var limits = DeadLetterLimits.few()
        limits.waiting = 10
        try await IngestHarness.lend(deadLetters: limits) { [limits] ingest in
            try await ingest.running([ingest.service()]) {
                try await ingest.publish((0..<6).map { _ in ingest.bad() })
                try await ingest.waitUntilApplied(6)
                try await ingest.publish((0..<11).map { _ in ingest.everyone(good) })
                try await ingest.waitUntilApplied(17)
            }
            let flow = IngestFlow(
                pool: ingest.store.pool, limits: limits, interval: .seconds(1), logger: IngestHarness.quiet)
            try await flow.haltIfFull()
            #expect(flow.halt?.cause == .full && flow.halt?.apps == [good])
            _ = try await ingest.replayer.resume(app: good)
            _ = try await ingest.store.pool.execute(ResumeIngest())
            try await flow.refresh()
            try await flow.haltIfFull()
            #expect(flow.halt == nil)
        }
    }
}
