import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// The reload rules as they come together: marks and completions in SQL, the plan in the worker.
@Suite(.serialized, .tags(.database), .timeLimit(.minutes(5)))
struct RulesInDatabaseTests {
    /// One token a day, so that the second budgeted reload has to wait.
    private static let scarce = DailyBudget(minimum: 1, maximum: 1)

    @Test func aThousandPushesWithoutBudgetCostNoClaims() async throws {
        try await withWorker(minimumSpacing: .zero) { worker in
            try await worker.store.redefine { $0.dailyBudget = Self.scarce }
            let id = try await worker.store.place([.test("w1")], at: WallClock.now())[0]
            try await worker.drain()
            try await worker.store.markUser("u1", isFree: false)
            try await worker.drain()
            #expect(worker.provider.requests.count == 2, "the first is free, the second has a token")
            let before = try await worker.store.integer("SELECT last_value FROM timeline_claim")

            for _ in 0..<20 { try await worker.store.markUser("u1", events: 50, isFree: false) }
            #expect(try await worker.turn() == 0)
            #expect(try await worker.store.integer("SELECT last_value FROM timeline_claim") == before)
            let detail = try await worker.store.detail(id)
            #expect(detail.isStale, "nothing is dropped")
            let wait = try #require(detail.secondsToDue)
            #expect(wait > 86_000 && wait <= 86_400, "a token a day comes after a day, not \(wait) s")
            #expect(detail.lane == .push)

            // A free request takes no token, and serves what waits.
            try await worker.store.markUser("u1", isFree: true)
            try await worker.drain()
            #expect(try await !worker.store.detail(id).isStale)
            #expect(worker.provider.requests.count == 3)
            try await worker.store.markUser("u1", isFree: false)
            #expect(try await worker.turn() == 0, "and gives none back")
        }
    }

    @Test func whatIsDeferredIsServedWhenTheTokenIsBack() async throws {
        try await withWorker(minimumSpacing: .zero) { worker in
            try await worker.store.redefine { $0.dailyBudget = Self.scarce }
            let id = try await worker.store.place([.test("w1")], at: WallClock.now())[0]
            try await worker.drain()
            for _ in 0..<2 {
                try await worker.store.markUser("u1", isFree: false)
                try await worker.drain()
            }
            #expect(try await worker.store.detail(id).isStale)
            try await worker.store.passTime(86_401)
            // Due by the row, but the ledger knows better: no fetch, and no second look before the time.
            #expect(try await worker.turn() == 1)
            #expect(worker.provider.requests.count == 2)
            #expect(worker.counts.deferred == 1)
            let deferred = try await worker.store.detail(id)
            #expect(deferred.decision == .deferred && !deferred.isLeased)
            #expect(try await worker.store.rule(of: id) == .budget)
            #expect(try #require(deferred.secondsToDue) > 86_000)
            #expect(try await worker.turn() == 0)

            try await worker.store.sql("UPDATE timeline_state SET budget = NULL")
            try await worker.store.passTime(86_401)
            try await worker.drain()
            #expect(try await !worker.store.detail(id).isStale)
            #expect(worker.provider.requests.count == 3)
        }
    }

    @Test func whatAFetchCosts() async throws {
        try await withWorker(minimumSpacing: .zero) { worker in
            let id = try await worker.store.place([.test("w1")], at: WallClock.now())[0]
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
            #expect(try await worker.store.detail(id).decision == .unchanged, "and one that changes nothing does")
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

    @Test func theRowTellsWhatWasDecidedAndWhy() async throws {
        try await withWorker(minimumSpacing: .zero) { worker in
            let id = try await worker.store.place([.test("w1")], at: WallClock.now())[0]
            try await worker.drain()
            try await worker.store.markUser("u1", isFree: false)
            worker.provider.respond { request in
                .timelines(request.ids.map { .stubTimeline($0, content: ["now": "else"]) })
            }
            try await worker.drain()
            #expect(try await worker.store.detail(id).decision == .reloaded)
            #expect(try await worker.store.rule(of: id) == .paced)
            let position = """
                SELECT count(*) FROM timeline_state WHERE decision_topic = 0 AND decision_partition = 3
                    AND decision_offset = 42 AND decision_reason = \(ReloadReason.push.rawValue)
                    AND fetch_milliseconds >= 0 AND decided_at <= now() AND requested_at <= now()
                """
            #expect(try await worker.store.integer(position) == 1)
        }
    }

    // MARK: Views

    @Test func aWidgetThatNobodyLooksAtSleepsUntilItIsViewed() async throws {
        try await withWorker(minimumSpacing: .zero) { worker in
            let start = WallClock.now()
            worker.provider.respond { request in
                .timelines(request.ids.map { .stubTimeline($0, policy: ["after": .string(start.rfc3339)]) })
            }
            // Placed long ago, never viewed.
            let id = try await worker.store.place([.test("w1")], at: start - .seconds(15 * 86_400))[0]
            try await worker.drain()
            // It was asked for just now, by being placed; that is forgotten after `dormantAfter`.
            try await worker.store.sql("UPDATE timeline_state SET requested_at = now() - interval '15 days'")
            try await worker.store.passTime(90_000)
            try await worker.store.sql("UPDATE timeline_state SET budget = NULL")
            #expect(try await worker.turn() == 1)
            #expect(worker.provider.requests.count == 1, "no reload by policy")
            #expect(worker.counts.slept == 1)
            let asleep = try await worker.store.detail(id)
            #expect(asleep.decision == .slept && asleep.secondsToDue == nil)
            #expect(try await worker.turn() == 0)

            let viewed = try await worker.store.view("w1", at: start)
            #expect(viewed?.written == 1 && viewed?.woken == 1)
            try await worker.drain()
            #expect(worker.provider.requests.count == 2, "it is due by its policy again")
            #expect(try await worker.store.view("w1", at: start + .seconds(60))?.written == 0)
        }
    }

    @Test func aSleepingWidgetIsReloadedWhenItIsAskedForOrPlaced() async throws {
        try await withWorker(minimumSpacing: .zero) { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            try await worker.drain()
            // A completion counts the time since before its claim was sent: until as long after it as the claim took to reach
            // the database, it would have to wait.
            func fallAsleep() async throws {
                try await worker.store.sql(
                    """
                    UPDATE timeline_state SET due_at = 'infinity', eligible_at = '-infinity', view_class = 3,
                        last_decision = 6, budget = NULL
                    """)
            }
            try await fallAsleep()
            try await worker.store.markUser("u1", isFree: false)
            try await worker.drain()
            #expect(worker.provider.requests.count == 2)
            #expect(try await worker.store.integer("SELECT view_class FROM timeline_state") != 3)
            try await fallAsleep()
            #expect(try await worker.store.place([.test("w2")], at: WallClock.now()) == [id])
            try await worker.drain()
            #expect(worker.provider.requests.count == 3)
        }
    }

    @Test func theBudgetFollowsTheViews() async throws {
        try await withWorker(minimumSpacing: .zero) { worker in
            let placed = WallClock.now() - .seconds(10 * 86_400)
            let ids = try await worker.store.place(
                [.test("often", user: "u1"), .test("seldom", user: "u2")], at: placed)
            try await worker.store.sql(
                """
                UPDATE widget SET last_viewed_at = now() - interval '1 minute',
                    view_rate = CASE id WHEN 'often' THEN 16 ELSE 0.1 END
                """)
            try await worker.drain()
            #expect(
                try await worker.store.integer("SELECT view_class FROM timeline_state WHERE timeline_id = '\(ids[0])'")
                    == 0)
            #expect(
                try await worker.store.integer("SELECT view_class FROM timeline_state WHERE timeline_id = '\(ids[1])'")
                    == 2)
            var counts: [Int] = []
            for (index, id) in ids.enumerated() {
                let before = worker.provider.requestedIDs.count { $0 == id }
                for _ in 0..<50 {
                    try await worker.store.markUser("u\(index + 1)", isFree: false)
                    try await worker.drain()
                }
                counts.append(worker.provider.requestedIDs.count { $0 == id } - before)
            }
            // Two fifths of 70 and of 8 at will, and the one that the pace gives at once.
            #expect(counts == [29, 4])
        }
    }

    // MARK: Shared timelines

    @Test func onASharedKindOnlyAnOperatorGoesAheadOfTheSpacing() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place(
                [.test("w1", kind: "Weather", configuration: #"{"city":"Oslo"}"#)], at: WallClock.now())[0]
            try await worker.drain()
            // Ten million people opening the app are one reload a spacing.
            try await worker.store.mark("u1", reason: .foreground)
            #expect(try await worker.turn() == 0)
            let spaced = try #require(try await worker.store.detail(id).secondsToDue)
            #expect(spaced > 290 && spaced <= 300)
            try await worker.store.mark("u1", reason: .operator)
            #expect(try await worker.turn() == 1)
            #expect(worker.provider.requests.count == 2)
        }
    }

    @Test func aRequestDuringTheFetchOfASharedTimelineKeepsTheSpacingUnlessItIsAnOperators() async throws {
        for (reason, isAtOnce) in [(ReloadReason.foreground, false), (.operator, true), (.push, false)] {
            try await withWorker { worker in
                let id = try await worker.store.place(
                    [.test("w1", kind: "Weather", configuration: #"{"city":"Oslo"}"#)], at: WallClock.now())[0]
                let works = try await worker.claim()
                try await worker.store.mark("u1", reason: reason)
                await worker.run(works)
                let detail = try await worker.store.detail(id)
                #expect(detail.isStale)
                let wait = try #require(detail.secondsToDue)
                #expect(isAtOnce ? wait <= 0 : wait > 290 && wait < 330, "\(reason): \(wait)")
            }
        }
    }

    @Test func aFreeRequestForAPersonsOwnTimelineWaitsForNothing() async throws {
        try await withWorker { worker in
            try await worker.store.place([.test("w1")], at: WallClock.now())
            try await worker.drain()
            for round in 2...4 {
                try await worker.store.mark("u1", reason: .foreground)
                try await worker.drain()
                #expect(worker.provider.requests.count == round)
            }
            try await worker.store.mark("u1", reason: .push)
            #expect(try await worker.turn() == 0, "the spacing holds for a push")
        }
    }

    // MARK: Pauses

    @Test func nothingIsClaimedOfWhatIsPaused() async throws {
        try await withWorker { worker in
            try await worker.store.place([.test("w1"), .test("w2", kind: "DueDate")], at: WallClock.now())
            try await worker.store.sql("UPDATE kind SET paused_at = now() WHERE name = 'Purchases'")
            let wishes = try await worker.store.directory().kinds.keys.map {
                ClaimWish(kindID: $0, lane: .interactive, count: 10)
            }
            let claimed = try await worker.store.pool.query(ClaimTimelines(wishes, lease: .seconds(30)))
            #expect(claimed.count == 1)
            try await worker.store.sql("UPDATE kind SET paused_at = NULL; UPDATE app SET paused_at = now()")
            #expect(try await worker.store.pool.query(ClaimTimelines(wishes, lease: .seconds(30))).isEmpty)
            try await worker.store.sql("UPDATE app SET paused_at = NULL")
            #expect(try await worker.store.pool.query(ClaimTimelines(wishes, lease: .seconds(30))).count == 1)
        }
    }
}

extension TestStore {
    /// Changes every kind's stored definition.
    func redefine(_ change: (inout KindDefinition) -> Void) async throws {
        for kind in try await directory().kinds.values {
            var definition = kind.definition
            change(&definition)
            _ = try await pool.execute(UpsertKind(appID: kind.appID, definition: definition))
        }
    }

    /// Requests a reload of a user's timelines for a reason.
    func mark(_ user: String, reason: ReloadReason) async throws {
        guard let app = try await directory().apps[TestKinds.app] else { return }
        let mark = TimelineMark(
            appID: app.id, audienceID: user, kindID: nil, matching: nil, events: 1, urgency: reason.urgency,
            lane: reason.lane.rawValue, cause: Self.cause, reason: reason)
        _ = try await pool.query(MarkUsers([mark], limit: 1_000))
    }

    func view(_ widget: String, at time: Timestamp) async throws -> RecordViews.Outcome? {
        let app = try await directory().apps[TestKinds.app]?.id ?? -1
        return try await pool.query(RecordViews([WidgetViews(appID: app, widget: widget, times: [time])])).first
    }

    func rule(of id: TimelineID) async throws -> ReloadRule? {
        let raw = try await integer("SELECT decision_rule FROM timeline_state WHERE timeline_id = '\(id)'")
        return ReloadRule(rawValue: Int16(raw))
    }

    /// What is spent of a timeline's budget; nil for nothing.
    func spent(_ id: TimelineID) async throws -> BudgetLedger? {
        try await pool.query(ReadBudget(id: id)).first?.flatMap { BudgetLedger(stored: $0) }
    }
}

private struct ReadBudget: PostgresStatement {
    static let sql = "SELECT budget FROM timeline_state WHERE timeline_id = $1::uuid"
    let id: TimelineID

    func bind(_ parameters: inout PostgresParameters) {
        parameters.append(PostgresUUID(id))
    }

    static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> [UInt8]? {
        try row.optional(0, as: PostgresBytes.self)?.bytes
    }
}
