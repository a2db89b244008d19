// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import WidgetModel

@Suite("Design, part C: reloads", .tags(.rules), .timeLimit(.patience))
struct DesignPartCTests {
    private let now = time("2020-06-22T10:00:00Z")

    /// A case of the table of policies: a timeline rendered at 10:00 with the default spacing of five minutes.
    struct PolicyCase: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let policy: ReloadPolicy
        /// Minutes from 10:00.
        let entries: [Int]
        /// Minutes from 10:00; nil: never.
        let due: Int?

        init(_ name: String, _ policy: ReloadPolicy, entries: [Int], due: Int?) {
            testDescription = name
            self.policy = policy
            self.entries = entries
            self.due = due
        }
    }

    private static let evening = time("2020-06-22T22:00:00Z")

    @Test(
        "atEnd, after, never give the earliest time; each timeline has its own policy",
        arguments: [
            PolicyCase("atEnd: when the last entry is reached", .atEnd, entries: [0, 20, 40], due: 40),
            PolicyCase("atEnd, entries in any order", .atEnd, entries: [40, 0, 20], due: 40),
            PolicyCase("atEnd, entries of one date", .atEnd, entries: [30, 30, 30], due: 30),
            PolicyCase("atEnd, one entry that is now: as soon as the spacing allows", .atEnd, entries: [0], due: 5),
            PolicyCase("atEnd, all past: as soon as the spacing allows", .atEnd, entries: [-60, -90], due: 5),
            PolicyCase("atEnd before the spacing is over", .atEnd, entries: [0, 4], due: 5),
            PolicyCase("after(22:00), entries end earlier", .after(evening), entries: [0, 60], due: 720),
            PolicyCase("after(22:00), entries end later", .after(evening), entries: [0, 1440], due: 720),
            PolicyCase("after(22:00), entries are past", .after(evening), entries: [-1440], due: 720),
            PolicyCase("after(22:00), entries begin later", .after(evening), entries: [1440], due: 720),
            PolicyCase(
                "after a past date: as soon as the spacing allows", .after(evening - .days(1)), entries: [0], due: 5),
            PolicyCase("after the beginning of time", .after(.distantPast), entries: [0], due: 5),
            PolicyCase("never", .never, entries: [0, 20], due: nil),
            PolicyCase("never, past", .never, entries: [-20], due: nil),
        ])
    func policies(_ row: PolicyCase) throws {
        let last = now + .minutes(try #require(row.entries.max()))
        let due = ReloadRules.test().due(row.policy, lastEntry: last, renderedAt: now)
        #expect(due == row.due.map { now + .minutes($0) })
    }

    @Test("never: only an explicit request reloads, as for a widget that waits for a sign-in")
    func signIn() {
        var row = SimpleRow(renderedAt: now)
        #expect(row.state.nextLook(row.kind, at: now + .days(3650)) == nil)
        row.request(.foreground)
        #expect(row.state.nextLook(row.kind, at: now + .days(1)) == now + .days(1))
        #expect(row.isFetched(.test(), at: now + .days(1)))
    }

    @Test("A reload is for one kind or all")
    func scopes() {
        let row = TimelineState(generation: 3)
        let (overview, detail) = (KindGenerations(current: 4), KindGenerations(current: 3))
        #expect(row.pending(overview) == .budgeted && row.pending(detail) == nil)
    }

    @Test(
        "A push or a background change uses the budget; foreground, time, locale and environment changes are free",
        arguments: [
            (.placed, .free, .interactive), (.configured, .free, .interactive), (.environment, .free, .interactive),
            (.foreground, .free, .interactive), (.operator, .forced, .interactive), (.push, .budgeted, .push),
            (.background, .budgeted, .push), (.policy, .budgeted, .scheduled),
        ] as [(ReloadReason, RequestUrgency, ReloadLane)])
    func reasons(reason: ReloadReason, urgency: RequestUrgency, lane: ReloadLane) {
        #expect(reason.urgency == urgency && reason.lane == lane)
    }

    /// A ledger whose tokens are all spent.
    private func spent(_ budget: Int, at time: Timestamp) -> BudgetLedger {
        var ledger = BudgetLedger()
        while ledger.tokens(of: budget, at: time) > 0 { ledger.spend(of: budget, at: time) }
        return ledger
    }

    @Test("Foreground changes take no budget, so a change in the app shows at once")
    func lunchMoved() {
        let rules = ReloadRules.test()
        let ledger = spent(70, at: now)
        let pushed = ReloadState(need: .budgeted, renderedAt: now, ledger: ledger, views: .often)
        #expect(rules.plan(pushed, at: now + .seconds(1)).reloadRule == nil)
        let moved = ReloadState(need: .free, renderedAt: now, ledger: ledger, views: .often)
        #expect(
            rules.plan(moved, at: now + .seconds(1)) == .fetch(rule: .free, ledger: ledger), "no token, no spacing")
    }

    @Test("A push within the budget waits only for the spacing")
    func pushed() {
        let rules = ReloadRules.test()
        let state = ReloadState(need: .budgeted, renderedAt: now, views: .often)
        #expect(rules.plan(state, at: now + .seconds(60)) == .wait(until: now + .minutes(5), rule: .spacing))
        #expect(rules.plan(state, at: now + .minutes(5)).reloadRule == .paced)
    }

    @Test("A significant time change is one free reload of each timeline, for a shared one after its spacing")
    func significantTimeChange() {
        for isShared in [false, true] {
            let rules = ReloadRules.test(isShared: isShared).exact
            var row = SimpleRow(renderedAt: now)
            row.store(rules, at: now)
            row.kind = KindGenerations(current: 1, free: 1)
            let later = now + .seconds(60)
            #expect(row.state.nextLook(row.kind, at: later) == (isShared ? now + .minutes(5) : later))
            #expect(row.isFetched(rules, at: now + .minutes(5)))
            row.store(rules, at: now + .minutes(5))
            #expect(row.state.nextLook(row.kind, at: now + .minutes(5)) == nil, "once")
        }
    }

    @Test("Ten million foreground changes are one reload of a shared timeline per spacing")
    func sharedForeground() {
        let rules = ReloadRules.test(isShared: true).exact
        var row = SimpleRow(renderedAt: now)
        row.store(rules, at: now)
        var renders: [Timestamp] = []
        // One person per second represents ten million in an hour, since requests before a fetch are merged.
        for second in 1...3600 {
            let time = now + .seconds(second)
            row.request(.foreground)
            guard row.isFetched(rules, at: time) else { continue }
            // Also during the fetch.
            let captured = row.state.requested
            row.request(.foreground)
            row.store(rules, serving: captured, at: time)
            #expect(row.facts.ledger == BudgetLedger(), "free of budget")
            renders.append(time)
        }
        #expect(renders == (1...12).map { now + .minutes(5 * $0) })
    }

    @Test(
        "A widget that is viewed more gets more reloads: views a day, limited to 8 to 70",
        arguments: [(0, 8), (1, 8), (8, 8), (8.4, 8), (8.6, 9), (40, 40), (55, 55), (70, 70), (90, 70), (1e300, 70)])
    func budgetByViews(views: Double, reloads: Int) {
        #expect(DailyBudget().reloads(for: ViewStatistics(viewsADay: views), at: now) == reloads)
    }

    @Test("An often-viewed widget gets 40 to 70 reloads a day, every 15 to 60 minutes", arguments: 40...70)
    func oftenViewed(reloads: Int) {
        // On average, and at the slowest rate under constant requests.
        let average = Duration.days(1) / reloads
        #expect(average >= .minutes(15) && average <= .minutes(60))
        let pace = BudgetLedger.pace(of: reloads)
        #expect(pace >= .minutes(15) && pace <= .minutes(60), "\(pace)")
    }

    @Test("A widget on a home screen that is seen 90 times a day is often viewed")
    func ninetyTimesADay() {
        var rate = 0.0
        var last: Timestamp?
        var start = time("2020-06-01T07:00:00Z")
        for _ in 0..<30 {
            // 90 times in 16 waking hours: every 640 seconds.
            for time in ViewStatistics.counted((0..<90).map { start + .seconds(640 * $0) }, after: last) {
                rate = ViewStatistics.rate(rate, viewedAfter: last.map { time - $0 })
                last = time
            }
            start = start + .days(1)
        }
        let views = rate * ViewStatistics.viewsPerHour
        #expect(views > 70 && views < 110, "\(views)")
        #expect(DailyBudget().reloads(for: ViewStatistics(viewsADay: views), at: start) == 70)
    }

    @Test("The budget is a rolling window of 24 hours: a token spent at 23:50 is not back at 00:00")
    func rollingWindow() {
        let late = time("2020-06-22T23:50:00Z")
        let midnight = time("2020-06-23T00:00:00Z")
        let ledger = spent(70, at: late)
        #expect(ledger.tokens(of: 70, at: midnight) == 0)
        #expect(ledger.spent(at: midnight) == 28)
        #expect(ledger.spent(at: late + .days(1) - .seconds(1)) == 28)
        #expect(ledger.spent(at: late + .days(1) + .minutes(10)) == 0)
    }

    @Test(
        "A learning period: the first three days after the placement count as often viewed",
        arguments: [(0, 40), (1, 40), (71, 40), (72, 8), (1000, 8)])
    func learning(hours: Int, reloads: Int) {
        let views = ViewStatistics(lastActive: now, lastPlaced: now)
        #expect(DailyBudget().reloads(for: views, at: now + .hours(hours)) == reloads)
        var looked = views
        looked.viewsADay = 60
        #expect(DailyBudget().reloads(for: looked, at: now + .hours(hours)) == 60, "the budget grows at once")
        #expect(DailyBudget(minimum: 4, maximum: 20).reloads(for: views, at: now) == 20, "the kind's maximum applies")
    }

    @Test(
        "A kind may have its own budget",
        arguments: [(0, 0, 1), (0, 1, 1), (5, 5, 5), (0, 100, 50), (60, 100, 60), (9, 3, 9)])
    func ownBudget(minimum: Int, maximum: Int, reloads: Int) {
        let budget = DailyBudget(minimum: minimum, maximum: maximum)
        #expect(budget.reloads(for: ViewStatistics(viewsADay: 50), at: now) == reloads)
    }

    @Test("Requests before a fetch are one reload, requests during it one more")
    func coalescing() {
        var row = SimpleRow(renderedAt: now)
        let later = now + .hours(1)
        for _ in 0..<1000 { row.request(.foreground) }
        var fetches = 0
        while row.isFetched(.test(), at: later) {
            fetches += 1
            let captured = row.state.requested
            if fetches == 1 { for _ in 0..<1000 { row.request(.foreground) } }
            row.store(.test(), serving: captured, at: later)
        }
        #expect(fetches == 2)
    }

    @Test("Developer mode lifts the limits")
    func developerMode() {
        let rules = ReloadRules.test(developerMode: true, isShared: true)
        let ledger = spent(70, at: now)
        for need in [ReloadNeed.budgeted, .policy] {
            let state = ReloadState(need: need, renderedAt: now, ledger: ledger, views: .often)
            #expect(rules.plan(state, at: now) == .fetch(rule: .developerMode, ledger: ledger))
        }
        #expect(rules.eligible(ReloadState(need: .budgeted, renderedAt: now, ledger: ledger), from: now).time == now)
        // A policy that is always in the past still does not cause a loop.
        #expect(rules.due(.atEnd, lastEntry: now - .seconds(5), renderedAt: now) == now + .seconds(1))
    }
}

@Suite("Design, part H: what users of the existing systems miss", .tags(.rules), .timeLimit(.patience))
struct DesignPartHTests {
    private let now = time("2020-06-22T10:00:00Z")

    @Test("Every decision and rule has a unique name and keeps its stored number")
    func names() {
        #expect(Set(Decision.allCases.map(\.name)).count == Decision.allCases.count)
        #expect(Set(ReloadRule.allCases.map(\.name)).count == ReloadRule.allCases.count)
        #expect(
            [Decision.reloaded, .unchanged, .failed, .deferred, .released, .slept].map(\.rawValue)
                == [1, 2, 3, 4, 5, 6])
        #expect(
            [ReloadRule.free, .first, .developerMode, .paced, .token, .spacing, .budget, .dormant].map(\.rawValue)
                == [1, 2, 3, 4, 5, 10, 11, 12])
    }

    @Test("A change of the policy alone is not a visible change")
    func gate() throws {
        let id = TimelineID(high: 1, low: 2)
        func hash(_ policy: String, content: String) throws -> ContentHash? {
            let text =
                #"{"timelines":[{"id":"\#(id)","policy":\#(policy),"entries":[{"date":"2020-06-22T10:00:00Z","#
                + #""content":\#(content)}]}]}"#
            let response = try ProviderResponse.parse(bytes(text), requested: [RequestedTimeline(id)])
            guard case .success(let parsed) = response.outcomes[0] else { return nil }
            return parsed.hash
        }
        let first = try #require(try hash(#"{"after":"2020-06-22T11:00:00Z"}"#, content: #"{"sky":"blue"}"#))
        #expect(try hash(#"{"after":"2020-06-22T12:00:00Z"}"#, content: #"{ "sky" : "blue" }"#) == first)
        #expect(try hash(#""never""#, content: #"{"sky":"blue"}"#) == first)
        #expect(try hash(#""never""#, content: #"{"sky":"grey"}"#) != first)
    }

    @Test("A fetch without a visible change spends a token")
    func gateSpends() {
        // The spent token and the next due time do not depend on the content.
        let rules = ReloadRules.test(budget: .always(1)).exact
        var row = SimpleRow(renderedAt: now - .days(1))
        row.state.policyAt = now
        #expect(row.isFetched(rules, at: now))
        row.store(rules, policy: .after(now), at: now)
        #expect(row.state.policyAt == now + .days(1))
    }

    @Test("After a failure the last good timeline stays, and even a free request waits for the back-off")
    func failure() {
        var row = SimpleRow(renderedAt: now - .hours(1))
        row.request(.push)
        row.state.retryAt = now + .seconds(30)
        row.request(.operator)
        #expect(row.state.nextLook(row.kind, at: now) == now + .seconds(30))
        #expect(!row.isFetched(.test(), at: now + .seconds(29)) && row.isFetched(.test(), at: now + .seconds(30)))
    }

    @Test("Lints are counted and never refused: gaps under 5 min, a single entry with atEnd, a full hour")
    func lints() {
        let examples: [(policy: ReloadPolicy, seconds: [Int], lints: TimelineLints)] = [
            (.atEnd, [0], .singleEntryAtEnd), (.never, [0], []), (.atEnd, [0, 300, 600], []),
            (.atEnd, [0, 299], .shortGap),
            // Equal dates do not count as a gap.
            (.atEnd, [0, 0, 300, 300], []), (.atEnd, [0, 0, 1], .shortGap), (.after(now), [0], .roundHour),
            (.after(now + .microseconds(1)), [0, 1], .shortGap), (.after(now), [0, 1], [.shortGap, .roundHour]),
            (.after(Timestamp(microseconds: -3_600_000_000)), [0], .roundHour),
            (.atEnd, [0, 1_800, 3_600], .roundHour),
        ]
        for (policy, seconds, lints) in examples {
            let found = TimelineLints(policy: policy, dates: seconds.map { now + .seconds($0) })
            #expect(found == lints, "\(policy), \(seconds)")
        }
    }
}

/// The part of a timeline's row that the rules change.
private struct SimpleRow {
    var state = TimelineState()
    var kind = KindGenerations()
    var facts: ReloadState

    init(renderedAt: Timestamp) {
        facts = ReloadState(need: .policy, renderedAt: renderedAt, views: .often)
    }

    mutating func request(_ reason: ReloadReason) {
        state.requested += 1
        if reason.urgency > .budgeted { state.freeRequested = state.requested }
        if reason.urgency > .free { state.forcedRequested = state.requested }
    }

    func isFetched(_ rules: ReloadRules, at time: Timestamp) -> Bool {
        if case .fetch = rules.decide(state, kind, facts: facts, sweep: nil, at: time) { true } else { false }
    }

    /// Stores a fetched timeline.
    ///
    /// - Parameter serving: `requested` at the claim; nil for all requests.
    mutating func store(
        _ rules: ReloadRules, serving captured: Int64? = nil, policy: ReloadPolicy = .never, at now: Timestamp
    ) {
        if case .fetch(_, let ledger) = rules.decide(state, kind, facts: facts, sweep: nil, at: now) {
            facts.ledger = ledger
        }
        let next = rules.next(
            policy: policy, lastEntry: now, renderedAt: now, timeline: .punctual, ledger: facts.ledger,
            views: facts.views)
        state.rendered = captured ?? state.requested
        state.generation = kind.current
        state.eligibleAt = next.eligibleAt
        state.freeAt = next.freeAt
        state.policyAt = next.policyAt
        facts.renderedAt = now
    }
}
