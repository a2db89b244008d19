// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import JSON
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import WidgetAPI

@Suite("Stacks over HTTP", .tags(.api), .timeLimit(.patience))
struct StackRoutesTests {
    private static let path = "\(TestAPI.base)/users/u1/stacks/home/schedule"
    private static let key = StackPlan.Key(app: TestKinds.app, user: "u1", device: "d1", stack: "home")

    @Test("A schedule has an entity tag and is visible to its own user only")
    func reading() async throws {
        try await withStore { store in
            try await store.saveSchedule(of: "u1", revision: 7)
            try await withAPI(store) { api in
                let answer = try await api.ask(.get, Self.path)
                #expect(answer.status == 200 && answer.headers[.eTag] == "W/\"7\"")
                #expect(answer.headers[.freshetRevision] == "7")
                #expect(answer.document["stack"] == "home" && answer.document["rotations"] == [])
                let again = try await api.ask(.get, Self.path, headers: [.ifNoneMatch: "W/\"7\""])
                #expect(again.status == 304 && again.text.isEmpty)
                let other = TestAPI.Bearer.token(try await api.tokens.token(user: "u2"))
                #expect(try await api.ask(.get, Self.path, as: other).status == 404)
                for missing in ["users/u1/stacks/other/schedule", "users/u9/stacks/home/schedule"] {
                    #expect(try await api.ask(.get, "\(TestAPI.base)/\(missing)").status == 404)
                }
                #expect(try await api.ask(.get, Self.path + "?device=d9").status == 404)
                #expect(try await api.ask(.get, Self.path + "?wait=61").status == 400)
            }
        }
    }

    private static let explanation = "\(TestAPI.base)/users/u1/stacks/home/explanation"

    /// Places a stack that the person has turned to its second widget.
    private static func withTurnedStack(
        _ body: @escaping @Sendable (_ api: TestAPI) async throws -> Void
    ) async throws {
        try await withStore { store in
            try await store.place([.test("w-d1"), .test("w2", kind: "DueDate")])
            try await store.saveSchedule(of: "u1", revision: 7)
            let shortcut = RelevantShortcut(content: WidgetContent(app: TestKinds.app, kind: "Weather"))
            var person = PersonRecord()
            let stack = StackArrangement(device: "d1", name: "home", widgets: ["w-d1", "w2"])
            for change in [PersonChange.stack(stack), .shortcuts(device: nil, [shortcut])] {
                _ = person.apply(change, at: Timestamp(microseconds: 2))
            }
            _ = person.apply(.turned(device: "d1", stack: "home", widget: "w2"), at: Timestamp.now())
            try await store.sql("UPDATE person SET arrangement = '\(person.storedArrangement)'")
            try await withAPI(store) { api in try await body(api) }
        }
    }

    @Test("An explanation has the plan, the widget on top with its reason, and why the others are not")
    func explanation() async throws {
        try await Self.withTurnedStack { api in
            let path = Self.explanation
            let own = TestAPI.Bearer.token(try await api.tokens.token(user: "u1"))
            let answer = try await api.ask(.get, path, as: own)
            #expect(answer.status == 200, "\(answer.text)")
            #expect(answer.document["plan"]?["stack"] == "home")
            #expect(answer.document["plan"]?["rotations"]?.arrayValue?.last?["widget"] == "w2")
            let hold = try #require(answer.document["now"]?["hold"]?.stringValue)
            #expect(hold.contains("the person turned the stack"))
            let items = try #require(answer.document["now"]?["items"]?.arrayValue)
            #expect(items.map { $0["top"] } == [false, true, false])
            #expect(items.map { $0["widget"] } == ["w-d1", "w2", .null])
            let reasons = [
                "no relevance, habit or shortcut", "the person turned the stack to it", "no habit makes it likely",
            ]
            for (item, reason) in zip(items, reasons) {
                #expect(item["why"]?.stringValue?.contains(reason) == true, "\(item)")
            }
        }
    }

    @Test("The explanation of an unknown stack or to another person is not found")
    func explanationNotFound() async throws {
        try await Self.withTurnedStack { api in
            let other = TestAPI.Bearer.token(try await api.tokens.token(user: "u2"))
            #expect(try await api.ask(.get, Self.explanation, as: other).status == 404)
            #expect(try await api.ask(.get, "\(TestAPI.base)/users/u1/stacks/none/explanation").status == 404)
        }
    }

    @Test("A stack that was removed is not found, also while its tombstone goes out")
    func removed() async throws {
        try await withStore { store in
            try await store.saveSchedule(of: "u1", revision: 7)
            try await store.sql("UPDATE stack_schedule SET schedule = NULL; UPDATE person SET arrangement = NULL")
            try await withAPI(store) { api in
                let answer = try await api.ask(.get, Self.path + "?device=d1")
                #expect(answer.status == 404)
            }
        }
    }

    @Test("The device parameter is required if several devices have a stack of the name")
    func devices() async throws {
        try await withStore { store in
            try await store.saveSchedule(of: "u1", revision: 7)
            try await store.saveSchedule(of: "u1", device: "d2", revision: 8)
            try await withAPI(store) { api in
                let answer = try await api.ask(.get, Self.path)
                #expect(answer.status == 400 && answer.text.contains("device"))
                #expect(try await api.ask(.get, Self.path + "?device=d1").headers[.freshetRevision] == "7")
                #expect(try await api.ask(.get, Self.path + "?device=d2").headers[.freshetRevision] == "8")
            }
        }
    }

    @Test("The first read of a schedule plans the stack and waits for the plan")
    func first() async throws {
        try await withStore { store in
            try await store.saveSchedule(of: "u1", revision: 7)
            try await store.sql("DELETE FROM stack_schedule")
            try await withAPI(store) { api in
                let begun = ContinuousClock.now
                async let answer = api.ask(.get, Self.path)
                try await eventually("the stack is due") {
                    try await store.integer("SELECT count(*) FROM stack_schedule") == 1
                }
                #expect(try await store.integer("SELECT count(*) FROM stack_schedule WHERE due_at <= now()") == 1)
                try await store.saveSchedule(of: "u1", revision: 9)
                var planned = try await answer
                if planned.status == 503, begun.duration(to: .now) >= .seconds(10) {
                    // The plan came later than a reader waits.
                    planned = try await api.ask(.get, Self.path)
                }
                #expect(planned.status == 200 && planned.headers[.freshetRevision] == "9")
            }
        }
    }

    @Test("A waiting reader gets the next schedule")
    func waiting() async throws {
        try await withStore { store in
            try await store.saveSchedule(of: "u1", revision: 7)
            let changes = TimelineChanges()
            changes.set(isLive: true)
            try await withAPI(store, changes: changes) { api in
                async let answer = api.ask(.get, Self.path + "?wait=60", headers: [.ifNoneMatch: "W/\"7\""])
                try await eventually("a request waits") { changes.counts.polls == 1 }
                try await store.saveSchedule(of: "u1", revision: 8)
                changes.notify([.timeline(Self.key.id)])
                let changed = try await answer
                #expect(changed.status == 200 && changed.headers[.freshetRevision] == "8")
            }
        }
    }

    @Test("F: a person's learned data is cleared; stacks stay, and their schedules are planned again")
    func clearing() async throws {
        try await withStore { store in
            for user in ["u1", "u2"] { try await store.saveSchedule(of: user, revision: 7) }
            try await store.sql("UPDATE person SET habits = '\\x01'")
            try await withAPI(store) { api in
                let path = "\(TestAPI.base)/users/u1/habits"
                let own = TestAPI.Bearer.token(try await api.tokens.token(user: "u1"))
                let other = TestAPI.Bearer.token(try await api.tokens.token(user: "u2"))
                #expect(try await api.ask(.delete, path, as: other).status == 403)
                let answers = [try await api.ask(.delete, path, as: own), try await api.ask(.delete, path)]
                #expect(answers.map(\.status) == [200, 200])
                #expect(answers.map { $0.document["cleared"] } == [true, false])
            }
            let kept = "SELECT count(*) FROM person WHERE arrangement IS NOT NULL AND habits IS "
            #expect(try await store.integer(kept + "NULL AND user_id = 'u1'") == 1)
            #expect(try await store.integer(kept + "NOT NULL AND user_id = 'u2'") == 1)
            #expect(
                try await store.integer("SELECT count(*) FROM stack_schedule WHERE due_at <= now() AND user_id = 'u1'")
                    == 1)
        }
    }

    @Test("Events about a person combine the body's members with the path's user and stack")
    func publishing() async throws {
        try await withStore { store in
            try await withAPI(store) { api in
                let user = "\(TestAPI.base)/users/u1"
                let calls: [(HTTPRequest.Method, String, JSONValue)] = [
                    (.put, "\(user)/stacks/home", ["device": "d1", "widgets": ["w1", "w2"], "suggestions": false]),
                    (.post, "\(user)/stacks/home/turns", ["device": "d1", "widget": "w2"]),
                    (.put, "\(user)/shortcuts", ["shortcuts": [["kind": "DueDate"]]]),
                    (.post, "\(user)/donations", ["kind": "Purchases", "timeZone": "Europe/Berlin"]),
                ]
                for (method, path, body) in calls {
                    let answer = try await api.ask(method, path, body: body)
                    #expect(answer.status == 202, "\(answer.text)")
                }
                let stack = StackArrangement(
                    device: "d1", name: "home", widgets: ["w1", "w2"], smartRotate: true, suggestions: false)
                let shortcut = RelevantShortcut(content: WidgetContent(app: TestKinds.app, kind: "DueDate"))
                #expect(
                    try api.published.events().map(\.event) == [
                        .stackChanged(app: TestKinds.app, user: "u1", stack),
                        .stackTurned(app: TestKinds.app, user: "u1", device: "d1", stack: "home", widget: "w2"),
                        .shortcutsReplaced(app: TestKinds.app, user: "u1", device: nil, [shortcut]),
                        .interactionDonated(
                            app: TestKinds.app, user: "u1",
                            DonatedInteraction(kind: "Purchases", timeZone: "Europe/Berlin")),
                    ])
                #expect(try api.published.handlings().allSatisfy(\.isOrderedByArrival))
                let unknown = try await api.ask(.post, "\(user)/donations", body: ["kind": "Nothing"])
                #expect(unknown.status == 422 && unknown.text.contains("/kind"))
            }
        }
    }
}
