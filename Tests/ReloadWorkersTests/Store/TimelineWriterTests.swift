// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// Rows that changed since the claim read them, and content that the database refuses.
@Suite("Storing", .serialized, .tags(.database), .timeLimit(.patience))
struct TimelineWriterTests {
    /// Leases all ready lists of a store and returns their timelines, fetched with this content.
    private func fetched(
        _ worker: TestWorker, _ content: (ClaimedTimeline) -> String = { _ in "new" }
    ) async throws -> [TimelineJob] {
        let known = try await worker.store.directory()
        let requests = known.kinds.keys.flatMap { kind in
            ReloadLane.allCases.map { ClaimRequest(KindLane(kindID: kind, lane: $0), lists: 100) }
        }
        let rows = try await worker.store.pool.query(.claimLists(requests, lease: .seconds(30)))
        let claimed = try #require(Claim(rows))
        let began = worker.context.clock.elapsed
        let jobs = try claimed.lists.flatMap { list in
            let claim = Sample.claim(
                list, kind: try #require(known.kinds[list.kindID]), token: claimed.token, startedAt: began,
                leaseEnds: began + .seconds(30))
            return list.timelines.map { TimelineJob($0, of: claim) }
        }
        return Decisions(jobs).fetches.map { job in
            var job = job
            job.answer = Sample.answer(#"{"content":"\#(content(job.timeline))"}"#, at: job.timeline.readAt)
            return job
        }
    }

    /// Stores answers, and returns the timelines that are stored, and those that the database refuses.
    private func store(
        _ fetched: [TimelineJob], _ worker: TestWorker
    ) async throws -> (stored: [TimelineJob], refused: [TimelineJob]) {
        try await store(fetched, TimelineWriter(context: worker.context))
    }

    private func store(
        _ fetched: [TimelineJob], _ writer: TimelineWriter
    ) async throws -> (stored: [TimelineJob], refused: [TimelineJob]) {
        var jobs = fetched
        try await writer.store(&jobs)
        return (jobs.filter { $0.written != nil }, jobs.filter { $0.failure != nil })
    }

    private func revise(_ store: TestStore, to revision: Int64) async throws {
        try await store.sql(
            "UPDATE timeline SET revision = \(revision), content_revision = \(revision), content = '{}'")
    }

    @Test("A result is discarded after a store with a later token")
    func later() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            let fetched = try await fetched(worker)
            try await revise(worker.store, to: fetched[0].claim.token + 1)
            let (stored, refused) = try await store(fetched, worker)
            #expect(stored.isEmpty && refused.isEmpty && worker.metrics.fenced.total() == 1)
            #expect(try await worker.store.detail(id).text == "{}")
        }
    }

    @Test("A result is recomputed and stored after a store with an earlier token")
    func earlier() async throws {
        try await withWorker { worker in
            try await worker.store.sql("ALTER SEQUENCE token RESTART 100")
            let id = try await worker.store.place([.test("w1")])[0]
            let fetched = try await fetched(worker)
            try await worker.store.sql("UPDATE timeline SET hash = '\(try #require(fetched[0].answer).hash)'")
            try await revise(worker.store, to: fetched[0].claim.token - 1)
            let (stored, _) = try await store(fetched, worker)
            #expect(stored.map { $0.content == nil } == [true], "compared with the earlier store's content")
            let detail = try await worker.store.detail(id)
            #expect(detail.timeline.revision == fetched[0].claim.token && detail.decision == .unchanged)
            #expect(detail.revision == fetched[0].claim.token - 1 && worker.metrics.fenced.total() == 0)
        }
    }

    @Test(
        "A result that is stored after another store keeps the tokens that the other store has spent, and spends its own",
        arguments: [ReloadReason.foreground, .push])
    func ledger(reason: ReloadReason) async throws {
        try await withWorker { worker in
            try await worker.store.sql("ALTER SEQUENCE token RESTART 100")
            let user = WidgetPlacement.test("w1").user
            try await worker.store.place([.test("w1")])
            try await worker.store.settle()
            try await worker.store.mark(user, reason: reason)
            let fetched = try await fetched(worker)
            let job = try #require(fetched.first)
            var spent = BudgetLedger()
            for _ in 1...3 { spent.spend(of: 40, at: job.timeline.readAt) }
            let stored = try #require(spent.stored).map { String($0, radix: 16) }.map { $0.count < 2 ? "0" + $0 : $0 }
            try await worker.store.sql("UPDATE timeline SET budget = decode('\(stored.joined())', 'hex')")
            try await revise(worker.store, to: job.claim.token - 1)
            let outcome = try await store(fetched, worker)
            #expect(outcome.stored.count == 1 && worker.metrics.fenced.total() == 0)
            if reason == .push { spent.spend(of: 40, at: job.timeline.readAt) }
            let row = try await worker.store.pool.query(.readTimelinesAgain([job.timeline.row])).first
            #expect(row?.ledger == spent)
        }
    }

    @Test("Content that the database refuses fails no timeline of another batch in the same statement")
    func innocent() async throws {
        try await withWorker { worker in
            try await worker.store.place((0..<6).map { .test("w\($0)", user: "u\($0)") })
            try await worker.store.sql("ALTER TABLE timeline ADD CHECK (content NOT LIKE '%broken%')")
            let fetched = try await fetched(worker) { $0.user == "u4" ? "broken" : "whole" }
            let writer = TimelineWriter(context: worker.context)
            // The row's lock holds up the first store, so that the others share the next statement.
            let results = try await worker.store.pool.withTransaction { connection in
                let row = fetched[0].timeline.row
                try await connection.simple("SELECT FROM timeline WHERE id = \(row) FOR UPDATE")
                let first = Task { try await store([fetched[0]], writer) }
                try await eventually("the first store waits for the row") {
                    try await worker.store.integer(
                        "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'") == 1
                }
                let others = fetched.dropFirst().map { one in Task { try await store([one], writer) } }
                try await eventually("the others share a statement", every: .milliseconds(1)) {
                    writer.waiting == others.count
                }
                return [first] + others
            }
            var refused: [String?] = []
            for result in results { refused += try await result.value.refused.map(\.timeline.user) }
            #expect(refused == ["u4"])
            #expect(try await worker.store.integer("SELECT count(*) FROM timeline WHERE content LIKE '%whole%'") == 5)
        }
    }

    @Test("Content stored by an earlier attempt is found and published")
    func again() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            let fetched = try await fetched(worker)
            let writer = TimelineWriter(context: worker.context)
            #expect(try await store(fetched, writer).stored.map { $0.content == nil } == [false])
            // The first attempt's outcome was lost.
            let (stored, _) = try await store(fetched, writer)
            #expect(stored.map { $0.content == nil } == [false] && worker.metrics.fenced.total() == 0)
            #expect(stored[0].written?.contentRevision == fetched[0].claim.token)
            #expect(try await worker.store.detail(id).revision == fetched[0].claim.token)
        }
    }

    @Test("Nothing is stored for a list whose lease is lost")
    func lostList() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            let fetched = try await fetched(worker)
            try await worker.store.sql("UPDATE work SET lease = lease + 1")
            #expect(try await store(fetched, worker).stored.isEmpty)
            #expect(try await worker.store.detail(id).content == nil && worker.metrics.fenced.total() == 1)
        }
    }

    @Test("Halving isolates content that the database refuses; the rest is stored")
    func refused() async throws {
        try await withWorker { worker in
            try await worker.store.place((0..<9).map { .test("w\($0)", user: "u\($0)") })
            try await worker.store.sql("ALTER TABLE timeline ADD CHECK (content NOT LIKE '%broken%')")
            let fetched = try await fetched(worker) { $0.user == "u4" ? "broken" : "whole" }
            let (stored, refused) = try await store(fetched, worker)
            #expect(stored.count == 8 && stored.allSatisfy { $0.content != nil })
            #expect(refused.map(\.timeline.user) == ["u4"] && refused.map(\.failure?.reason) == [.storage])
            #expect(try await worker.store.integer("SELECT count(*) FROM timeline WHERE content LIKE '%whole%'") == 8)
        }
    }
}
