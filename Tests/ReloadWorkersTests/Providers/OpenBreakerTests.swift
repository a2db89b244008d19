// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import Waiting
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// The breakers of worker processes, as explanations show them.
@Suite(.serialized, .tags(.database), .timeLimit(.patience))
struct OpenBreakerTests {
    private static let widgets = (0..<20).map { "w\($0)" }

    /// Explanations of the widgets that are due.
    private func due(_ store: TestStore) async throws -> [Explanation] {
        var due: [Explanation] = []
        for widget in Self.widgets {
            let read = try await store.pool.query(.readExplanation(app: TestKinds.app, widget: widget)).first
            if let explanation = read?.explanation, explanation.status == .due { due.append(explanation) }
        }
        return due
    }

    @Test("Due timelines name the provider that is left alone, its message and the next probe, until it answers")
    func explained() async throws {
        try await withWorker(maxBatch: 1) { worker in
            let clock = HandClock()
            let process = worker.another(clock: WorkerClock(clock)) { $0.protection.consecutiveFailures = 1 }
            try await process.register()
            try await worker.store.place(Self.widgets.map { .test($0, user: $0) })
            worker.provider.respond { _ in .status(503) }
            try await process.turn()
            try await process.context.recordBreakers()
            let waiting = try await due(worker.store)
            #expect(!waiting.isEmpty, "most were not tried")
            for explanation in waiting {
                #expect(explanation.next.rule == .providerResting, "\(explanation.next)")
                #expect(explanation.next.text.contains("waits for provider \(worker.provider.url)"))
                #expect(explanation.next.text.contains("answered with status 503"), "\(explanation.next)")
            }

            worker.provider.respond { .timelines($0.ids.map { .stubTimeline($0) }) }
            clock.advance(by: .seconds(2))
            // The timelines that have failed wait longer.
            try await worker.store.sql("UPDATE work SET ready_at = now() WHERE due_at <= now()")
            try await process.drain()
            try await process.context.recordBreakers()
            #expect(try await worker.store.integer("SELECT count(*) FROM open_breaker") == 0)
            #expect(try await due(worker.store).allSatisfy { $0.next.rule != .providerResting })
        }
    }

    @Test("Breakers are written when they change, not by requests, and again if the database did not take them")
    func writes() async throws {
        try await withWorker { worker in
            let protection = ProviderProtection(ProtectionRules(), logger: .silent)
            let key = ProviderKey(appID: 1, app: "a", url: "http://p")
            func end(_ failure: ProviderFailure?, at second: Int) throws {
                guard
                    case .go(let ticket) = protection.begin(
                        key, held: HeldSlots(), lane: .push, at: .seconds(second))
                else { return }
                if let failure {
                    protection.recordFailure(ticket, failure, at: .seconds(second))
                } else {
                    protection.recordAnswer(ticket, timeout: .seconds(10), at: .seconds(second))
                }
            }
            let refused = ProviderFailure(.connection, "refused")
            for _ in 0..<4 { try end(refused, at: 1) }
            #expect(protection.changes.version == 0)
            try end(refused, at: 1)
            #expect(protection.changes.version == 1)
            let opened = protection.takeChanges(limit: 10, at: .seconds(1))
            #expect(opened.count == 1 && opened[0].message == "refused" && opened[0].rest != nil)
            #expect(protection.takeChanges(limit: 10, at: .seconds(1)).isEmpty)
            protection.putBack(opened)
            try end(nil, at: 10)
            let closed = protection.takeChanges(limit: 10, at: .seconds(10))
            #expect(closed.count == 1 && closed[0].rest == nil)
            for second in 11...40 { try end(nil, at: second) }
            #expect(protection.changes.version == 2)
        }
    }

    @Test("A running service stores its breakers by itself")
    func service() async throws {
        try await withWorker(maxBatch: 1) { worker in
            let service = TestService(beside: worker) { $0.protection.consecutiveFailures = 1 }
            worker.provider.respond { _ in .status(503) }
            try await worker.store.place(Self.widgets.map { .test($0, user: $0) })
            try await serving([service]) {
                service.signals.signalAll()
                try await eventually("the outage is stored") {
                    try await worker.store.pool.query(.listOutages(app: TestKinds.app)).first?.isEverywhere == true
                }
            }
            #expect(try await worker.store.pool.query(.listOutages(app: TestKinds.app)).isEmpty, "it has left")
        }
    }
}
