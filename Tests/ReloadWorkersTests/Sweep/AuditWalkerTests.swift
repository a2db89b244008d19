import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

@Suite("Audit", .serialized, .tags(.database), .timeLimit(.patience))
struct AuditWalkerTests {
    private func configure(_ configuration: inout WorkerConfiguration) {
        configuration.auditChunk = 4
        configuration.auditSlack = .zero
        configuration.auditSpacing = .zero
        configuration.auditInterval = .zero
    }

    private func pass(_ worker: TestWorker) async throws {
        try await AuditWalker(context: worker.context).pass()
    }

    @Test("A pass visits all timelines in chunks, and finds nothing where all have appointments")
    func nothing() async throws {
        try await withWorker(configure: configure) { worker in
            try await worker.store.place((0..<10).map { .test("w\($0)", user: "u\($0)") })
            try await pass(worker)
            #expect(worker.counts.auditAppointed == 0)
            #expect(try await worker.store.integer("SELECT pass FROM audit WHERE cursor = 0") == 1)
        }
    }

    @Test("A timeline whose list is lost is appointed anew, counted and fetched")
    func lost() async throws {
        try await withWorker(configure: configure) { worker in
            let ids = try await worker.store.place((0..<7).map { .test("w\($0)", user: "u\($0)") })
            try await worker.drain()
            for user in 0..<7 { try await worker.store.markUser("u\(user)") }
            try await worker.store.sql(
                """
                DELETE FROM work WHERE id = (SELECT min(id) FROM work);
                UPDATE timeline SET listed_at = 'infinity' WHERE id = (SELECT max(id) FROM timeline)
                """)
            let mark = worker.context.signal.mark(.timelines)
            try await pass(worker)
            #expect(worker.counts.auditAppointed == 2)
            #expect(worker.context.signal.mark(.timelines) != mark, "the claim loop is notified")
            try await worker.drain()
            for id in ids { #expect(try await !worker.store.detail(id).isStale) }
            #expect(try await worker.store.unappointed() == 0)
        }
    }

    @Test("A timeline that has been due for less than the slack is left alone")
    func slack() async throws {
        try await withWorker {
            configure(&$0)
            $0.auditSlack = .seconds(900)
        } _: { worker in
            try await worker.store.place([.test("w1")])
            try await worker.store.sql("DELETE FROM work")
            try await pass(worker)
            #expect(worker.counts.auditAppointed == 0)
            try await worker.store.passTime(1_000)
            try await pass(worker)
            #expect(worker.counts.auditAppointed == 1)
        }
    }

    @Test("A lost list is found among the overdue ones of a paused app, by one process of several")
    func paused() async throws {
        try await withWorker(configure: configure) { worker in
            try await worker.store.place((0..<20).map { .test("w\($0)", user: "u\($0)") })
            _ = try await worker.store.store.pause(app: TestKinds.app)
            try await worker.store.sql(
                "UPDATE work SET timelines = timelines[2:] WHERE id = (SELECT min(id) FROM work)")
            let other = worker.another()
            async let first: Void = pass(worker)
            async let second: Void = pass(other)
            _ = try await (first, second)
            #expect(worker.counts.auditAppointed + other.counts.auditAppointed == 1)
            #expect(try await worker.store.unappointed() == 0)
        }
    }

    @Test("A process does not audit while another one does, and continues before its suspects if it stops")
    func takenOver() async throws {
        try await withWorker(configure: configure) { worker in
            try await worker.store.place((0..<10).map { .test("w\($0)", user: "u\($0)") })
            try await worker.store.sql("DELETE FROM work")
            let stopped = "00000000-0000-0001-0000-000000000001"
            func lease(_ end: String) async throws {
                try await worker.store.sql(
                    """
                    UPDATE audit SET worker = '\(stopped)', lease_ends_at = now() + interval '\(end)',
                        cursor = (SELECT min(id) + 4 FROM timeline)
                    """)
            }
            try await lease("1 hour")
            try await pass(worker)
            #expect(worker.counts.auditAppointed == 0)
            try await lease("-1 second")
            try await pass(worker)
            #expect(worker.counts.auditAppointed == 5, "those behind the cursor")
            try await pass(worker)
            #expect(worker.counts.auditAppointed == 10)
        }
    }
}
