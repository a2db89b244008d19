// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@Suite("Storing content and ending looks", .timeLimit(.patience))
struct StoreTests {
    @Test("A store satisfies the captured requests and appoints the policy's time")
    func stored() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            let list = try #require(try await store.claim(.interactive).first)
            let tomorrow = try await store.now() + .seconds(7_200)
            let rows = try await store.complete(list, content: #"{"entries":[]}"#, policyAt: tomorrow)
            #expect(rows.map(\.nextLook) == [tomorrow] && rows[0].contentRevision == list.lease)
            #expect(rows[0].rendered == 1 && !rows[0].isDue)
            let timeline = try #require(try await store.timeline(id))
            #expect(!timeline.isStale && timeline.revision == list.lease)
            #expect(timeline.content.map { String(decoding: $0, as: UTF8.self) } == #"{"entries":[]}"#)
            #expect(timeline.lane == .scheduled && timeline.timeline.listedAt == tomorrow)
            #expect(try await store.lists("due_at > now() AND lane = 2") == 1)
            #expect(try await store.unappointed() == 0)
        }
    }

    @Test("A mark during the fetch causes one more reload")
    func markedMeanwhile() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            let first = try #require(try await store.claim(.interactive).first)
            let mark = try await store.apply([try await store.mark(.user, "u1", events: 3)])
            #expect(mark.marked == 1 && mark.due == 0, "the leased list covers the request")
            #expect(try await store.complete(first).map(\.isDue) == [true])
            try await store.end(first)
            #expect(try await store.timeline(id)?.isStale == true)

            let second = try #require(try await store.claim(.push).first)
            #expect(second.timelines.map(\.state.requested) == [4])
        }
    }

    @Test("Unchanged content keeps its revision, and its timeline has no next look")
    func unchanged() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            let first = try #require(try await store.claim(.interactive).first)
            try await store.complete(first)
            try await store.end(first)
            try await store.apply([try await store.mark(.user, "u1")])
            let second = try #require(try await store.claim(.push).first)
            #expect(try await store.complete(second, content: nil).map(\.nextLook) == [nil])
            try await store.end(second)
            let timeline = try #require(try await store.timeline(id))
            #expect(!timeline.isStale && timeline.revision == first.lease)
            #expect(timeline.timeline.revision == second.lease)
            #expect(try await store.lists() == 0)
            #expect(try await store.unappointed() == 0)
        }
    }

    @Test("Rows of a list whose lease is lost are dropped")
    func leaseLost() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            let first = try #require(try await store.claim(.interactive, lease: .zero).first)
            let second = try #require(try await store.claim(.interactive).first)
            #expect(try await store.complete(first, content: "late").isEmpty)
            #expect(try await store.fail(first, retryAt: .distantFuture).isEmpty)
            #expect(try await store.timeline(id)?.content == nil)
            #expect(try await store.complete(second).count == 1)
        }
    }

    @Test("A row stored since the claim is not overwritten")
    func revisionMoved() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            let kind = try await store.kind()
            let first = try #require(try await store.claim(.interactive).first)
            // Another holder stores the same timeline through a sweep's list.
            try await store.sql("UPDATE kind SET generation = 1 WHERE id = \(kind.id)")
            try await store.sql(
                """
                INSERT INTO work (kind_id, lane, due_at, ready_at, generation, timelines)
                SELECT kind_id, 3, now(), now(), 1, ARRAY[id] FROM timeline
                """)
            let second = try #require(try await store.claim(.bulk).first)
            #expect(second.generation == 1 && second.timelines.count == 1)
            #expect(try await store.complete(second, content: "two", hash: 2).count == 1)
            #expect(try await store.complete(first, content: "one").isEmpty)
            #expect(try await store.fail(first, retryAt: .distantFuture).isEmpty, "failures are dropped, too")
            #expect(try await store.timeline(id)?.content.map { String(decoding: $0, as: UTF8.self) } == "two")
            let again = try await store.pool.query(.readTimelinesAgain(first.timelines.map(\.row)))
            #expect(again.map(\.revision) == [second.lease])
        }
    }

    @Test("A store that knows less of the kind than a look through a reload of everyone appoints a look at once")
    func staleKind() async throws {
        try await withStore { store in
            try await store.place([.test("w1", user: "u1"), .test("w2", user: "u2")])
            let kind = try await store.kind()
            let list = try #require(try await store.claim(.interactive).first)
            let rows = list.timelines.map(\.row).sorted()
            try #require(rows.count == 2)
            let later = try await store.now() + .seconds(3_600)
            let stored = try await store.pool.withTransaction { holder in
                try await holder.simple("SELECT 1 FROM timeline WHERE id = \(rows[0]) FOR UPDATE")
                // It locks in id order, so the second row is still free.
                let late = Task { try await store.complete(list, eligibleAt: later) }
                try await store.waitUntilBlocked()
                try await store.sql(
                    """
                    UPDATE kind SET generation = 1 WHERE id = \(kind.id);
                    INSERT INTO work (kind_id, lane, due_at, ready_at, generation, timelines)
                    VALUES (\(kind.id), 3, now(), now(), 1, ARRAY[\(rows[1])])
                    """)
                let sweep = try #require(try await store.claim(.bulk).first)
                try await store.finish(sweep, .nothing)
                try await store.end(sweep)
                return late
            }.value
            #expect(stored.count == 2)
            #expect(stored.filter(\.isDue).map(\.row) == [rows[1]], "nothing else would look at it")
        }
    }

    @Test("A look without work ends the appointment; a deferral makes a later one")
    func settled() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            let first = try #require(try await store.claim(.interactive).first)
            _ = try await store.complete(first)
            try await store.end(first)
            try await store.apply([try await store.mark(.user, "u1")])
            let list = try #require(try await store.claim(.push).first)
            let later = try await store.now() + .seconds(900)
            let rows = try await store.finish(list, .wait(until: later, rule: .spacing))
            #expect(rows.map(\.nextLook) == [later] && !rows[0].isDue)
            let timeline = try #require(try await store.timeline(id))
            #expect(timeline.decision == .deferred && timeline.timeline.state.eligibleAt == later)
            try await store.end(list)
            #expect(try await store.lists("due_at > now()") == 1)
            // A free request does not wait.
            #expect(try await store.apply([try await store.mark(.user, "u1", urgency: .free)]).due == 1)
            let now = try #require(try await store.claim(.push).first)
            _ = try await store.complete(now)
            try await store.end(now)
            // The earlier list is superseded: its claim returns no row.
            try await store.sql("UPDATE work SET ready_at = now()")
            #expect(try await store.claim(.push).map(\.timelines.count) == [0])
            #expect(try await store.unappointed() == 0)
        }
    }

    @Test("A failure is counted, and no request shortens its back-off")
    func failed() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            let list = try #require(try await store.claim(.interactive).first)
            let retryAt = try await store.now() + .seconds(60)
            #expect(
                try await store.fail(list, retryAt: retryAt).map(\.nextLook) == [retryAt])
            try await store.end(list)
            #expect(try await store.timeline(id)?.attempts == 1)
            #expect(try await store.apply([try await store.mark(.user, "u1", urgency: .forced)]).due == 0)
            #expect(try await store.timeline(id)?.timeline.listedAt == retryAt)
            #expect(try await store.unappointed() == 0)
        }
    }

    @Test("A timeline sleeps only without a request, view or placement since the decision")
    func asleep() async throws {
        for change in ["nothing", "mark", "view", "placement"] {
            let lane = change == "placement" ? ReloadLane.interactive : .scheduled
            try await withStore { store in
                let id = try await store.place([.test("w1")])[0]
                try await store.settle()
                try await store.sql(
                    """
                    UPDATE timeline SET policy_at = now(), listed_at = now(), listed_lane = \(lane.rawValue),
                        placed_at = now() - interval '2 hours';
                    INSERT INTO work (kind_id, lane, due_at, ready_at, timelines)
                    SELECT kind_id, listed_lane, listed_at, listed_at, ARRAY[id] FROM timeline
                    """)
                let list = try #require(try await store.claim(lane).first)
                #expect(list.timelines.count == 1)
                switch change {
                case "mark": try await store.apply([try await store.mark(.user, "u1")])
                case "view": try await store.view("w1", at: [try await store.now()])
                case "placement": try await store.place([.test("w9")])
                default: break
                }
                let rows = try await store.finish(list, .sleep)
                try await store.end(list)
                // A mark has made a new appointment: the look ends nothing.
                #expect(rows.map(\.isAsleep) == (change == "mark" ? [] : [change == "nothing"]), "\(change)")
                #expect(rows.map(\.isDue) == (change == "mark" ? [] : [change != "nothing"]), "\(change)")
                #expect(try await store.claimAll().flatMap(\.timelines).count == (change == "nothing" ? 0 : 1))
                #expect(try await store.unappointed() == 0)
                if change == "nothing" {
                    #expect(try await store.lists() == 0)
                    // A view wakes the timeline, whose policy is due at once.
                    #expect(try await store.view("w1", at: [try await store.now()]).due == 1)
                    #expect(try await store.timeline(id)?.timeline.state.isAsleep == false)
                }
            }
        }
    }

    @Test("A failure that waited for the row leaves an appointment alone that was made meanwhile and is due")
    func laterAppointment() async throws {
        try await withStore { store in
            _ = try await store.place([.test("w1")])
            let list = try #require(try await store.claim(.interactive).first)
            let (failing, listedAt) = try await store.pool.withTransaction { connection in
                try await connection.simple("SELECT 1 FROM timeline FOR UPDATE")
                let failing = Task { try await store.fail(list, retryAt: try await store.now()) }
                try await store.waitUntilBlocked()
                // As the end of another look may do. The failure's transaction is older.
                try await connection.simple("UPDATE timeline SET listed_at = clock_timestamp(), listed_lane = 0")
                return (failing, try await connection.query(ListedAt()).first)
            }
            #expect(try await failing.value.map(\.nextLook) == [listedAt])
            #expect(try await store.lists() == 1)
        }
    }

    @Test("A look through a sweep's list only improves the appointment")
    func swept() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            try await store.settle()
            let kind = try await store.kind()
            _ = try await store.pool.query(.bumpKinds([EveryoneReload(appID: kind.appID, kindID: kind.id)]))
            let sweep = try #require(try await store.pool.query(.listSweeps(limit: 1, maximumLists: 100)).first)
            _ = try await store.pool.query(.walkKind(sweep.id, limit: 10, maximumLists: 10))
            let list = try #require(try await store.claim(.bulk).first)
            let later = try await store.now() + .seconds(600)
            #expect(try await store.finish(list, .wait(until: later, rule: .spacing)).map(\.nextLook) == [later])
            try await store.end(list)
            #expect(try await store.timeline(id)?.timeline.listedAt == later)
            #expect(try await store.unappointed() == 0)
        }
    }

    @Test("The comparison returns stored content that differs from the last message")
    func compared() async throws {
        try await withStore { store in
            try await store.place([.test("w1")])
            let list = try #require(try await store.claim(.interactive).first)
            _ = try await store.complete(list, content: "x")
            let row = list.timelines[0].row
            func compare(_ revision: Int64) async throws -> [Int64] {
                let published = [(row: row, revision: revision)]
                return try await store.pool.query(.comparePublished(published)).compactMap {
                    $0.timeline?.contentRevision
                }
            }
            #expect(try await compare(list.lease).isEmpty)
            #expect(try await compare(list.lease - 1) == [list.lease])
            let gone = try await store.pool.query(Statements.comparePublished([(row: 999, revision: 1)]))
            #expect(gone.count == 1 && gone[0].row == 999 && gone[0].timeline == nil)
        }
    }
}
