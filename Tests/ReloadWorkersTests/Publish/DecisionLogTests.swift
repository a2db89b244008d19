// SPDX-License-Identifier: Apache-2.0

import Foundation
import KafkaClient
import Logging
import ServiceLifecycle
import Synchronization
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// Publishing of decisions, which never delays the workers.
@Suite(.serialized, .tags(.database), .timeLimit(.patience))
struct DecisionLogTests {
    /// A stand-in for Kafka that records messages, delays them or refuses them.
    private final class Sink: Sendable {
        let messages = Mutex<[KafkaMessage]>([])
        let sends = Mutex<[Int]>([])
        private let gate: Gate?
        private let isFailing: Bool

        init(gate: Gate? = nil, isFailing: Bool = false) {
            self.gate = gate
            self.isFailing = isFailing
        }

        func publish(_ messages: [KafkaMessage]) async -> [Result<KafkaDelivery, KafkaError>] {
            sends.withLock { $0.append(messages.count) }
            if let gate { try? await gate.pass() }
            if isFailing { return messages.map { _ in .failure(.testTimeout) } }
            self.messages.withLock { $0 += messages }
            return messages.map { _ in .success(KafkaDelivery(partition: 0, offset: 0)) }
        }

        /// Data of the published messages, parsed by an independent decoder.
        func data() throws -> [[String: Any]] {
            try messages.withLock { $0 }.map { message in
                let object = try JSONSerialization.jsonObject(with: Data(message.value ?? []))
                return try #require(object as? [String: Any])
            }
        }
    }

    private let lines = RecordedLog()

    /// Returns a log whose clock stands still, so that no time limit ends the last send.
    private func log(_ sink: Sink, limit: Int = 20_000) -> DecisionLog {
        DecisionLog(
            topic: "freshet.decisions", inputs: ["in.pushes", "in.changes"], limit: limit, clock: HandClock(),
            logger: lines.logger
        ) { await sink.publish($0) }
    }

    private func record(_ number: Int64) -> TimelineDecidedEvent {
        var event = TimelineDecidedEvent(decision: .reloaded, rule: .free)
        (event.timeline, event.app, event.claim) = (TimelineID(high: 0, low: UInt64(number)), "a", number)
        event.cause = EventPosition(topic: 1, partition: 2, offset: number)
        return event
    }

    /// Runs the log as a service while `body` runs, and stops it in order.
    private func running(_ log: DecisionLog, _ body: () async throws -> Void) async throws {
        let group = ServiceGroup(services: [log], logger: .silent)
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask { try await group.run() }
            try await body()
            await group.triggerGracefulShutdown()
            try await tasks.waitForAll()
        }
    }

    @Test("Decisions are published in order, once, in few sends, with the topics' names")
    func publishing() async throws {
        let sink = Sink()
        let log = log(sink)
        log.record((0..<2_500).map { record($0) })
        try await running(log) {
            try await eventually("the first 2,500 are published") { sink.messages.withLock { $0.count } == 2_500 }
            log.record([record(2_500)])
            try await eventually("the last one is published") { sink.messages.withLock { $0.count } == 2_501 }
        }
        let data = try sink.data()
        #expect(data.compactMap { $0["claim"] as? Int } == Array(0...2_500))
        #expect((data[7]["cause"] as? [String: Any])?["topic"] as? String == "in.changes")
        #expect(sink.sends.withLock { $0 } == [1_000, 1_000, 500, 1])
        #expect(sink.messages.withLock { $0.allSatisfy { $0.topic == "freshet.decisions" } })
        #expect(lines.lines.isEmpty, "nothing is lost")
    }

    @Test("While Kafka hangs, recording does not wait and memory is bounded")
    func bounded() async throws {
        let gate = Gate()
        let sink = Sink(gate: gate)
        let log = log(sink, limit: 100)
        try await running(log) {
            log.record([record(0)])
            try await eventually("the first send hangs") { sink.sends.withLock { $0 } == [1] }
            for number in 1...60 { log.record([record(Int64(number)), record(Int64(number) + 1_000)]) }
            gate.open()
            try await eventually("the queued decisions are published") { sink.messages.withLock { $0.count } == 101 }
        }
        #expect(lines.lines.map(\.metadata) == [["topic": "freshet.decisions", "failed": "0", "dropped": "20"]])
    }

    @Test("Unacknowledged decisions are counted and not sent again")
    func failing() async throws {
        let sink = Sink(isFailing: true)
        let log = log(sink)
        log.record((0..<10).map { record($0) })
        try await running(log) {
            try await eventually("the loss is logged") { !lines.lines.isEmpty }
        }
        #expect(lines.lines.map(\.metadata) == [["topic": "freshet.decisions", "failed": "10", "dropped": "0"]])
        #expect(sink.sends.withLock { $0 } == [10])
    }

    @Test("The last decisions are sent when the service stops, cancelled or not", arguments: [true, false])
    func stopping(isGraceful: Bool) async throws {
        let sink = Sink()
        let log = log(sink)
        let group = ServiceGroup(services: [log], logger: .silent)
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask { try await group.run() }
            log.record([record(1)])
            if isGraceful { await group.triggerGracefulShutdown() } else { tasks.cancelAll() }
            do { try await tasks.waitForAll() } catch is CancellationError {}
        }
        #expect(sink.messages.withLock { $0.count } == 1)
        #expect(lines.lines.isEmpty, "nothing is lost")
    }

    /// A worker with one rendered timeline, and the decisions of its turns.
    private func withDecisions(
        _ body: (
            _ worker: TestWorker, _ first: [TimelineDecidedEvent], _ turn: () async throws -> [TimelineDecidedEvent]
        ) async throws -> Void
    ) async throws {
        let recorded = Mutex<[TimelineDecidedEvent]>([])
        let recorder = DecisionRecorder { decisions in recorded.withLock { $0 += decisions } }
        try await withWorker(decisions: recorder) { worker in
            func turn() async throws -> [TimelineDecidedEvent] {
                try await worker.turn()
                return recorded.withLock { records in
                    defer { records = [] }
                    return records
                }
            }
            try await worker.store.place([.test("w1", user: "u1")])
            try await body(worker, try await turn(), turn)
        }
    }

    @Test("A worker records the first reload with its widget, generations, claim and time")
    func reloaded() async throws {
        try await withDecisions { worker, first, _ in
            #expect(first.map(\.decision) == [.reloaded] && first.map(\.rule) == [.first])
            let id = try await worker.store.timelineID(of: "w1")
            #expect(first[0].timeline == id && first[0].app == TestKinds.app && first[0].kind == "Purchases")
            #expect(first[0].user == "u1" && first[0].reason == .placed && first[0].claim != nil)
            #expect(first[0].requested == 1 && first[0].rendered == 1 && first[0].fetchTime != nil)
        }
    }

    @Test("A worker records unchanged and failed decisions with their rules and causes")
    func unchangedAndFailed() async throws {
        try await withDecisions { worker, _, turn in
            try await worker.store.markUser("u1")
            let second = try await turn()
            #expect(second.map(\.decision) == [.unchanged] && second.map(\.rule) == [.gate])
            #expect(second[0].cause == TestStore.cause && second[0].requested == 2)

            worker.provider.respond { .timelines($0.ids.map { .stubError($0, code: "away") }) }
            try await worker.store.markUser("u1")
            let third = try await turn()
            #expect(third.map(\.decision) == [.failed] && third.map(\.rule) == [.providerError])
            #expect(third[0].rendered == nil, "the rendered time is unchanged")
        }
    }

    @Test("A worker records a deferred decision, before the spacing is over, with the time at which it is due")
    func deferred() async throws {
        try await withDecisions { worker, _, turn in
            try await worker.store.sql(
                """
                UPDATE timeline SET requested = requested + 1, free_requested = rendered, retry_at = '-infinity',
                    attempts = 0, rendered_at = now() - interval '10 s', eligible_at = '-infinity', listed_at = 'infinity';
                DELETE FROM work
                """)
            #expect(try await worker.store.unappointed() == 1, "the audit appoints it")
            let decided = try await turn()
            #expect(decided.map(\.decision) == [.deferred] && decided.map(\.rule) == [.spacing])
            #expect(decided[0].kind == "Purchases" && decided[0].dueAt != nil)
        }
    }
}
