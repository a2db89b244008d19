// SPDX-License-Identifier: Apache-2.0

import JSON
import PostgresClient
import TestSupport
import Testing
import WidgetEvents
import WidgetModel

@testable import ReloadWorkers
@testable import WidgetStore

@Suite("Planning of suggestions", .serialized, .tags(.database), .timeLimit(.patience))
struct SuggestionPlanningTests {
    /// Declares Weather relevant for the next hour.
    private static func declare(_ worker: TestWorker) async throws {
        let now = Timestamp.now()
        let shortcut = RelevantShortcut(
            content: WidgetContent(app: TestKinds.app, kind: "Weather"), ranges: [now..<(now + .seconds(3_600))])
        try await worker.store.change(.shortcuts(device: nil, [shortcut]), at: now)
    }

    /// Places the widget of the planned suggestion.
    private static func place(_ worker: TestWorker, _ sent: StackSupport.Sent) async throws -> String {
        let events = try sent.events()
        guard case .widget(.placed(let placement))? = events.first?.change, events.count == 1 else {
            Issue.record("expected a placement, found \(events)")
            return ""
        }
        try await worker.store.place([placement])
        return placement.widget
    }

    @Test("F: a shortcut that applies already is on top as soon as its timeline is rendered, and not before")
    func rendered() async throws {
        try await StackSupport.withStack { worker, planning, sent in
            try await Self.declare(worker)
            try await planning.pass()
            let early = try #require(try sent.schedules().last ?? nil)
            #expect(early["rotations"]?.arrayValue?.count == 3)
            let from = try #require(early["suggestions"]?.arrayValue?.first?["from"]?.stringValue)
            let planned = try #require(early["plannedAt"]?.stringValue)
            let span = [planned, from].compactMap { Timestamp(rfc3339: Array($0.utf8)[...]) }
            #expect(span[0] + StackPlan.renderTime == span[1], "the suggestion waits for its timeline")
            let widget = try await Self.place(worker, sent)
            // Not rendered yet: the plan is due again before the suggestion would begin.
            try await worker.store.sql("UPDATE stack_schedule SET due_at = now()")
            try await planning.pass()
            let untilDue = "SELECT extract(epoch FROM due_at - now())::int FROM stack_schedule"
            #expect(try await worker.store.integer(untilDue) <= 150)
            _ = try sent.schedules()
            try await worker.drain()
            #expect(try await !planning.gather())
            #expect(try await planning.pass().count == 1)
            let shown = try #require(try sent.schedules().last ?? nil)
            let top = try #require(shown["rotations"]?.arrayValue?.dropFirst().first)
            #expect(top["widget"]?.stringValue == widget && top["from"] == shown["plannedAt"])
        }
    }

    @Test("F: the device is told at once that a suggestion is withdrawn, although no content changes")
    func withdrawn() async throws {
        try await StackSupport.withStack { worker, planning, sent in
            let app = try #require(try await worker.store.directory().apps[TestKinds.app])
            for device in ["d1", "d2"] {
                try await worker.store.sql(
                    """
                    INSERT INTO registration (app_id, user_id, device_id, channel, registered_at)
                    VALUES (\(app.id), 'u1', '\(device)', 2, now())
                    """)
            }
            try await Self.declare(worker)
            try await planning.pass()
            _ = try await Self.place(worker, sent)
            try await worker.drain()
            #expect(try await !planning.gather())
            try await planning.pass()
            try await worker.store.sql(
                """
                UPDATE registration SET listed_at = 'infinity', sent = changed, urgent = 0,
                    eligible_at = now() + interval '1 hour'
                """)
            try await worker.store.change(.shortcuts(device: nil, []), at: Timestamp.now())
            try await planning.pass()
            // As soon as the limits of pushes allow.
            let told = """
                SELECT count(*) FROM registration
                WHERE changed > sent AND listed_at BETWEEN eligible_at AND eligible_at + interval '1 s'
                """
            #expect(try await worker.store.integer(told) == 1)
            #expect(try await worker.store.integer("SELECT count(*) FROM delivery") == 1)
            // Another plan tells nothing.
            try await worker.store.sql("UPDATE stack_schedule SET due_at = now()")
            try await planning.pass()
            #expect(try await worker.store.integer("SELECT count(*) FROM delivery") == 1)
        }
    }

    @Test("F: the limit of suggestions applies to the device: neither a renamed stack nor another one has a new limit")
    func capOfDevice() async throws {
        try await StackSupport.withStack { worker, planning, sent in
            let app = try #require(try await worker.store.directory().apps[TestKinds.app])
            let begun = (1...5).map { BegunSuggestion(device: "d1", at: Timestamp.now() - .seconds(3_600 * $0)) }
            let old = BegunSuggestion(device: "d1", at: Timestamp.now() - .seconds(25 * 3_600))
            let other = BegunSuggestion(device: "d2", at: Timestamp.now())
            _ = try await worker.store.pool.query(
                .recordSuggestions((begun + [old, other]).map { ((app.id, "u1"), $0) }))
            #expect(try await worker.store.integer("SELECT cardinality(suggested) FROM person") == 6)
            // The sixth one begins.
            try await Self.declare(worker)
            try await planning.pass()
            _ = try await Self.place(worker, sent)
            try await worker.drain()
            #expect(try await !planning.gather())
            try await planning.pass()
            let sixth = try #require(try sent.schedules().last ?? nil)
            #expect(sixth["suggestions"]?.arrayValue?.count == 1)
            // It has been shown for a minute.
            let from = try #require(sixth["suggestions"]?.arrayValue?.first?["from"]?.stringValue)
            let minuteAgo = (Timestamp.now() - .seconds(60)).rfc3339
            try await worker.store.sql(
                "UPDATE stack_schedule SET schedule = replace(schedule, '\(from)', '\(minuteAgo)')")
            // The stack is renamed, and planned before anything of the old name is recorded.
            try await worker.store.change(.stack(StackSupport.arrangement([])), at: Timestamp.now())
            let renamed = StackArrangement(device: "d1", name: "new", widgets: ["w1", "w2"])
            try await worker.store.change(.stack(renamed), at: Timestamp.now())
            let key = StackPlan.Key(app: TestKinds.app, user: "u1", device: "d1", stack: "new")
            try await worker.store.want(key)
            try await worker.store.sql("UPDATE stack_schedule SET due_at = 'infinity' WHERE stack = 'home'")
            #expect(try await planning.pass().map(\.key.stack) == ["new"])
            let schedule = try #require(try sent.schedules().last ?? nil)
            #expect(schedule["suggestions"] == [] && schedule["suggestedAt"]?.arrayValue?.count == 6)
            // Also after the old suggestion has ended.
            try await worker.store.sql("UPDATE stack_schedule SET due_at = now()")
            #expect(try await planning.pass().count == 2)
            #expect(try await worker.store.integer("SELECT cardinality(suggested) FROM person") == 7)
            try await worker.store.sql("UPDATE stack_schedule SET due_at = now()")
            try await planning.pass()
            let last = try #require(try await worker.store.schedule(key)?.schedule)
            #expect(try JSONValue.parse(last)["suggestions"] == [])
        }
    }

    @Test("A stack takes the suggestions of a device from its first read to its last, before the stacks after it")
    func firstRead() async throws {
        try await StackSupport.withStack { worker, planning, sent in
            try await worker.store.place([.test("w3")])
            let first = StackArrangement(device: "d1", name: "first", widgets: ["w3"])
            try await worker.store.change(.stack(first), at: Timestamp.now())
            let from = Timestamp.now() + .seconds(7_200)
            let shortcut = RelevantShortcut(
                content: WidgetContent(app: TestKinds.app, kind: "Weather"), ranges: [from..<(from + .seconds(600))])
            try await worker.store.change(.shortcuts(device: nil, [shortcut]), at: Timestamp.now())
            func suggestions() throws -> [String?: Int?] {
                let schedules = try sent.schedules().compactMap { $0 }
                return Dictionary(
                    schedules.map { ($0["stack"]?.stringValue, $0["suggestions"]?.arrayValue?.count) }
                ) { $1 }
            }
            #expect(try await planning.pass().count == 1)
            #expect(try suggestions() == ["home": 1], "nobody reads the other stack")
            let key = StackPlan.Key(app: TestKinds.app, user: "u1", device: "d1", stack: "first")
            try await worker.store.want(key)
            #expect(try await planning.pass().count == 2)
            #expect(try suggestions() == ["first": 1, "home": 0])
            // A later read changes nothing.
            try await worker.store.want(key)
            #expect(try await planning.pass().isEmpty)
            // Once nobody reads it any more, the other stack takes them.
            try await worker.store.sql(
                """
                UPDATE stack_schedule SET read_at = now() - interval '8 days', due_at = now() WHERE stack = 'first'
                """)
            #expect(try await planning.pass().count == 1)
            #expect(try await planning.pass().count == 1)
            #expect(try suggestions()["home"] == 1)
        }
    }

    @Test(
        "E: a suggestion's widget whose score is 0 stays placed but is not shown, until its timeline has a higher one")
    func irrelevant() async throws {
        try await StackSupport.withStack { worker, planning, sent in
            let scores = StackSupport.Scores(["Weather": 0])
            worker.provider.respond { request in
                .timelines(zip(request.ids, request.kinds).map { id, kind in scores.timeline(id, kind) })
            }
            try await Self.declare(worker)
            try await planning.pass()
            let widget = try await Self.place(worker, sent)
            func replan() async throws -> JSONValue {
                try await worker.drain()
                #expect(try await !planning.gather())
                try await worker.store.sql("UPDATE stack_schedule SET due_at = now()")
                #expect(try await planning.pass().count == 1)
                #expect(try sent.events().isEmpty, "the widget stays")
                let stored = try #require(try await worker.store.schedule(StackSupport.key)?.schedule)
                return try JSONValue.parse(stored)
            }
            for _ in 0..<2 { #expect(try await replan()["suggestions"] == []) }
            // Its provider answers with a higher score.
            try await worker.store.sql(
                """
                UPDATE timeline SET content = replace(content, '"score":0', '"score":3'),
                    content_revision = content_revision + 1, revision = revision + 1
                WHERE content LIKE '%"score":0%'
                """)
            let shown = try await replan()
            #expect(shown["suggestions"]?.arrayValue?.map { $0["widget"]?.stringValue } == [widget])
            #expect(shown["rotations"]?.arrayValue?.last?["widget"]?.stringValue != widget, "it ends in an hour")
        }
    }
}
