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

@Suite("An app over its dead-letter limit is diverted, and no other app is affected", .timeLimit(.patience))
struct DiversionTests {
    private let good = TestKinds.app
    private let other = TestKinds.otherApp

    /// Diverts an app and publishes an event of it and of another app to the next process.
    private func withDivertedApp(_ body: (IngestHarness, IngestService) async throws -> Void) async throws {
        try await IngestHarness.lend(deadLetters: .few()) { ingest in
            try await ingest.running([ingest.service()]) {
                try await ingest.publish((0..<6).map { _ in ingest.bad() })
                try await ingest.waitUntilApplied(6)
                #expect(try await ingest.isDiverted())
                try await ingest.publish((0..<20).map { _ in ingest.everyone(good) })
                try await ingest.publish((0..<20).map { _ in ingest.everyone(other) })
                try await ingest.waitUntilApplied(46)
            }
            // Another process reads the diversion from the database at its start.
            let second = ingest.service()
            try await ingest.running([second]) {
                try await ingest.publish([ingest.everyone(good), ingest.everyone(other)])
                try await ingest.waitUntilApplied(48)
                try await body(ingest, second)
            }
        }
    }

    @Test("A diverted app's events wait across a restart while others flow")
    func diverted() async throws {
        try await withDivertedApp { ingest, second in
            #expect(second.divertedApps == [good])
            #expect(try await ingest.generation(of: good) == 0)
            #expect(try await ingest.generation(of: other) == 21)
            #expect(try await ingest.letters("cause = 'diverted' AND payload IS NOT NULL") == 21)
            #expect(try await ingest.letters("cause = 'unknownKind'") == 6)
            // The position is stored before the service counts.
            try await eventually("one event is diverted") {
                second.metrics.ingestEvents.total(["outcome": "diverted"]) == 1
            }
            #expect(second.metrics.ingestDeadLetters.total() == 0)
        }
    }

    @Test("Resuming an app applies its waiting events first and ends the diversion; resuming again does nothing")
    func resumed() async throws {
        try await withDivertedApp { ingest, _ in
            let (outcome, wasDiverted) = try await ingest.replayer.resume(app: good)
            #expect(outcome.replayed == 21 && outcome.failed == 0 && wasDiverted)
            #expect(try await ingest.generation(of: good) == 21)
            #expect(try await !ingest.isDiverted())
            try await ingest.publish([ingest.everyone(good)])
            try await ingest.waitUntilApplied(49)
            #expect(try await ingest.generation(of: good) == 22)
            let again = try await ingest.replayer.resume(app: good)
            #expect(again.outcome == DeadLetterReplayer.Outcome() && !again.wasDiverted)
            #expect(try await ingest.generation(of: good) == 22)
        }
    }

    @Test("Events that arrive during a resumption are applied once, and the diversion ends")
    func resumeUnderLoad() async throws {
        try await IngestHarness.lend(maximumBatch: 20, deadLetters: .few()) { ingest in
            let first = ingest.service()
            let second = ingest.service()
            try await ingest.running([first, second]) {
                try await eventually("both have partitions") {
                    [first, second].allSatisfy { $0.metrics.ingestPartitions.total() > 0 }
                }
                try await ingest.publish((0..<6).map { _ in ingest.bad() })
                try await eventually("the app is diverted") { try await ingest.isDiverted() }
                try await ingest.publish((0..<300).map { _ in ingest.everyone(good) })
                try await eventually("more than 100 events wait") {
                    try await ingest.letters("cause = 'diverted'") > 100
                }
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

    @Test("A diversion does not end while a batch under way diverts events")
    func endWaitsForBatch() async throws {
        try await withStore { store in
            let app = try #require(try await store.directory().apps[good])
            let apps = AppliedApps(all: [app.id], diverted: [app.id])
            _ = try await store.pool.query(
                .countFailures([.init(appID: app.id, topic: "t", letters: 9, events: 9)], limits: .few()))
            func end() async throws -> Int {
                try await store.pool.withTransaction { connection in
                    _ = try await connection.query(.lockDiversion(app: good))
                    return try await connection.execute(.endDiversion(app: good))
                }
            }
            let ending = try await store.pool.withTransaction { connection in
                _ = try await connection.query(.advancePositions([], applying: apps))
                let ending = Task { try await end() }
                try await store.waitUntilBlocked()
                let letter = DeadLetter(
                    topic: "t", partition: 0, offset: 1, app: good, code: "diverted", error: "", key: nil, headers: [],
                    payload: nil)
                _ = try await connection.execute(.insertDeadLetter(letter))
                return ending
            }
            #expect(try await ending.value == 0)
            try await store.sql("UPDATE dead_letter SET replayed_at = now()")
            #expect(try await end() == 1)
            // A process with a stale state is corrected.
            await #expect {
                _ = try await store.pool.query(.advancePositions([], applying: apps))
            } throws: { error in
                (error as? PostgresError)?.findsOtherDiversions == true
            }
        }
    }

    @Test("A halt is noticed that is committed while a batch waits for its position")
    func haltDuringWait() async throws {
        try await withStore { store in
            let partition: PartitionName = ("t", 0)
            let position = try #require(
                try await store.pool.query(.takePartitions([partition], cluster: nil)).first)
            let advance = PositionAdvance(topic: "t", partition: 0, epoch: position.epoch, expected: nil, next: 1)
            let waiting = try await store.pool.withTransaction { connection in
                try await connection.simple("SELECT FROM consumer_position FOR UPDATE")
                let apps = AppliedApps(all: [], diverted: [])
                let waiting = Task { try await store.pool.query(.advancePositions([advance], applying: apps)) }
                try await store.waitUntilBlocked()
                _ = try await connection.execute(.lockTopicState(topic: "t"))
                _ = try await connection.execute(.haltTopic(topic: "t", cause: .full, detail: "many"))
                return waiting
            }
            await #expect {
                _ = try await waiting.value
            } throws: { error in
                (error as? PostgresError)?.findsHaltedTopic == true
            }
        }
    }

    @Test("Many failures do not divert an app if they are a small part of its events")
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
}
