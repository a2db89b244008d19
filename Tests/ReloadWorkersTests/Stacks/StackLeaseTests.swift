// SPDX-License-Identifier: Apache-2.0

import JSON
import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

@Suite("Concurrent planners of stacks", .serialized, .tags(.database), .timeLimit(.patience))
struct StackLeaseTests {
    private static func claim(_ worker: TestWorker, limit: Int = 1) async throws -> [DueSchedule] {
        try await worker.store.pool.query(
            .claimSchedules(limit: limit, lease: StackPlanning.lease, unread: StackPlanning.patience))
    }

    private static func turn(_ worker: TestWorker, to widget: String) async throws {
        try await worker.store.change(.turned(device: "d1", stack: "home", widget: widget), at: Timestamp.now())
    }

    @Test("A change during the publishing of a plan is planned after the acknowledgement")
    func changedMeanwhile() async throws {
        try await StackSupport.withStack { worker, planning, sent in
            let due = try #require(try await Self.claim(worker).first)
            try await Self.turn(worker, to: "w2")
            #expect(try await Self.claim(worker).isEmpty, "the lease is valid")
            let write = ScheduleWrite(
                schedule: due, changed: "{}", plannedAt: due.claimedAt, nextLook: .distantFuture)
            let row = try #require(try await worker.store.pool.query(.writeSchedules([write])).first)
            #expect(!row.isPublished)
            #expect(try await Self.claim(worker).isEmpty, "the plan is not acknowledged yet")
            _ = try await worker.store.pool.query(.recordPublished([(due.id, row.revision, due.leaseEnds)]))
            #expect(try await planning.pass().count == 1)
            let schedule = try #require(try sent.schedules().last ?? nil)
            #expect(schedule["rotations"]?.arrayValue?.last?["widget"] == "w2")
        }
    }

    @Test("A donation during the publishing of a plan is planned within half a minute, too")
    func donatedMeanwhile() async throws {
        try await StackSupport.withStack { worker, planning, _ in
            worker.publisher.respond { _ in .testTimeout }
            try await planning.pass()
            let app = try #require(try await worker.store.directory().apps[TestKinds.app])
            let write = PersonWrite(appID: app.id, user: "u1", habits: Habits().encoded, planning: .soon)
            _ = try await worker.store.pool.query(.writePeople([write]))
            let untilDue = "SELECT extract(epoch FROM due_at - now())::int FROM stack_schedule"
            #expect(try await worker.store.integer(untilDue) <= 30)
        }
    }

    @Test("A schedule that is due already is not planned before a change of its person is committed")
    func changedWhileDue() async throws {
        try await StackSupport.withStack { worker, _, _ in
            let app = try #require(try await worker.store.directory().apps[TestKinds.app])
            let write = PersonWrite(appID: app.id, user: "u1", habits: Habits().encoded, planning: .now)
            try await worker.store.pool.withTransaction { connection in
                _ = try await connection.query(.writePeople([write]))
                #expect(try await Self.claim(worker).isEmpty)
            }
            #expect(try await Self.claim(worker).count == 1)
        }
    }

    @Test("A message sent after the planner's lease has expired is followed by the newest plan")
    func late() async throws {
        try await StackSupport.withStack { worker, planning, sent in
            let due = try #require(try await Self.claim(worker).first)
            let write = ScheduleWrite(
                schedule: due, changed: "{}", plannedAt: due.claimedAt, nextLook: .distantFuture)
            let row = try #require(try await worker.store.pool.query(.writeSchedules([write])).first)
            try await worker.store.sql("UPDATE stack_schedule SET leased_until = now()")
            try await Self.turn(worker, to: "w2")
            #expect(try await planning.pass().count == 1)
            #expect(try sent.schedules().count == 1)
            // Now the first planner's message is acknowledged.
            _ = try await worker.store.pool.query(.recordPublished([(due.id, row.revision, due.leaseEnds)]))
            #expect(try await worker.store.pool.query(.writeSchedules([write])).isEmpty)
            #expect(try await planning.pass().count == 1)
            let schedule = try #require(try sent.schedules().last ?? nil)
            let stored = try #require(try await worker.store.schedule(StackSupport.key))
            #expect(schedule["revision"] == .count(stored.revision) && stored.revision > row.revision)
            #expect(try await planning.pass().isEmpty)
        }
    }

    @Test("A stack that is removed, and arranged again while its tombstone is published, exists in the end")
    func backAgain() async throws {
        try await StackSupport.withStack { worker, planning, sent in
            try await planning.pass()
            try await worker.store.change(.stack(StackSupport.arrangement([])), at: Timestamp.now())
            let due = try #require(try await Self.claim(worker).first)
            let write = ScheduleWrite(
                schedule: due, changed: nil, ends: true, plannedAt: due.claimedAt, nextLook: .distantFuture)
            let row = try #require(try await worker.store.pool.query(.writeSchedules([write])).first)
            try await worker.store.change(.stack(StackSupport.arrangement()), at: Timestamp.now())
            _ = try await worker.store.pool.query(.recordPublished([(due.id, row.revision, due.leaseEnds)]))
            _ = try await worker.store.pool.query(.deleteSchedules([due.id]))
            _ = try sent.schedules()
            #expect(try await planning.pass().count == 1)
            let schedule = try #require(try sent.schedules().last ?? nil)
            #expect(schedule["rotations"]?.arrayValue?.last?["widget"] == "w1")
            #expect(try await worker.store.schedule(StackSupport.key)?.schedule != nil)
        }
    }

    @Test("An app with many due stacks does not delay another app's stack")
    func fairness() async throws {
        try await StackSupport.withStack { worker, _, _ in
            for number in 0..<20 {
                try await worker.store.want(
                    StackPlan.Key(app: TestKinds.app, user: "u\(number)", device: "d", stack: "home"))
            }
            try await worker.store.sql("UPDATE stack_schedule SET due_at = now() - interval '1 hour'")
            let other = StackPlan.Key(app: TestKinds.otherApp, user: "u1", device: "d1", stack: "home")
            try await worker.store.want(other)
            let claimed = try await Self.claim(worker, limit: 4)
            #expect(claimed.filter { $0.key.app == TestKinds.app }.count == 2)
            #expect(claimed.filter { $0.key == other }.count == 1)
            #expect(try await Self.claim(worker, limit: 4).count == 4)
        }
    }

    @Test("A timeline in many stacks makes them due in bounded chunks")
    func parts() async throws {
        try await StackSupport.withStack { worker, planning, _ in
            let users = (0..<25).map { "v\($0)" }
            try await worker.store.place(
                users.map { .test("w-\($0)", user: $0, device: "d", kind: "Weather") }
                    + [.test("w-other", user: "other", device: "d")])
            for user in users + ["other"] {
                let stack = StackArrangement(device: "d", name: "home", widgets: ["w-\(user)"])
                try await worker.store.change(.stack(stack), at: Timestamp(microseconds: 1), user: user)
                try await worker.store.want(StackPlan.Key(app: TestKinds.app, user: user, device: "d", stack: "home"))
            }
            #expect(try await planning.pass().count == 27)
            #expect(try await worker.store.integer("SELECT count(*) FROM stack_timeline") == 28)
            try await worker.store.sql("UPDATE stack_schedule SET due_at = 'infinity'")
            try await worker.store.sql(
                """
                INSERT INTO relevance_change (timeline_id)
                SELECT DISTINCT w.timeline_id FROM widget w WHERE w.id IN ('w-v0', 'w1') ORDER BY 1
                """)
            let due = "SELECT count(*) FROM stack_schedule WHERE due_at <= now()"
            var counts: [Int] = []
            var isLeft = true
            while isLeft, counts.count < 9 {
                isLeft = try await worker.store.store.gatherRelevanceChanges(limit: 10, schedules: 10)
                counts.append(try await worker.store.integer(due))
            }
            #expect(counts == [10, 20, 26])
            #expect(try await worker.store.integer("SELECT count(*) FROM relevance_change") == 0)
        }
    }

    @Test("A repeated set of shortcuts causes no plan")
    func sameSet() async throws {
        try await StackSupport.withStack { worker, planning, _ in
            let shortcut = RelevantShortcut(content: WidgetContent(app: TestKinds.app, kind: "Weather"))
            try await worker.store.change(.shortcuts(device: nil, [shortcut]), at: Timestamp.now())
            #expect(try await planning.pass().count == 1)
            try await worker.store.change(.shortcuts(device: nil, [shortcut]), at: Timestamp.now())
            try await worker.store.change(.stack(StackSupport.arrangement()), at: Timestamp.now())
            #expect(try await planning.pass().isEmpty)
        }
    }
}
