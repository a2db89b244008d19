import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// Rows that changed since the claim read them, and content that the database refuses.
@Suite("Storing", .serialized, .tags(.database), .timeLimit(.patience))
struct StorerTests {
    /// Leases all ready lists of a store and returns their timelines, fetched with this content.
    private func fetched(
        _ worker: TestWorker, _ content: (ClaimedTimeline) -> String = { _ in "new" }
    ) async throws -> [FetchedTimeline] {
        let known = try await worker.store.directory()
        let wishes = known.kinds.keys.flatMap { kind in
            ReloadLane.allCases.map { ClaimWish(kindID: kind, lane: $0, lists: 100) }
        }
        let rows = try await worker.store.pool.query(.claimLists(wishes, lease: .seconds(30)))
        let claim = try #require(Claim(rows))
        let end = worker.context.clock.elapsed + .seconds(30)
        let decisions = Decider(directory: known)
            .decide(claim.lists, token: claim.token, startedAt: worker.context.clock.elapsed, leaseEnds: end)
        return decisions.fetches.map { item in
            Sample.fetched(item, content: #"{"content":"\#(content(item.timeline))"}"#)
        }
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
            try await revise(worker.store, to: fetched[0].item.token + 1)
            let (stored, refused) = try await Storer(context: worker.context).store(fetched)
            #expect(stored.isEmpty && refused.isEmpty && worker.counts.fenced == 1)
            #expect(try await worker.store.detail(id).text == "{}")
        }
    }

    @Test("A result is recomputed and stored after a store with an earlier token")
    func earlier() async throws {
        try await withWorker { worker in
            try await worker.store.sql("ALTER SEQUENCE token RESTART 100")
            let id = try await worker.store.place([.test("w1")])[0]
            let fetched = try await fetched(worker)
            try await worker.store.sql("UPDATE timeline SET hash = '\(fetched[0].parsed.hash)'")
            try await revise(worker.store, to: fetched[0].item.token - 1)
            let (stored, _) = try await Storer(context: worker.context).store(fetched)
            #expect(stored.map(\.isChanged) == [false], "compared with the earlier store's content")
            let detail = try await worker.store.detail(id)
            #expect(detail.timeline.revision == fetched[0].item.token && detail.decision == .unchanged)
            #expect(detail.revision == fetched[0].item.token - 1 && worker.counts.fenced == 0)
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
            let item = try #require(fetched.first?.item)
            var spent = BudgetLedger()
            for _ in 1...3 { spent.spend(of: 40, at: item.timeline.readAt) }
            let stored = try #require(spent.stored).map { String($0, radix: 16) }.map { $0.count < 2 ? "0" + $0 : $0 }
            try await worker.store.sql("UPDATE timeline SET budget = decode('\(stored.joined())', 'hex')")
            try await revise(worker.store, to: item.token - 1)
            let outcome = try await Storer(context: worker.context).store(fetched)
            #expect(outcome.stored.count == 1 && worker.counts.fenced == 0)
            if reason == .push { spent.spend(of: 40, at: item.timeline.readAt) }
            let row = try await worker.store.pool.query(.readTimelinesAgain([item.timeline.row])).first
            #expect(row?.ledger == spent)
        }
    }

    @Test("Content that the database refuses fails no timeline of another batch in the same statement")
    func innocent() async throws {
        try await withWorker { worker in
            try await worker.store.place((0..<6).map { .test("w\($0)", user: "u\($0)") })
            try await worker.store.sql("ALTER TABLE timeline ADD CHECK (content NOT LIKE '%broken%')")
            let fetched = try await fetched(worker) { $0.user == "u4" ? "broken" : "whole" }
            let storer = Storer(context: worker.context)
            // The row's lock holds up the first store, so that the others share the next statement.
            let results = try await worker.store.pool.withTransaction { connection in
                let row = fetched[0].item.timeline.row
                try await connection.simple("SELECT FROM timeline WHERE id = \(row) FOR UPDATE")
                let first = Task { try await storer.store([fetched[0]]) }
                try await eventually("the first store waits for the row") {
                    try await worker.store.integer(
                        "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'") == 1
                }
                let others = fetched.dropFirst().map { one in Task { try await storer.store([one]) } }
                try await eventually("the others share a statement", every: .milliseconds(1)) {
                    storer.waiting == others.count
                }
                return [first] + others
            }
            var refused: [String?] = []
            for result in results { refused += try await result.value.refused.map(\.item.timeline.user) }
            #expect(refused == ["u4"])
            #expect(try await worker.store.integer("SELECT count(*) FROM timeline WHERE content LIKE '%whole%'") == 5)
        }
    }

    @Test("Content stored by an earlier attempt is found and published")
    func again() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            let fetched = try await fetched(worker)
            let storer = Storer(context: worker.context)
            #expect(try await storer.store(fetched).stored.map(\.isChanged) == [true])
            // The first attempt's outcome was lost.
            let (stored, _) = try await storer.store(fetched)
            #expect(stored.map(\.isChanged) == [true] && worker.counts.fenced == 0)
            #expect(stored[0].row.contentRevision == fetched[0].item.token)
            #expect(try await worker.store.detail(id).revision == fetched[0].item.token)
        }
    }

    @Test("Nothing is stored for a list whose lease is lost")
    func lostList() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            let fetched = try await fetched(worker)
            try await worker.store.sql("UPDATE work SET lease = lease + 1")
            #expect(try await Storer(context: worker.context).store(fetched).stored.isEmpty)
            #expect(try await worker.store.detail(id).content == nil && worker.counts.fenced == 1)
        }
    }

    @Test("Halving isolates content that the database refuses; the rest is stored")
    func refused() async throws {
        try await withWorker { worker in
            try await worker.store.place((0..<9).map { .test("w\($0)", user: "u\($0)") })
            try await worker.store.sql("ALTER TABLE timeline ADD CHECK (content NOT LIKE '%broken%')")
            let fetched = try await fetched(worker) { $0.user == "u4" ? "broken" : "whole" }
            let (stored, refused) = try await Storer(context: worker.context).store(fetched)
            #expect(stored.count == 8 && stored.allSatisfy(\.isChanged))
            #expect(refused.map(\.item.timeline.user) == ["u4"] && refused.map(\.failure.reason) == [.storage])
            #expect(try await worker.store.integer("SELECT count(*) FROM timeline WHERE content LIKE '%whole%'") == 8)
        }
    }
}
