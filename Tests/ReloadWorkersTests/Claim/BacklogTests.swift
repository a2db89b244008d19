import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

@Suite("Ingest goes before the workers of its process for a moment", .timeLimit(.minutes(5)))
struct BacklogTests {
    private static let start = ContinuousClock.now

    private func time(_ milliseconds: Int) -> ContinuousClock.Instant { Self.start + .milliseconds(milliseconds) }

    @Test("Small batches hold nothing up")
    func small() {
        let backlog = IngestBacklog()
        #expect(!backlog.holds(at: time(0)))
        backlog.applying(IngestBacklog.largeBatch - 1, at: time(0))
        #expect(!backlog.holds(at: time(0)))
    }

    @Test("A backlog holds workers up until it is quiet")
    func quiet() {
        let backlog = IngestBacklog()
        for step in 0...4 { backlog.applying(4_096, at: time(step * 100)) }
        #expect(backlog.holds(at: time(401)))
        // Small batches between large ones do not end it.
        backlog.applying(10, at: time(450))
        #expect(backlog.holds(at: time(599)))
        #expect(!backlog.holds(at: time(600)))
    }

    @Test("A backlog that lasts holds them up for a limited time, the next one anew")
    func limit() {
        let backlog = IngestBacklog()
        for step in 0...50 {
            backlog.applying(4_096, at: time(step * 100))
            #expect(backlog.holds(at: time(step * 100)) == (step < 20), "\(step)")
        }
        #expect(!backlog.holds(at: time(5_300)))
        backlog.applying(4_096, at: time(5_300))
        #expect(backlog.holds(at: time(5_301)))
    }

    @Test("Nothing is claimed, nor granted, while it holds")
    func loop() async throws {
        try await withWorker { worker in
            try await worker.store.place([.test("w1")])
            worker.context.backlog.applying(IngestBacklog.largeBatch)
            let direct = DirectClaims()
            direct.open(worker.context)
            direct.note(isBehind: false)
            let kind = try await worker.store.kindID("Purchases")
            let directory = try await worker.store.directory()
            // Unless the machine stood still for longer than it holds.
            let isGranted = direct.grant([kind], of: directory) != nil
            let works = try await worker.claim()
            if worker.context.backlog.holds() {
                #expect(!isGranted)
                #expect(works.isEmpty)
            }
            try await eventually("it is over") { !worker.context.backlog.holds() }
            if works.isEmpty { #expect(try await worker.claim().count == 1) }
        }
    }
}
