// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import WidgetModel

@Suite(.tags(.rules), .timeLimit(.patience))
struct ExplanationTests {
    private static let now = time("2026-06-22T10:00:00Z")
    private static let hour = Duration.seconds(3_600)

    /// Rendered two hours ago, viewed often, with a policy time in three hours.
    private static func facts(_ change: (inout ReloadFacts) -> Void = { _ in }) -> ReloadFacts {
        var facts = ReloadFacts(readAt: now)
        facts.timeline.requested = 4
        facts.timeline.rendered = 4
        facts.renderedAt = now - hour * 2
        facts.timeline.policyAt = now + hour * 3
        facts.listedAt = now + hour * 3
        facts.isStored = true
        facts.views = ViewStatistics(
            viewsADay: 50, lastActive: now - hour, lastPlaced: now - hour * 24 * 30)
        change(&facts)
        return facts
    }

    private static func rules(
        spacing: Duration = .seconds(300), developerMode: Bool = false, shared: Bool = false
    ) -> ReloadRules {
        ReloadRules(
            minimumSpacing: spacing, developerMode: developerMode, isShared: shared)
    }

    private static func explain(
        rules: ReloadRules = rules(), _ change: (inout ReloadFacts) -> Void = { _ in }
    ) -> Explanation {
        Explanation(facts(change), rules: rules)
    }

    /// A ledger with tokens spent in the last minutes.
    private static func spent(_ count: Int, of budget: Int) -> BudgetLedger {
        var ledger = BudgetLedger()
        for index in 0..<count {
            ledger.spend(of: budget, at: now - .seconds(Int64(count - index) * 60))
        }
        return ledger
    }

    private static func outage(processes: Int = 2) -> ProviderOutage {
        ProviderOutage(
            provider: "http://p", since: now - .seconds(60), probeAt: now + .seconds(20),
            message: "connection: refused", processes: processes, workers: 2)
    }

    /// A state with its expected status, rule and text.
    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var rules = ExplanationTests.rules()
        let status: Explanation.Status
        let rule: ReloadRule?
        let says: [String]
        let change: @Sendable (inout ReloadFacts) -> Void

        init(
            _ description: String, rules: ReloadRules = ExplanationTests.rules(), _ status: Explanation.Status,
            _ rule: ReloadRule?, _ says: [String], _ change: @escaping @Sendable (inout ReloadFacts) -> Void
        ) {
            testDescription = description
            self.rules = rules
            self.status = status
            self.rule = rule
            self.says = says
            self.change = change
        }
    }

    static let states: [Case] = [
        Case("idle", .waiting, .policy, ["policy's time", "2026-06-22T13:00:00Z", "in 3 h 0 min"]) { _ in },
        Case("never, only on request", .onRequest, .policy, ["only a request"]) {
            $0.timeline.policyAt = .distantFuture
            $0.listedAt = .distantFuture
        },
        Case("budgeted request, spacing", .waiting, .spacing, ["spacing of 5 min", "in 3 min 20 s"]) {
            $0.timeline.requested = 5
            $0.renderedAt = now - .seconds(100)
            $0.timeline.eligibleAt = now + .seconds(200)
        },
        Case("budgeted request, no token", .waiting, .budget, ["waits for a token: next at", "in 30 min"]) {
            $0.timeline.requested = 5
            $0.ledger = spent(60, of: 50)
            $0.timeline.eligibleAt = now + .seconds(1_800)
        },
        Case("after failures", .waiting, .backoff, ["after 3 failures", "in 1 min 30 s"]) {
            $0.timeline.requested = 5
            $0.timeline.freeRequested = 5
            $0.attempts = 3
            $0.timeline.retryAt = now + .seconds(90)
        },
        Case("free request of a shared kind", rules: rules(shared: true), .waiting, .spacing, ["spacing of 5 min"]) {
            $0.timeline.requested = 5
            $0.timeline.freeRequested = 5
            $0.timeline.freeAt = now + .seconds(60)
        },
        Case("due by a free request", .due, .free, ["interactive lane", "as soon as a worker has room"]) {
            $0.timeline.requested = 5
            $0.timeline.freeRequested = 5
            $0.lane = .interactive
            $0.listedAt = now - .seconds(2)
        },
        Case("due for the first time", .due, .first, ["never been rendered"]) {
            $0.renderedAt = nil
            $0.timeline.requested = 1
            $0.timeline.rendered = 0
            $0.timeline.freeRequested = 1
            $0.listedAt = now
        },
        Case("due, budgeted, with a token", .due, .paced, ["as soon as"]) {
            $0.timeline.requested = 5
            $0.listedAt = now
        },
        Case("due, budgeted, without a token", .due, .budget, ["will be deferred: waits for a token"]) {
            $0.timeline.requested = 5
            $0.ledger = spent(60, of: 50)
            $0.listedAt = now
        },
        Case("due in developer mode", rules: rules(developerMode: true), .due, .developerMode, ["developer mode"]) {
            $0.timeline.requested = 5
            $0.ledger = spent(60, of: 50)
            $0.listedAt = now
        },
        Case(
            "due, but its provider gets no requests", .due, .providerResting,
            [
                "interactive lane: waits for provider http://p, which gets no requests since 2026-06-22T09:59:00Z: ",
                "connection: refused; next probe at 2026-06-22T10:00:20Z (in 20 s)",
            ]
        ) {
            $0.timeline.requested = 5
            $0.timeline.freeRequested = 5
            $0.lane = .interactive
            $0.listedAt = now - .seconds(40)
            $0.outage = outage()
        },
        Case("due, and another process asks its provider", .due, .free, ["as soon as a worker has room"]) {
            $0.timeline.requested = 5
            $0.timeline.freeRequested = 5
            $0.listedAt = now
            $0.outage = outage(processes: 1)
        },
        Case("lease expired, provider without requests", .leaseEnded, .providerResting, ["waits for provider"]) {
            $0.lease = (token: 7, endsAt: now - .seconds(1))
            $0.outage = outage()
        },
        Case("due by policy, not viewed", .due, .dormant, ["will sleep: not viewed since 2026-06-01"]) {
            $0.views.lastActive = time("2026-06-01T00:00:00Z")
            $0.timeline.policyAt = now
            $0.listedAt = now
        },
        Case("asleep", .sleeping, .dormant, ["sleeps: not viewed since 2026-06-01T00:00:00Z", "wakes"]) {
            $0.views.lastActive = time("2026-06-01T00:00:00Z")
            $0.decision = .slept
            $0.timeline.isAsleep = true
            $0.listedAt = .distantFuture
        },
        Case("being fetched", .fetching, .inFlight, ["a worker is fetching it", "in 20 s"]) {
            $0.lease = (token: 7, endsAt: now + .seconds(20))
            $0.timeline.requested = 5
        },
        Case("lease expired", .leaseEnded, .inFlight, ["another one takes it"]) {
            $0.lease = (token: 7, endsAt: now - .seconds(1))
        },
        Case(
            "paused kind", .paused, .operatorCommand,
            ["reloads of the kind are paused by an operator since 2026-06-22T09:00:00Z"]
        ) {
            $0.kindPause = OperatorAction(at: now - hour, note: nil)
            $0.listedAt = now
        },
        Case(
            "paused app", .paused, .operatorCommand,
            ["reloads of the app are paused by ada since 2026-06-22T09:00:00Z; reason: \"a \\\"new\\\" schema\""]
        ) {
            $0.appPause = OperatorAction(at: now - hour, note: OperatorNote(by: "ada", reason: "a \"new\" schema"))
        },
        Case("reload of everyone, not swept", .waiting, nil, ["waits for the sweeper"]) {
            $0.kind.current = 3
            $0.timeline.generation = 2
            $0.timeline.policyAt = .distantFuture
            $0.listedAt = .distantFuture
        },
        Case("retired", .retired, nil, ["retired"]) { $0.isRetired = true },
        Case("collected", .orphaned, nil, ["no widget shows it"]) { $0.timeline.isOrphaned = true },
    ]

    @Test("The next step is explained with its rule", arguments: states)
    func next(_ state: Case) {
        let explanation = Explanation(Self.facts(state.change), rules: state.rules)
        #expect(explanation.status == state.status)
        #expect(explanation.next.rule == state.rule)
        for part in state.says { #expect(explanation.next.text.contains(part), "\(explanation.next)") }
        if let rule = state.rule { #expect("\(explanation.next)".hasSuffix("(rule \(rule.name))")) }
    }

    /// The explanation matches the worker's plan for a due timeline.
    @Test("The explanation of a due timeline matches its plan", arguments: states)
    func plan(_ state: Case) {
        let explanation = Explanation(Self.facts(state.change), rules: state.rules)
        guard explanation.status == .due else { return }
        // An open breaker keeps the plan from being carried out.
        guard explanation.next.rule != .providerResting else { return }
        switch state.rules.plan(explanation.facts.state, at: Self.now) {
        case .fetch(let rule, _): #expect(explanation.next.rule == rule)
        case .wait(let until, let rule):
            #expect(explanation.next.rule == rule)
            #expect(explanation.next.text.contains(until.wholeSeconds))
        case .sleep: #expect(explanation.next.rule == .dormant)
        case .collect, .nothing: Issue.record("no outcome of a plan")
        }
    }

    @Test(
        "Every decision reports its rule",
        arguments: [
            (Decision.reloaded, ReloadRule.token, "reloaded at 2026-06-22T09:59:48Z (12 s ago): a token"),
            (.reloaded, .free, "a free reason takes no budget"), (.unchanged, .paced, "neither written nor published"),
            (.failed, .providerTimeout, "the provider did not answer in time; the content before it stays"),
            (.deferred, .budget, "deferred at"), (.deferred, .spacing, "spacing"), (.released, .stopped, "given back"),
            (.slept, .dormant, "put to sleep"),
            (.merged, .coalescing, "merged"), (.refused, .invalidEvent, "the event cannot be applied"),
        ])
    func decisions(decision: Decision, rule: ReloadRule, text: String) {
        let explanation = Self.explain {
            $0.decision = decision
            $0.rule = rule
            $0.decidedAt = Self.now - .seconds(12)
        }
        #expect(explanation.last.rule == rule)
        #expect(explanation.last.text.contains(text), "\(explanation.last)")
    }

    @Test("A decision that was stored without a rule has its usual rule")
    func usualRules() {
        let usual: [(Decision, ReloadRule?)] = [
            (.unchanged, .gate), (.slept, .dormant), (.released, .stopped),
            (.merged, .coalescing), (.refused, .invalidEvent), (.none, nil), (.reloaded, nil),
        ]
        for (decision, rule) in usual { #expect(Self.explain { $0.decision = decision }.last.rule == rule) }
    }

    @Test("Names are unique, and every rule has an explanation")
    func names() {
        #expect(Set(Decision.allCases.map(\.name)).count == Decision.allCases.count)
        #expect(Set(ReloadRule.allCases.map(\.name)).count == ReloadRule.allCases.count)
        #expect(Set(ReloadRule.allCases.map(\.meaning)).count == ReloadRule.allCases.count)
    }

    @Test("Many requests are one reload")
    func merged() {
        let explanation = Self.explain {
            $0.timeline.requested = 7
            $0.kind.current = 3
            $0.timeline.generation = 1
            $0.listedAt = Self.now
        }
        #expect(explanation.notes == [.init("merged: 5 requests are one reload", .coalescing)])
        #expect(Self.explain { $0.timeline.requested = 5 }.notes.isEmpty)
    }

    @Test("A provider without requests is named once: as the reason of the wait, or beside another one")
    func outage() {
        let held = Self.explain {
            $0.timeline.requested = 5
            $0.listedAt = Self.now
            $0.outage = Self.outage()
        }
        #expect(held.next.text.contains("http://p") && held.notes.isEmpty && held.nextAt == Self.now + .seconds(20))
        let policy = Self.explain { $0.outage = Self.outage(processes: 1) }
        #expect(policy.next.rule == .policy && policy.notes.map(\.rule) == [.providerResting])
        #expect(policy.notes[0].text.contains("no requests from 1 of 2 worker processes since"))
        #expect(Self.explain { ($0.outage, $0.isRetired) = (Self.outage(), true) }.notes.isEmpty)
    }

    @Test("Pending and cancelled reloads of everyone are explained")
    func everyone() {
        let waiting = Self.explain {
            $0.kind = KindGenerations(current: 5)
            $0.timeline.generation = 2
        }
        #expect(waiting.facts.everyonePending == 3 && waiting.facts.pending == 3)
        #expect(waiting.facts.need == .budgeted)

        let cancelled = Self.explain {
            $0.kind = KindGenerations(current: 5, free: 5, cancelled: 5)
            $0.timeline.generation = 2
        }
        #expect(cancelled.facts.isEveryoneCancelled && cancelled.facts.pending == 0)
        #expect(!cancelled.facts.isStale && cancelled.facts.need == .policy)
        #expect(cancelled.notes == [.init("3 reloads of everyone cancelled by an operator", .operatorCommand)])

        let since = Self.explain {
            $0.kind = KindGenerations(current: 6, cancelled: 5)
            $0.timeline.generation = 2
        }
        #expect(!since.facts.isEveryoneCancelled, "a reload of everyone follows the cancellation")
    }

    @Test("The explained purpose of the next fetch is that of the plan")
    func need() {
        #expect(Self.explain { $0.renderedAt = nil }.facts.need == .first)
        #expect(Self.explain().facts.need == .policy)
        #expect(Self.explain { $0.timeline.requested = 5 }.facts.need == .budgeted)
        #expect(
            Self.explain {
                $0.timeline.requested = 6
                $0.timeline.freeRequested = 5
            }.facts.need == .free, "one of them is free")
        #expect(
            Self.explain {
                $0.timeline.requested = 5
                $0.timeline.freeRequested = 4
            }.facts.need == .budgeted, "the free one was rendered")
        #expect(Self.explain { $0.kind = KindGenerations(current: 1, free: 1) }.facts.need == .free)
    }

    @Test("The budget has the tokens left and the time of the next one")
    func budget() {
        let full = Self.explain()
        #expect(full.reloadsADay == 50 && full.tokensLeft == 21 && full.nextTokenAt == nil)

        // The first of them was a paced token.
        let some = Self.explain { $0.ledger = Self.spent(6, of: 50) }
        #expect(some.spentAtWill == 5 && some.tokensLeft == 15)
        #expect(some.nextTokenAt == Self.now - .seconds(360) + BudgetLedger.pace(of: 50))

        let none = Self.explain { $0.ledger = Self.spent(60, of: 50) }
        #expect(none.tokensLeft == 0)
        #expect(none.nextTokenAt == none.eligible.time && none.eligible.rule == .budget)

        let lifted = Self.explain(rules: Self.rules(developerMode: true)) { $0.ledger = Self.spent(60, of: 50) }
        #expect(lifted.rules.developerMode && lifted.eligible.time == Self.now)
        #expect(lifted.budget == "lifted by developer mode")
    }

    @Test("Tomorrow's budget is what can be spent when the day begins where the widget is")
    func tomorrow() {
        #expect(Self.explain().tokensLeftTomorrow == 21)
        let some = Self.explain { $0.ledger = Self.spent(6, of: 50) }
        #expect(some.tomorrow == time("2026-06-23T00:00:00Z") && some.tokensLeftTomorrow == 16)
        let start = "50 in 24 h: 15 can be used at once, one more at 2026-06-22T10:"
        #expect(some.budget.hasPrefix(start), "\(some.budget)")
        #expect(some.budget.hasSuffix("; 16 when tomorrow begins at 2026-06-23T00:00:00Z (in 14 h 0 min)"))

        // The tokens of now come back ten minutes after tomorrow's 10:00.
        let none = Self.explain { ($0.ledger, $0.timeZone) = (Self.spent(60, of: 50), "Asia/Tokyo") }
        #expect(none.tomorrow == time("2026-06-22T15:00:00Z") && none.tokensLeftTomorrow == 1)
        let unknown = Self.explain { $0.timeZone = "Mars/Olympus" }
        #expect(unknown.tomorrow == time("2026-06-23T00:00:00Z"))
    }

    @Test("A kind's budget has the means of its timelines, and the next token of those without")
    func kindBudget() throws {
        let often = ViewStatistics(viewsADay: 50)
        let ledgers = [BudgetLedger(), Self.spent(6, of: 50), Self.spent(60, of: 50), Self.spent(61, of: 50)]
        let budget = try #require(
            KindBudget(of: ledgers.map { ($0, often) }, rules: Self.rules(), at: Self.now))
        #expect(budget.timelines == 4 && budget.withoutToken == 2)
        #expect(budget.left == Double(21 + 15) / 4 && budget.leftTomorrow == Double(21 + 16 + 1 + 1) / 4)
        #expect(budget.nextTokenAt == ledgers[2...].map { $0.available(of: 50, from: Self.now) }.min())
        #expect(budget.tomorrow == time("2026-06-23T00:00:00Z"))
        let full = try #require(KindBudget(of: [(BudgetLedger(), often)], rules: Self.rules(), at: Self.now))
        #expect(full.withoutToken == 0 && full.nextTokenAt == nil)
        #expect(KindBudget(of: [], rules: Self.rules(), at: Self.now) == nil)
    }

    @Test("The next token's time is the first with more tokens")
    func nextToken() {
        for (spent, budget) in [(1, 8), (3, 8), (9, 8), (30, 50), (60, 50), (4, 1), (5, 2)] {
            let ledger = Self.spent(spent, of: budget)
            var time = Self.now
            for _ in 0..<6 {
                let before = ledger.tokens(of: budget, at: time)
                guard let next = ledger.nextToken(of: budget, after: time) else {
                    #expect(
                        before == BudgetLedger.atWill(of: budget) + 1, "\(spent) of \(budget): all tokens are available"
                    )
                    break
                }
                #expect(next > time)
                #expect(ledger.tokens(of: budget, at: next) > before, "\(spent) of \(budget) at \(next)")
                #expect(ledger.tokens(of: budget, at: next - .microseconds(1)) <= before, "\(spent) of \(budget)")
                time = next
            }
        }
    }

    @Test("A timeline is dormant only after the kind's time, and not for pending requests")
    func dormant() {
        let old = Self.now - .seconds(15 * 86_400)
        #expect(Self.explain { $0.views.lastActive = old }.isDormant)
        #expect(!Self.explain { $0.views.lastActive = Self.now - .seconds(13 * 86_400) }.isDormant)
        #expect(
            !Self.explain {
                $0.views.lastActive = old
                $0.requestedAt = Self.now - Self.hour
            }.isDormant)
        #expect(!Self.explain { $0.views.lastActive = nil }.isDormant, "more widgets than are counted")
    }

    @Test("Durations in words")
    func words() {
        let spans: [(Duration, String)] = [
            (.zero, "0.0 s"), (.milliseconds(1_250), "1.2 s"), (.seconds(59), "59 s"), (.seconds(61), "1 min 1 s"),
            (.seconds(3_660), "1 h 1 min"), (.seconds(90_000), "1 d 1 h"), (.seconds(-5), "0.0 s"),
        ]
        for (span, words) in spans { #expect(span.words == words) }
        #expect((Self.now + .milliseconds(1_500)).wholeSeconds == "2026-06-22T10:00:01Z")
        #expect((Self.now + .seconds(65)).words(from: Self.now) == "at 2026-06-22T10:01:05Z (in 1 min 5 s)")
        #expect((Self.now - .seconds(65)).words(from: Self.now) == "at 2026-06-22T09:58:55Z (1 min 5 s ago)")
    }
}
