import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

@Suite("Audit", .serialized, .tags(.database), .timeLimit(.patience))
struct AuditWalkerTests {
    @Test("A pass visits all timelines in chunks, and finds nothing where all have appointments")
    func nothing() async throws {
        try await withWorker {
            $0.auditChunk = 4
            $0.auditSlack = .zero
        } _: { worker in
            try await worker.store.place((0..<10).map { .test("w\($0)", user: "u\($0)") })
            let walker = AuditWalker(context: worker.context)
            var last: Int64? = 0
            var chunks = 0
            while let after = last {
                last = try await walker.chunk(after: after)
                chunks += 1
            }
            #expect(chunks == 3 && worker.counts.auditAppointed == 0)
        }
    }

    @Test("A timeline whose list is lost is appointed anew, counted and fetched")
    func lost() async throws {
        try await withWorker {
            $0.auditSlack = .zero
        } _: { worker in
            let ids = try await worker.store.place([.test("w1"), .test("w2", user: "u2")])
            try await worker.drain()
            for user in ["u1", "u2"] { try await worker.store.markUser(user) }
            try await worker.store.sql("DELETE FROM work WHERE id = (SELECT min(id) FROM work)")
            let mark = worker.context.signal.mark(.timelines)
            _ = try await AuditWalker(context: worker.context).chunk(after: 0)
            #expect(worker.counts.auditAppointed == 1)
            #expect(worker.context.signal.mark(.timelines) != mark, "the claim loop is notified")
            try await worker.drain()
            for id in ids { #expect(try await !worker.store.detail(id).isStale) }
            #expect(try await worker.store.unappointed() == 0)
        }
    }

    @Test("A timeline that has been due for less than the slack is left alone")
    func slack() async throws {
        try await withWorker { worker in
            try await worker.store.place([.test("w1")])
            try await worker.store.sql("DELETE FROM work")
            _ = try await AuditWalker(context: worker.context).chunk(after: 0)
            #expect(worker.counts.auditAppointed == 0)
            try await worker.store.passTime(1_000)
            _ = try await AuditWalker(context: worker.context).chunk(after: 0)
            #expect(worker.counts.auditAppointed == 1)
        }
    }
}
