import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

/// How often the session has looked rows of the hot table up in an index since its numbers were last collected, which is not
/// within a transaction.
private struct HotRowLookups: PostgresStatement {
    static let sql = """
        SELECT coalesce(idx_scan, 0)::int8 FROM pg_stat_xact_user_tables WHERE relname = 'timeline_state'
        """

    func bind(_ parameters: inout PostgresParameters) {}

    static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int64 { try row.value(0) }
}

@Suite("A claim's holder finds its rows where the claim left them, or by their keys", .timeLimit(.minutes(5)))
struct HotRowTests {
    private let hash = ContentHash(high: 1, low: 2)

    private func write(_ claimed: ClaimedTimeline, at tid: PostgresTID?) -> ContentWrite {
        ContentWrite(id: claimed.id, claim: claimed.claim, hash: hash, content: "new", tid: tid)
    }

    private func completion(_ claimed: ClaimedTimeline, at tid: PostgresTID?) -> Completion {
        Completion(
            id: claimed.id, claim: claimed.claim, requested: claimed.requested,
            kindGeneration: claimed.kindGeneration, appGeneration: claimed.appGeneration, publishedHash: hash,
            nextReload: nil, jitter: .zero, spacing: .seconds(300), decision: .reloaded, tid: tid)
    }

    private func isAt(_ tid: PostgresTID, _ id: TimelineID, _ store: TestStore) async throws -> Bool {
        try await store.integer(
            """
            SELECT count(*) FROM timeline_state
            WHERE ctid = '(\(tid.block),\(tid.offset))' AND timeline_id = '\(PostgresUUID(id))'
            """) == 1
    }

    @Test("A claim tells where its row is")
    func claimed() async throws {
        try await withStore { store in
            _ = try await store.place((0..<3).map { .test("w\($0)", user: "u\($0)") })
            let claims = try await store.claim(lane: .interactive)
            #expect(claims.count == 3)
            for claim in claims { #expect(try await isAt(try #require(claim.tid), claim.id, store)) }
        }
    }

    @Test("One that is where it was is saved and completed without a look-up", arguments: [true, false])
    func inPlace(isPlaced: Bool) async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            let claim = try #require(try await store.claim(lane: .interactive).first)
            let tid = isPlaced ? claim.tid : nil
            let lookups = try await store.pool.withTransaction { connection in
                let before = try #require(try await connection.query(HotRowLookups()).first)
                let saved = try await connection.query(SaveContentInPlace([write(claim, at: tid)]))
                #expect(saved.map(\.isChanged) == [true])
                let done = try await connection.query(CompleteTimelinesInPlace([completion(claim, at: tid)]))
                #expect(done.map(\.id) == [id])
                return try #require(try await connection.query(HotRowLookups()).first) - before
            }
            #expect(lookups == (isPlaced ? 0 : 2))
            #expect(try await store.timeline(id)?.content == "new")
            #expect(try await store.timeline(id)?.rendered == claim.requested)
        }
    }

    @Test("One that was written since, or whose place is another row's or nobody's, is found by its key")
    func moved() async throws {
        try await withStore { store in
            let ids = try await store.place([.test("w1", user: "u1"), .test("w2", user: "u2")])
            let claims = try await store.claim(lane: .interactive)
            let first = try #require(claims.first { $0.id == ids[0] })
            let second = try #require(claims.first { $0.id == ids[1] })
            try await store.sql("UPDATE timeline_state SET requested = requested + 1")
            #expect(try await !isAt(try #require(first.tid), first.id, store))
            // The second one's place is where the first one is by now.
            let other = try #require(
                try await tid(of: first.id, store))
            for places in [[first.tid, second.tid], [PostgresTID(block: 1 << 20, offset: 7), other], [other, nil]] {
                let saved = try await store.pool.query(
                    SaveContentInPlace([write(first, at: places[0]), write(second, at: places[1])]))
                #expect(Set(saved.map(\.id)) == Set(ids))
            }
            let done = try await store.pool.query(
                CompleteTimelinesInPlace([completion(first, at: first.tid), completion(second, at: other)]))
            #expect(Set(done.map(\.id)) == Set(ids))
            // What was asked for meanwhile stays asked for.
            for id in ids {
                let timeline = try #require(try await store.timeline(id))
                #expect(timeline.content == "new" && timeline.rendered + 1 == timeline.requested)
            }
        }
    }

    /// The place of a row, as a page and a number on it.
    private func tid(of id: TimelineID, _ store: TestStore) async throws -> PostgresTID? {
        func part(_ number: Int) -> String {
            """
            SELECT (string_to_array(trim(both '()' from ctid::text), ','))[\(number)]::int8 FROM timeline_state
            WHERE timeline_id = '\(PostgresUUID(id))'
            """
        }
        return PostgresTID(
            block: UInt32(try await store.integer(part(1))), offset: UInt16(try await store.integer(part(2))))
    }

    /// Runs a statement that waits for a transaction that writes the row, and behind it another one.
    private func whileMarked<Value: Sendable>(
        _ store: TestStore, _ body: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        let mark = "UPDATE timeline_state SET requested = requested + 1"
        let (waiting, behind) = try await store.pool.withTransaction { connection in
            try await connection.simple(mark)
            let waiting = Task { try await body() }
            try await store.waitUntilBlocked()
            let behind = Task { try await store.sql(mark) }
            try await store.waitUntilBlocked(2)
            return (waiting, behind)
        }
        try await behind.value
        return try await waiting.value
    }

    @Test("One that gets new versions while the statement waits for it is found by its key, if not by its place")
    func meanwhile() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            let claim = try #require(try await store.claim(lane: .interactive).first)
            let (write, completion) = (write(claim, at: claim.tid), completion(claim, at: claim.tid))
            // Whether it is found depends on the server; what is not found is not changed.
            let inPlace = try await whileMarked(store) { try await store.pool.query(SaveContentInPlace([write])) }
            #expect(try await store.timeline(id)?.content == (inPlace.isEmpty ? nil : "new"))
            let saved = try await whileMarked(store) { try await store.pool.query(SaveContent([write])) }
            #expect(saved.map(\.isChanged) == [inPlace.isEmpty])
            #expect(try await store.timeline(id)?.content == "new")
            let done = try await whileMarked(store) { try await store.pool.query(CompleteTimelines([completion])) }
            #expect(done.map(\.id) == [id])
            let timeline = try #require(try await store.timeline(id))
            #expect(timeline.rendered == claim.requested && timeline.requested == claim.requested + 6)
        }
    }

    @Test("A claim that is over is over, whatever its place")
    func fenced() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            let first = try #require(try await store.claim(lane: .interactive).first)
            try await store.sql("UPDATE timeline_state SET due_at = now() - interval '1 s'")
            let second = try #require(try await store.claim(lane: .interactive).first)
            for tid in [first.tid, second.tid, nil] {
                #expect(try await store.pool.query(SaveContentInPlace([write(first, at: tid)])).isEmpty)
                #expect(try await store.pool.query(CompleteTimelinesInPlace([completion(first, at: tid)])).isEmpty)
            }
            #expect(try await store.timeline(id)?.isLeased == true)
            #expect(try await store.timeline(id)?.content == nil)
        }
    }
}
