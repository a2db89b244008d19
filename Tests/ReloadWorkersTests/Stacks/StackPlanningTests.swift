// SPDX-License-Identifier: Apache-2.0

import JSON
import KafkaClient
import PostgresClient
import Synchronization
import TestSupport
import Testing
import WidgetEvents
import WidgetModel

@testable import ReloadWorkers
@testable import WidgetStore

@Suite("Planning of stacks", .serialized, .tags(.database), .timeLimit(.patience))
struct StackPlanningTests {
    private static let hour = Duration.seconds(3_600)

    @Test("A stack is planned and published when it is first read, and then unchanged")
    func once() async throws {
        try await StackSupport.withStack { worker, planning, sent in
            #expect(try await planning.pass().count == 1)
            let schedules = try sent.schedules()
            let schedule = try #require(schedules.first ?? nil)
            #expect(schedules.count == 1 && schedule["rotations"]?.arrayValue?.count == 1)
            #expect(schedule["rotations"]?.arrayValue?[0]["widget"] == "w1")
            let stored = try #require(try await worker.store.schedule(StackSupport.key))
            #expect(schedule["revision"] == .count(stored.revision) && stored.revision > 0)
            #expect(try await planning.pass().count == 0)
            #expect(try await worker.store.integer("SELECT count(*) FROM stack_schedule WHERE published") == 1)
        }
    }

    @Test("A change of the person causes a new plan, which is published only if the schedule differs")
    func changes() async throws {
        try await StackSupport.withStack { worker, planning, sent in
            try await planning.pass()
            _ = try sent.schedules()
            let now = Timestamp.now()
            try await worker.store.change(.stack(StackSupport.arrangement(["w1", "w2"])), at: now)
            #expect(try await planning.pass().count == 0)
            try await worker.store.sql("UPDATE stack_schedule SET due_at = now()")
            #expect(try await planning.pass().count == 1)
            #expect(try sent.schedules().isEmpty)
            // The person has left another widget on top.
            try await worker.store.change(.stack(StackSupport.arrangement(["w2", "w1"])), at: now)
            #expect(try await planning.pass().count == 1)
            let arranged = try #require(try sent.schedules().first ?? nil)
            #expect(arranged["rotations"]?.arrayValue?.last?["widget"] == "w2")
            #expect(arranged["rotations"]?.arrayValue?.last?["reason"]?["type"] == "leftOnTop")
            try await worker.store.change(.turned(device: "d1", stack: "home", widget: "w1"), at: Timestamp.now())
            #expect(try await planning.pass().count == 1)
            let schedule = try #require(try sent.schedules().first ?? nil)
            #expect(schedule["rotations"]?.arrayValue?.last?["widget"] == "w1")
            #expect(schedule["rotations"]?.arrayValue?.last?["reason"]?["type"] == "person")
        }
    }

    @Test("A stored timeline with relevance turns the stack; one without keeps the earlier score")
    func relevance() async throws {
        try await StackSupport.withStack { worker, planning, sent in
            let scores = StackSupport.Scores(["Purchases": 1, "DueDate": 0])
            worker.provider.respond { request in
                .timelines(zip(request.ids, request.kinds).map { id, kind in scores.timeline(id, kind) })
            }
            try await worker.drain()
            try await planning.pass()
            let first = try #require(try sent.schedules().first ?? nil)
            #expect(first["rotations"]?.arrayValue?.last?["widget"] == "w1")

            func reload(_ kind: String, _ score: Int?) async throws {
                scores.set(kind, score)
                try await worker.store.markUser("u1", kind: kind)
                try await worker.drain()
                #expect(try await !planning.gather())
                #expect(try await planning.pass().count == 1)
            }
            try await reload("DueDate", 7)
            try await reload("Purchases", 0)
            let turned = try #require(try sent.schedules().last ?? nil)
            #expect(turned["rotations"]?.arrayValue?.last?["widget"] == "w2")
            #expect(turned["rotations"]?.arrayValue?.last?["reason"]?["score"] == 7)
            try await reload("DueDate", nil)
            #expect(try sent.schedules().isEmpty)
        }
    }

    @Test("The first content of a planned timeline turns the stack; the first plan is soon repeated")
    func firstContent() async throws {
        try await StackSupport.withStack { worker, planning, sent in
            let scores = StackSupport.Scores(["Purchases": 0, "DueDate": 7])
            worker.provider.respond { request in
                .timelines(zip(request.ids, request.kinds).map { id, kind in scores.timeline(id, kind) })
            }
            let untilDue = "SELECT extract(epoch FROM due_at - now())::int FROM stack_schedule"
            #expect(try await planning.pass().count == 1)
            #expect((30...60).contains(try await worker.store.integer(untilDue)))
            try await worker.store.sql("UPDATE stack_schedule SET due_at = now()")
            #expect(try await planning.pass().count == 1)
            #expect((21_500...21_600).contains(try await worker.store.integer(untilDue)))
            let first = try #require(try sent.schedules().first ?? nil)
            #expect(first["rotations"]?.arrayValue?.last?["widget"] == "w1")
            try await worker.drain()
            #expect(try await !planning.gather())
            #expect(try await planning.pass().count == 1)
            let turned = try #require(try sent.schedules().last ?? nil)
            #expect(turned["rotations"]?.arrayValue?.last?["widget"] == "w2")
        }
    }

    @Test("A plan is not stored if its user was erased meanwhile")
    func erased() async throws {
        try await StackSupport.withStack { worker, _, _ in
            let claim = Statements.claimSchedules(
                limit: 1, lease: StackPlanning.lease, unread: StackPlanning.patience)
            let due = try #require(try await worker.store.pool.query(claim).first)
            _ = try await worker.store.store.erase(user: "u1", of: TestKinds.app)
            let write = ScheduleWrite(
                schedule: due, changed: "{}", plannedAt: due.claimedAt, nextLook: due.leaseEnds)
            #expect(try await worker.store.pool.query(.writeSchedules([write])).isEmpty)
            #expect(try #require(try await worker.store.schedule(StackSupport.key)).schedule == nil)
        }
    }

    @Test("Changes of an app with registered devices are recorded; unchanged content and other apps' changes are not")
    func notes() async throws {
        try await withWorker { worker in
            try await worker.store.place([.test("w1"), .test("w2", kind: "Weather")])
            try await worker.drain()
            #expect(try await worker.store.integer("SELECT count(*) FROM delivery_change") == 0)
            try await worker.store.sql("UPDATE app SET delivers = true WHERE name = '\(TestKinds.app)'")
            try await worker.store.markUser("u1", kind: "Purchases")
            try await worker.drain()
            #expect(try await worker.store.integer("SELECT count(*) FROM delivery_change") == 0)
            worker.provider.respond { request in
                .timelines(request.ids.map { .stubTimeline($0, content: ["n": .string(String.randomID())]) })
            }
            try await worker.store.markUser("u1", kind: "Purchases")
            try await worker.drain()
            #expect(try await worker.store.integer("SELECT sum(cardinality(timelines)) FROM delivery_change") == 1)
        }
    }

    @Test("A schedule that Kafka refuses is published by a later turn")
    func unpublished() async throws {
        try await StackSupport.withStack { worker, planning, _ in
            worker.publisher.respond { _ in .testTimeout }
            try await planning.pass()
            let revision = try #require(try await worker.store.schedule(StackSupport.key)).revision
            #expect(try await planning.pass().count == 0)
            let sent = StackSupport.Sent(worker.publisher)
            try await worker.store.sql("UPDATE stack_schedule SET leased_until = now()")
            #expect(try await planning.pass().count == 1)
            let schedule = try #require(try sent.schedules().first ?? nil)
            #expect(schedule["revision"] == .count(revision))
            #expect(try await worker.store.integer("SELECT count(*) FROM stack_schedule WHERE published") == 1)
        }
    }

    /// A planned stack, and the suggestion of a widget for a range of time.
    private func withSuggestions(
        _ body: (
            _ worker: TestWorker, _ planning: StackPlanning, _ sent: StackSupport.Sent,
            _ declare: (Range<Timestamp>?) async throws -> Void
        ) async throws -> Void
    ) async throws {
        try await StackSupport.withStack { worker, planning, sent in
            #expect(try await planning.pass().count == 1)
            #expect(try sent.schedules().count == 1)
            try await body(worker, planning, sent) { range in
                let content = WidgetContent(app: TestKinds.app, kind: "Weather")
                let shortcuts = range.map { [RelevantShortcut(content: content, ranges: [$0])] } ?? []
                try await worker.store.change(.shortcuts(device: nil, shortcuts), at: Timestamp.now())
                #expect(try await planning.pass().count == 1)
            }
        }
    }

    @Test("The widget of a suggestion in two hours is not placed yet; its plan is due shortly before")
    func earlySuggestion() async throws {
        try await withSuggestions { worker, _, sent, declare in
            let now = Timestamp.now()
            try await declare((now + Self.hour * 2)..<(now + Self.hour * 3))
            #expect(try sent.events().isEmpty)
            let dueAt = try await worker.store.integer(
                "SELECT extract(epoch FROM due_at - now())::int FROM stack_schedule")
            #expect((6_200...6_300).contains(dueAt), "the schedule is due a quarter of an hour before")
        }
    }

    @Test("A suggestion's widget is placed before its time and removed afterwards; the stack is unchanged")
    func suggestion() async throws {
        try await withSuggestions { worker, planning, sent, declare in
            let now = Timestamp.now()
            try await declare((now + Self.hour * 2)..<(now + Self.hour * 3))
            let early = try #require(try sent.schedules().first ?? nil)
            let widget = try #require(early["suggestions"]?.arrayValue?.first?["widget"]?.stringValue)
            try await declare(now..<(now + Self.hour))
            let placed = try sent.events()
            guard case .widget(.placed(let placement))? = placed.first?.change, placed.count == 1 else {
                Issue.record("expected a placement, found \(placed)")
                return
            }
            #expect(placement.widget == widget && placement.kind == "Weather" && placement.device == "d1")
            try await worker.store.place([placement])
            try await worker.drain()
            #expect(try await !planning.gather())
            #expect(try await planning.pass().count == 1)
            try await declare(nil)
            #expect(try sent.events() == [.removed(app: TestKinds.app, widget: widget)])
            let last = try #require(try sent.schedules().last ?? nil)
            #expect(last["suggestions"]?.arrayValue?.map { $0["until"] } == [last["plannedAt"]])
            #expect(last["rotations"]?.arrayValue?.last?["widget"] == "w1")
        }
    }

    @Test("An app has at most six suggestions a day, except in developer mode", arguments: [false, true])
    func cap(developerMode: Bool) async throws {
        try await StackSupport.withStack(developerMode: developerMode) { worker, planning, sent in
            let now = Timestamp.now()
            let content = WidgetContent(app: TestKinds.app, kind: "Weather")
            let ranges = (1...8).map { number -> Range<Timestamp> in
                let from = now + Self.hour * number
                return from..<(from + .seconds(600))
            }
            try await worker.store.change(
                .shortcuts(device: nil, [RelevantShortcut(content: content, ranges: ranges)]), at: now)
            try await planning.pass()
            let schedule = try #require(try sent.schedules().first ?? nil)
            #expect(schedule["suggestions"]?.arrayValue?.count == (developerMode ? 8 : 6))
        }
    }

    @Test("F: an app's many shortcuts and suggestions do not displace another app's suggestion on the same device")
    func otherApp() async throws {
        try await StackSupport.withStack { worker, planning, sent in
            let tasks = KindDefinition(
                name: "Tasks", families: WidgetFamily.allCases, providerURL: "http://127.0.0.1:1/tasks",
                placeholder: .object(JSONObject()))
            var other = try #require(TestKinds.apps().last)
            other.kinds.append(tasks)
            _ = try await worker.store.store.apply([other], secrets: [:]) { Array(repeating: 7, count: 32) }
            try await worker.store.place([.test("w1", app: other.name)])
            let key = StackPlan.Key(app: other.name, user: "u1", device: "d1", stack: "home")
            let now = Timestamp.now()
            // The one app has had all of its suggestions, and wants more at any time.
            let spam = (0..<50).map { number in
                let from = now + .seconds(3_000 + 60 * number)
                return RelevantShortcut(
                    content: WidgetContent(app: TestKinds.app, kind: "Weather"), ranges: [from..<(from + .seconds(50))])
            }
            try await worker.store.change(.shortcuts(device: nil, spam), at: now)
            let app = try #require(try await worker.store.directory().apps[TestKinds.app])
            let begun = (1...6).map { BegunSuggestion(device: "d1", at: now - .seconds(600 * $0)) }
            _ = try await worker.store.pool.query(.recordSuggestions(begun.map { ((app.id, "u1"), $0) }))
            let task = RelevantShortcut(
                content: WidgetContent(app: other.name, kind: "Tasks"),
                ranges: [(now + Self.hour)..<(now + Self.hour * 2)])
            for change in [
                PersonChange.stack(StackSupport.arrangement(["w1"])), .shortcuts(device: nil, [task]),
            ] {
                try await worker.store.change(change, at: now, app: other.name)
            }
            try await worker.store.want(key)
            #expect(try await planning.pass().count == 2)
            let schedules = try sent.schedules().compactMap { $0 }
            let own = try #require(schedules.first { $0["app"]?.stringValue == TestKinds.app })
            #expect(own["suggestions"] == [] && own["suggestedAt"]?.arrayValue?.count == 6)
            let others = try #require(schedules.first { $0["app"]?.stringValue == other.name })
            #expect(others["suggestions"]?.arrayValue?.map { $0["kind"] } == ["Tasks"])
            #expect(others["suggestions"]?.arrayValue?.map { $0["from"] } == [.time(now + Self.hour)])
            #expect(others["suggestedAt"] == [])
        }
    }

    @Test("A damaged person is counted, planned after its repair, and does not stop other people's plans")
    func damaged() async throws {
        try await StackSupport.withStack { worker, planning, sent in
            let other = StackPlan.Key(app: TestKinds.app, user: "u2", device: "d2", stack: "home")
            try await worker.store.place([.test("w3", user: "u2", device: "d2")])
            let stack = StackArrangement(device: "d2", name: "home", widgets: ["w3"])
            try await worker.store.change(.stack(stack), at: Timestamp(microseconds: 1), user: "u2")
            try await worker.store.want(other)
            try await worker.store.sql(
                "UPDATE person SET habits = '\\x09', arrangement = '[' || arrangement WHERE user_id = 'u1'")
            #expect(try await planning.pass().count == 2)
            let schedules = try sent.schedules().compactMap { $0 }
            #expect(schedules.map { $0["user"] } == ["u2"])
            #expect(worker.metrics.stacksUnreadable.total() == 1)
            let isLeased = "SELECT count(*) FROM stack_schedule WHERE user_id = 'u1' AND leased_until > now()"
            #expect(try await worker.store.integer(isLeased) == 1)
            try await worker.store.sql(
                "UPDATE person SET habits = NULL, arrangement = substr(arrangement, 2) WHERE user_id = 'u1'")
            try await worker.store.sql("UPDATE stack_schedule SET leased_until = now() WHERE user_id = 'u1'")
            #expect(try await planning.pass().count == 1)
            #expect(try sent.schedules().compactMap { $0?["user"] } == ["u1"])
        }
    }

    @Test("A timeline's damaged relevance counts as none, and does not stop plans")
    func damagedRelevance() async throws {
        try await StackSupport.withStack { worker, planning, sent in
            try await worker.drain()
            try await planning.pass()
            _ = try sent.schedules()
            try await worker.store.sql("UPDATE relevance SET history = '\\x09', points = '\\x01'")
            try await worker.store.change(
                .turned(device: "d1", stack: "home", widget: "w2"), at: Timestamp.now())
            #expect(try await planning.pass().count == 1)
            #expect(try sent.schedules().count == 1)
        }
    }

    @Test(
        "A stack that is removed or not read, or whose person is erased, ends with a tombstone",
        arguments: ["removed", "erased", "unread"])
    func end(how: String) async throws {
        try await StackSupport.withStack { worker, planning, sent in
            try await worker.drain()
            try await planning.pass()
            _ = try sent.schedules()
            #expect(try await worker.store.integer("SELECT count(*) FROM relevance") == 2)
            switch how {
            case "removed": try await worker.store.change(.stack(StackSupport.arrangement([])), at: Timestamp.now())
            case "erased":
                _ = try await worker.store.store.erase(user: "u1", of: TestKinds.app)
                #expect(try await worker.store.integer("SELECT count(*) FROM person") == 0)
                #expect(try await worker.store.schedule(StackSupport.key)?.schedule == nil)
            default:
                try await worker.store.sql(
                    "UPDATE stack_schedule SET read_at = now() - interval '8 days', due_at = now()")
            }
            #expect(try await planning.pass().count == 1)
            #expect(try sent.schedules() == [nil])
            #expect(try await worker.store.integer("SELECT count(*) FROM stack_schedule") == 0)
            #expect(try await worker.store.integer("SELECT count(*) FROM stack_timeline") == 0)
        }
    }
}
