// SPDX-License-Identifier: Apache-2.0

import JSON
import TestSupport
import Testing
import WidgetModel

@testable import ReloadWorkers
@testable import WidgetStore

@Suite("History of a widget's scores in the database", .serialized, .tags(.database), .timeLimit(.patience))
struct StackHistoryTests {
    /// Plans the stack whose provider gives scores, and passes a function that reloads a kind with another score.
    private static func withScores(
        _ scores: [String: Int], developerMode: Bool = false,
        _ body: (
            _ worker: TestWorker, _ planning: StackPlanning, _ sent: StackSupport.Sent,
            _ reload: (String, Int?) async throws -> Void
        ) async throws -> Void
    ) async throws {
        try await StackSupport.withStack(developerMode: developerMode) { worker, planning, sent in
            let scores = StackSupport.Scores(scores)
            worker.provider.respond { request in
                .timelines(zip(request.ids, request.kinds).map { id, kind in scores.timeline(id, kind) })
            }
            try await worker.drain()
            try await planning.pass()
            try await body(worker, planning, sent) { kind, score in
                scores.set(kind, score)
                try await worker.store.markUser("u1", kind: kind)
                try await worker.drain()
                #expect(try await !planning.gather())
            }
        }
    }

    private static func relevance(
        of widget: String, _ worker: TestWorker
    ) async throws -> (score: Double?, rank: Double) {
        let record = try #require(try await worker.store.store.relevance(of: widget, app: TestKinds.app))
        let score = record.curve.score(at: Timestamp.now())
        return (score, RelevanceRanks(record.history, with: record.curve).rank(of: score ?? 0))
    }

    @Test("E: another configuration keeps the history and the relevance in effect, also back and forth; 0 ends it")
    func configured() async throws {
        try await Self.withScores(["Purchases": 1, "DueDate": 0]) { worker, planning, _, reload in
            for score in [5, 3, 9] { try await reload("Purchases", score) }
            let before = try await Self.relevance(of: "w1", worker)
            #expect(before.score == 9 && before.rank > 0.8)
            try await reload("Purchases", nil)
            let known = try await worker.store.directory()
            for (number, configuration) in [#"{"card":"b"}"#, "{}", #"{"card":"c"}"#].enumerated() {
                try await worker.store.configure(
                    "w1", configuration, at: Timestamp(microseconds: Int64(number) + 10), known: known)
                try await worker.drain()
                #expect(try await !planning.gather())
                #expect(try await worker.store.integer("SELECT count(*) FROM relevance") == 2, "\(configuration)")
                let after = try await Self.relevance(of: "w1", worker)
                #expect(after.score == 9 && abs(after.rank - before.rank) < 0.01, "\(configuration)")
                // The plan reads the same.
                try await worker.store.sql("UPDATE stack_schedule SET due_at = now()")
                try await planning.pass()
                let stored = try #require(try await worker.store.schedule(StackSupport.key)?.schedule)
                let plan = try #require(StackPlan(stored: stored, key: StackSupport.key))
                #expect(plan.schedule.standing(at: plan.plannedAt)?.standing?.value ?? 0 > 0.8)
            }
            try await reload("Purchases", 0)
            #expect(try await Self.relevance(of: "w1", worker).score == 0)
            try await reload("Purchases", 9)
            #expect(try await Self.relevance(of: "w1", worker).rank > 0.6)
        }
    }

    @Test("E: another time zone or language keeps the history and the relevance in effect, also where others stay")
    func moved() async throws {
        try await Self.withScores(["Purchases": 1, "DueDate": 0]) { worker, planning, _, reload in
            // A tablet of the person stays in the timelines that the widgets leave.
            try await worker.store.place([.test("t1", device: "d2")])
            for score in [5, 3, 9] { try await reload("Purchases", score) }
            let before = try await Self.relevance(of: "w1", worker)
            try await reload("Purchases", nil)
            let environments = [("en-GB", "Asia/Tokyo"), ("de-DE", "Asia/Tokyo"), ("de-DE", "Europe/Paris")]
            for (number, (locale, timeZone)) in environments.enumerated() {
                let environment = WidgetEnvironment(storedLocale: locale, timeZone: timeZone)
                try await worker.store.apply(
                    [
                        .environmentChanged(
                            app: TestKinds.app, device: "d1", environment: environment, significantTimeChange: false)
                    ], at: Timestamp(microseconds: 1_700_000_000_000_000 + Int64(number)))
                try await worker.drain()
                #expect(try await !planning.gather())
                let after = try await Self.relevance(of: "w1", worker)
                #expect(after.score == 9 && abs(after.rank - before.rank) < 0.01, "\(locale), \(timeZone)")
            }
            #expect(try await Self.relevance(of: "t1", worker).score == 9)
        }
    }

    @Test("Relevance does not follow a person into a timeline that people share")
    func sharedTimeline() async throws {
        try await Self.withScores(["Purchases": 1, "DueDate": 0]) { worker, _, _, reload in
            try await reload("Purchases", 9)
            try await worker.store.place([
                .test("w3", kind: "Weather", configuration: #"{"city":"Oslo"}"#),
                .test("w4", user: "u2", kind: "Weather", configuration: #"{"city":"Rome"}"#),
            ])
            try await worker.store.sql(
                """
                INSERT INTO relevance (timeline_id, revision, history, points)
                SELECT w.timeline_id, 0, r.history, r.points FROM relevance r, widget w WHERE w.id = 'w3' LIMIT 1
                """)
            try await worker.store.configure(
                "w3", #"{"city":"Rome"}"#, at: Timestamp(microseconds: 10), known: try await worker.store.directory())
            let rows = "SELECT count(*) FROM relevance r JOIN widget w USING (timeline_id) WHERE w.id = 'w3'"
            #expect(try await worker.store.integer(rows) == 0)
            #expect(try await worker.store.integer("SELECT count(*) FROM widget WHERE timeline_id IS NOT NULL") == 4)
        }
    }

    @Test("A timeline that has relevance of its own keeps it when another widget comes to it, and is not changed")
    func shown() async throws {
        try await Self.withScores(["Purchases": 1, "DueDate": 0]) { worker, planning, _, reload in
            try await worker.store.place([.test("w3", configuration: #"{"card":"b"}"#)])
            try await worker.drain()
            try await worker.store.sql("UPDATE stack_schedule SET due_at = now()")
            try await planning.pass()
            for score in [5, 3] { try await reload("Purchases", score) }
            let rows = "SELECT timeline_id, encode(history, 'hex'), encode(points, 'hex') FROM relevance"
            let sum = "SELECT sum(hashtext(r.*::text)) FROM (\(rows)) r"
            let before = try await worker.store.integer(sum)
            try await worker.store.configure(
                "w1", #"{"card":"b"}"#, at: Timestamp(microseconds: 10), known: try await worker.store.directory())
            #expect(try await worker.store.integer(sum) == before)
        }
    }

    @Test("E: in developer mode evidence turns a stack at once after a turn by hand", arguments: [false, true])
    func developerMode(_ isOn: Bool) async throws {
        let scores = ["Purchases": 0, "DueDate": 0]
        try await Self.withScores(scores, developerMode: isOn) { worker, planning, sent, reload in
            try await worker.store.change(.turned(device: "d1", stack: "home", widget: "w1"), at: Timestamp.now())
            try await reload("DueDate", 7)
            try await planning.pass()
            let schedule = try #require(try sent.schedules().last ?? nil)
            let now = try #require(schedule["plannedAt"])
            let rotations = try #require(schedule["rotations"]?.arrayValue)
            #expect(rotations.last?["widget"] == "w2")
            #expect((rotations.last?["from"] == now) == isOn)
        }
    }
}
