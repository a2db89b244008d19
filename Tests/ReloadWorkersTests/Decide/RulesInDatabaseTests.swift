// SPDX-License-Identifier: Apache-2.0

import JSON
import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// The reload rules end to end: marks and completions in SQL, decisions in the worker.
@Suite(.serialized, .tags(.database), .timeLimit(.patience))
struct RulesInDatabaseTests {
    /// One token a day, so that the second budgeted reload waits.
    private static let scarce = DailyBudget(minimum: 1, maximum: 1)

    /// Places a timeline and spends its only token of a day.
    private func withSpentBudget(_ body: (_ worker: TestWorker, _ id: TimelineID) async throws -> Void) async throws {
        try await withWorker(minimumSpacing: .zero) { worker in
            try await worker.store.redefine { $0.dailyBudget = Self.scarce }
            let id = try await worker.store.place([.test("w1")], at: Timestamp.now())[0]
            try await worker.drain()
            try await worker.store.markUser("u1", isFree: false)
            try await worker.drain()
            #expect(worker.provider.requests.count == 2, "the first is free, the second has a token")
            try await body(worker, id)
        }
    }

    @Test("A thousand pushes without budget cost no claims, and none is dropped")
    func withoutBudget() async throws {
        try await withSpentBudget { worker, id in
            let before = try await worker.store.integer("SELECT last_value FROM token")

            for _ in 0..<20 { try await worker.store.markUser("u1", events: 50, isFree: false) }
            #expect(try await worker.turn() == 0)
            #expect(try await worker.store.integer("SELECT last_value FROM token") == before)
            let detail = try await worker.store.detail(id)
            #expect(detail.isStale, "nothing is dropped")
            let wait = try #require(detail.secondsToDue)
            #expect(wait > 86_000 && wait < 86_800, "a token a day comes after a day, not \(wait) s")
            #expect(detail.lane == .push)
        }
    }

    @Test("A free request takes no token, returns none, and satisfies the requests that wait")
    func freeRequest() async throws {
        try await withSpentBudget { worker, id in
            try await worker.store.markUser("u1", isFree: false)
            #expect(try await worker.turn() == 0)
            try await worker.store.markUser("u1", isFree: true)
            try await worker.drain()
            #expect(try await !worker.store.detail(id).isStale)
            #expect(worker.provider.requests.count == 3)
            try await worker.store.markUser("u1", isFree: false)
            #expect(try await worker.turn() == 0, "no token is returned")
        }
    }

    @Test("A timeline that is due before its ledger is deferred until its token returns")
    func deferred() async throws {
        try await withSpentBudget { worker, id in
            try await worker.store.markUser("u1", isFree: false)
            try await worker.drain()
            #expect(try await worker.store.detail(id).isStale)
            try await worker.store.passTime(90_000)
            // The row is due but the ledger is not: the timeline is not fetched, and next examined when the budget
            // allows.
            #expect(try await worker.turn() == 1)
            #expect(worker.provider.requests.count == 2)
            #expect(worker.metrics.decisions.total(["decision": "deferred"]) == 1)
            let deferred = try await worker.store.detail(id)
            #expect(deferred.decision == .deferred)
            #expect(try await worker.store.rule(of: id) == .budget)
            #expect(try #require(deferred.secondsToDue) > 86_000)
            #expect(try await worker.turn() == 0)
        }
    }

    @Test("A deferred reload is served when its token returns")
    func tokenReturns() async throws {
        try await withSpentBudget { worker, id in
            try await worker.store.markUser("u1", isFree: false)
            try await worker.store.passTime(90_000)
            #expect(try await worker.turn() == 1)
            #expect(try await worker.store.detail(id).isStale)
            try await worker.store.sql("UPDATE timeline SET budget = NULL")
            try await worker.store.passTime(90_000)
            try await worker.drain()
            #expect(try await !worker.store.detail(id).isStale)
            #expect(worker.provider.requests.count == 3)
        }
    }

    @Test func whatAFetchCosts() async throws {
        try await withWorker(minimumSpacing: .zero) { worker in
            let id = try await worker.store.place([.test("w1")], at: Timestamp.now())[0]
            try await worker.drain()
            #expect(try await worker.store.spent(id) == nil, "the first is free")
            worker.provider.respond { _ in .status(500) }
            try await worker.store.markUser("u1", isFree: false)
            try await worker.drain()
            #expect(try await worker.store.spent(id) == nil, "a failed fetch spends nothing")
            #expect(try await worker.store.rule(of: id) == .providerStatus)
            try await worker.store.passTime(1_000)
            worker.provider.respond { request in .timelines(request.ids.map { .stubTimeline($0) }) }
            try await worker.drain()
            #expect(try await worker.store.spent(id)?.lastPaced != nil)
            #expect(try await worker.store.detail(id).decision == .unchanged, "an unchanged one spends a token")
            #expect(try await worker.store.rule(of: id) == .gate)
            let spent = try await worker.store.spent(id)
            try await worker.store.markUser("u1", isFree: true)
            try await worker.drain()
            #expect(try await worker.store.spent(id) == spent, "free ones cost nothing")
        }
    }

    @Test func developerModeLiftsBudgetAndSpacing() async throws {
        try await withWorker(developerMode: true) { worker in
            try await worker.store.redefine { $0.dailyBudget = Self.scarce }
            let id = try await worker.store.place([.test("w1")])[0]
            for round in 1...5 {
                try await worker.store.markUser("u1", isFree: false)
                try await worker.drain()
                #expect(worker.provider.requests.count == round)
            }
            #expect(try await worker.store.spent(id) == nil)
        }
    }

    @Test func theRowHasTheDecisionAndItsReason() async throws {
        try await withWorker(minimumSpacing: .zero) { worker in
            let id = try await worker.store.place([.test("w1")], at: Timestamp.now())[0]
            try await worker.drain()
            try await worker.store.markUser("u1", isFree: false)
            worker.provider.respond { request in
                .timelines(request.ids.map { .stubTimeline($0, content: ["now": "else"]) })
            }
            try await worker.drain()
            #expect(try await worker.store.detail(id).decision == .reloaded)
            #expect(try await worker.store.rule(of: id) == .paced)
            let position = """
                SELECT count(*) FROM timeline WHERE decision_topic = 0 AND decision_partition = 3
                    AND decision_offset = 42 AND decision_reason = \(ReloadReason.push.rawValue)
                    AND fetch_milliseconds >= 0 AND decided_at <= now() AND requested_at <= now()
                """
            #expect(try await worker.store.integer(position) == 1)
        }
    }

    // MARK: Views

    @Test func aWidgetThatNobodyLooksAtSleepsUntilItIsViewed() async throws {
        try await withWorker(minimumSpacing: .zero) { worker in
            let start = Timestamp.now()
            worker.provider.respond { request in
                .timelines(request.ids.map { .stubTimeline($0, policy: ["after": .string(start.rfc3339)]) })
            }
            let id = try await worker.store.place([.test("w1")])[0]
            // One turn at a time: without spacing, its policy makes the timeline due every second.
            try await worker.turn()
            // Placed and requested long ago, never viewed.
            try await worker.store.sql(
                "UPDATE timeline SET requested_at = now() - interval '15 days', placed_at = now() - interval '15 days'")
            try await worker.store.passTime(90_000)
            try await worker.store.sql("UPDATE timeline SET budget = NULL")
            #expect(try await worker.turn() == 1)
            #expect(worker.provider.requests.count == 1, "no reload by policy")
            #expect(worker.metrics.decisions.total(["decision": "slept"]) == 1)
            let asleep = try await worker.store.detail(id)
            #expect(asleep.decision == .slept && asleep.secondsToDue == nil)
            #expect(try await worker.turn() == 0)
            #expect(try await worker.store.unappointed() == 0)

            try await worker.store.view("w1", at: start)
            try await worker.turn()
            #expect(worker.provider.requests.count == 2, "its policy applies again")
            try await worker.store.view("w1", at: start + .seconds(60))
            #expect(try await worker.store.integer("SELECT views FROM timeline") == 1, "a view an hour counts")
        }
    }

    @Test("A view during the decision to sleep keeps the timeline awake")
    func viewedMeanwhile() async throws {
        try await withWorker(minimumSpacing: .zero) { worker in
            let start = Timestamp.now()
            worker.provider.respond { request in
                .timelines(request.ids.map { .stubTimeline($0, policy: ["after": .string(start.rfc3339)]) })
            }
            try await worker.store.place([.test("w1")])
            try await worker.turn()
            try await worker.store.sql(
                "UPDATE timeline SET requested_at = now() - interval '15 days', placed_at = now() - interval '15 days'")
            try await worker.store.passTime(90_000)
            try await worker.store.sql("UPDATE timeline SET budget = NULL")
            #expect(try await worker.claim() == 1)
            try await worker.store.view("w1", at: start)
            try await worker.finish()
            #expect(worker.metrics.decisions.total(["decision": "slept"]) == 0)
            try await worker.turn()
            #expect(worker.provider.requests.count == 2)
        }
    }

    @Test func aSleepingWidgetIsReloadedWhenItIsAskedForOrPlaced() async throws {
        try await withWorker(minimumSpacing: .zero) { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            try await worker.drain()
            func fallAsleep() async throws {
                try await worker.store.sql(
                    """
                    UPDATE timeline SET asleep = true, policy_at = now(), listed_at = 'infinity', last_decision = 6,
                        eligible_at = '-infinity', budget = NULL, placed_at = now() - interval '1 day';
                    DELETE FROM work
                    """)
            }
            try await fallAsleep()
            try await worker.store.markUser("u1", isFree: false)
            try await worker.drain()
            #expect(worker.provider.requests.count == 2)
            #expect(try await worker.store.integer("SELECT count(*) FROM timeline WHERE asleep") == 0)
            try await fallAsleep()
            #expect(try await worker.store.place([.test("w2")], at: Timestamp.now()) == [id])
            try await worker.drain()
            #expect(worker.provider.requests.count == 3)
        }
    }

    @Test func theBudgetFollowsTheViews() async throws {
        try await withWorker(minimumSpacing: .zero) { worker in
            let ids = try await worker.store.place([.test("often", user: "u1"), .test("seldom", user: "u2")])
            try await worker.store.sql(
                """
                UPDATE timeline SET placed_at = now() - interval '10 days', viewed_at = now() - interval '1 minute',
                    view_rate = CASE user_id WHEN 'u1' THEN 16 ELSE 0.1 END
                """)
            try await worker.drain()
            var counts: [Int] = []
            for (index, id) in ids.enumerated() {
                let before = worker.provider.requestedIDs.count { $0 == id }
                for _ in 0..<50 {
                    try await worker.store.markUser("u\(index + 1)", isFree: false)
                    try await worker.drain()
                }
                counts.append(worker.provider.requestedIDs.count { $0 == id } - before)
            }
            // Two fifths of 70 and of 8 are unrestricted, and the pace allows one more at once.
            #expect(counts == [29, 4])
        }
    }

    // MARK: Shared timelines

    @Test func onASharedKindOnlyAnOperatorGoesAheadOfTheSpacing() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place(
                [.test("w1", kind: "Weather", configuration: #"{"city":"Oslo"}"#)], at: Timestamp.now())[0]
            try await worker.drain()
            // Ten million people who open the app cause one reload per spacing.
            try await worker.store.mark("u1", reason: .foreground)
            #expect(try await worker.turn() == 0)
            let spaced = try #require(try await worker.store.detail(id).secondsToDue)
            #expect(spaced > 200 && spaced < 400)
            try await worker.store.mark("u1", reason: .operator)
            #expect(try await worker.turn() == 1)
            #expect(worker.provider.requests.count == 2)
        }
    }

    @Test func aRequestDuringTheFetchOfASharedTimelineKeepsTheSpacingUnlessItIsAnOperators() async throws {
        for (reason, isAtOnce) in [(ReloadReason.foreground, false), (.operator, true), (.push, false)] {
            try await withWorker { worker in
                let id = try await worker.store.place(
                    [.test("w1", kind: "Weather", configuration: #"{"city":"Oslo"}"#)], at: Timestamp.now())[0]
                _ = try await worker.claim()
                try await worker.store.mark("u1", reason: reason)
                try await worker.finish()
                let detail = try await worker.store.detail(id)
                #expect(detail.isStale)
                let wait = try #require(detail.secondsToDue)
                #expect(isAtOnce ? wait <= 0 : wait > 200 && wait < 400, "\(reason): \(wait)")
            }
        }
    }

    @Test func aFreeRequestForAPersonsOwnTimelineWaitsForNothing() async throws {
        try await withWorker { worker in
            try await worker.store.place([.test("w1")], at: Timestamp.now())
            try await worker.drain()
            for round in 2...4 {
                try await worker.store.mark("u1", reason: .foreground)
                try await worker.drain()
                #expect(worker.provider.requests.count == round)
            }
            try await worker.store.mark("u1", reason: .push)
            #expect(try await worker.turn() == 0, "the spacing applies to pushes")
        }
    }

    // MARK: Pauses

    @Test func pausedKindsAreNotClaimed() async throws {
        try await withWorker { worker in
            try await worker.store.place([.test("w1"), .test("w2", kind: "DueDate")], at: Timestamp.now())
            try await worker.store.sql("UPDATE kind SET paused_at = now() WHERE name = 'Purchases'")
            let requests = try await worker.store.directory().kinds.keys.map {
                ClaimRequest(KindLane(kindID: $0, lane: .interactive), lists: 10)
            }
            let claimed = try await worker.store.pool.query(.claimLists(requests, lease: .seconds(30)))
            #expect(claimed.count == 1)
            try await worker.store.sql("UPDATE kind SET paused_at = NULL; UPDATE app SET paused_at = now()")
            #expect(try await worker.store.pool.query(.claimLists(requests, lease: .seconds(30))).isEmpty)
            try await worker.store.sql("UPDATE app SET paused_at = NULL")
            #expect(try await worker.store.pool.query(.claimLists(requests, lease: .seconds(30))).count == 1)
        }
    }
}

extension TestStore {
    /// Changes every kind's stored definition.
    func redefine(_ change: (inout KindDefinition) -> Void) async throws {
        for kind in try await directory().kinds.values {
            var definition = kind.definition
            change(&definition)
            _ = try await pool.execute(.upsertKind(appID: kind.appID, definition: definition))
        }
    }

    /// Returns a timeline's spent budget; nil for none.
    func spent(_ id: TimelineID) async throws -> BudgetLedger? {
        let ledger = try await detail(id).timeline.ledger
        return ledger == BudgetLedger() ? nil : ledger
    }
}
