// SPDX-License-Identifier: Apache-2.0

import JSON
import Randomness
import TestSupport
import Testing

@testable import WidgetModel

@Suite(.tags(.rules), .timeLimit(.patience))
struct ReloadRulesTests {
    private let now = time("2020-06-22T10:00:00Z")

    /// A timeline rendered at a time with a ledger whose tokens were all spent then.
    private func exhausted(_ need: ReloadNeed, at time: Timestamp, budget: Int = 70) -> ReloadState {
        var state = ReloadState(need: need, renderedAt: time, views: .often)
        while state.ledger.tokens(of: budget, at: time) > 0 { state.ledger.spend(of: budget, at: time) }
        return state
    }

    @Test(
        "A need waits for spacing and budget, depending on developer mode and sharing", arguments: [false, true],
        [false, true])
    func plans(developerMode: Bool, isShared: Bool) {
        let rules = ReloadRules.test(developerMode: developerMode, isShared: isShared)
        let second = now + .seconds(1)
        func rule(_ state: ReloadState) -> ReloadRule? { rules.plan(state, at: second).reloadRule }
        #expect(rule(exhausted(.first, at: now)) == .first)
        #expect(rule(exhausted(.free, at: now)) == .free)
        for need in [ReloadNeed.budgeted, .policy] {
            let state = exhausted(need, at: now)
            let spaced = ReloadState(need: need, renderedAt: now, views: .often)
            guard !developerMode else {
                #expect(rule(state) == .developerMode && rule(spaced) == .developerMode)
                continue
            }
            #expect(rules.plan(state, at: second) == .wait(until: now + BudgetLedger.pace(of: 70), rule: .budget))
            #expect(rules.plan(spaced, at: second) == .wait(until: now + .minutes(5), rule: .spacing))
            #expect(rule(ReloadState(need: need, views: .often)) == .paced)
        }
    }

    @Test("A paced token is spent first, then burst tokens")
    func tokens() {
        let rules = ReloadRules.test(spacing: .zero, budget: .always(8))
        var state = ReloadState(need: .budgeted, renderedAt: now - .hours(1), views: .often)
        var plans: [ReloadRule?] = []
        for _ in 0..<5 {
            let plan = rules.plan(state, at: now)
            plans.append(plan.reloadRule)
            state.ledger = plan.ledger ?? state.ledger
        }
        #expect(plans == [.paced, .token, .token, .token, nil])
        #expect(rules.plan(state, at: now) == .wait(until: now + .seconds(17_280), rule: .budget))
    }

    @Test("Only budgeted reloads spend tokens")
    func whatSpends() {
        for need in [ReloadNeed.first, .free, .budgeted, .policy] {
            let state = ReloadState(need: need, renderedAt: need == .first ? nil : now - .hours(1), views: .often)
            let spends = need == .budgeted || need == .policy
            #expect((ReloadRules.test().plan(state, at: now).ledger != state.ledger) == spends)
            #expect(ReloadRules.test(developerMode: true).plan(state, at: now).ledger == state.ledger)
        }
    }

    @Test("The longer delay of spacing and budget applies")
    func longer() {
        let rules = ReloadRules.test(spacing: .hours(2))
        let state = exhausted(.budgeted, at: now)
        #expect(rules.plan(state, at: now) == .wait(until: now + .hours(2), rule: .spacing))
        // A free reload in between restarts the spacing and takes no token.
        var rendered = state
        rendered.renderedAt = now + .hours(1)
        #expect(rules.plan(rendered, at: now + .hours(2)) == .wait(until: now + .hours(3), rule: .spacing))
    }

    /// Days since the last view and the last request; nil for never or unknown.
    @Test(
        "Without views for the kind's dormantAfter no policy reloads, until a view, placement or request",
        arguments: [
            (0, nil, false), (13, nil, false), (14, nil, true), (400, nil, true), (14, 13, false), (14, 14, true),
            (13, 400, false), (nil, nil, false), (nil, 400, false),
        ] as [(Int?, Int?, Bool)])
    func dormancy(viewed: Int?, asked: Int?, sleeps: Bool) {
        for developerMode in [false, true] {
            let rules = ReloadRules.test(developerMode: developerMode)
            var state = ReloadState(
                need: .policy, renderedAt: now - .hours(1), requestedAt: asked.map { now - .days($0) },
                views: ViewStatistics(lastActive: viewed.map { now - .days($0) }))
            #expect((rules.plan(state, at: now) == .sleep) == sleeps)
            #expect(rules.isDormant(state, at: now) == sleeps)
            // A request is always satisfied.
            for need in [ReloadNeed.first, .free, .budgeted] {
                state.need = need
                #expect(rules.plan(state, at: now).reloadRule != nil)
            }
        }
        var short = ReloadRules.test()
        short.dormantAfter = .hours(1)
        let state = ReloadState(need: .policy, views: ViewStatistics(lastActive: now - .hours(1)))
        #expect(short.plan(state, at: now) == .sleep)
        #expect(short.plan(state, at: now - .microseconds(1)).reloadRule != nil)
    }

    @Test("The rules of a kind have its spacing, tolerance, budget, dormancy and sharing")
    func ofKind() {
        let kind = KindDefinition(
            name: "k", sharing: .shared, providerURL: "http://p", minimumSpacing: .seconds(60),
            dailyBudget: DailyBudget(minimum: 2, maximum: 3), placeholder: nil, dormantAfter: .days(1),
            reloadTolerance: .seconds(7))
        let rules = ReloadRules(kind, developerMode: true)
        #expect(
            rules
                == ReloadRules(
                    minimumSpacing: .seconds(60), developerMode: true, tolerance: .seconds(7),
                    budget: DailyBudget(minimum: 2, maximum: 3), dormantAfter: .days(1), isShared: true))
        #expect(
            ReloadRules(KindDefinition(name: "k", providerURL: "http://p", placeholder: nil), developerMode: false)
                == .test())
    }

    @Test("After a reload the policy's time is not before spacing and budget allow")
    func next() {
        let rules = ReloadRules.test(budget: .always(8)).exact
        let spent = exhausted(.policy, at: now, budget: 8).ledger
        func next(_ policy: ReloadPolicy, _ ledger: BudgetLedger) -> ReloadRules.Next {
            rules.next(
                policy: policy, lastEntry: now, renderedAt: now, timeline: .punctual, ledger: ledger, views: .often)
        }
        #expect(next(.atEnd, BudgetLedger()).policyAt == now + .minutes(5))
        #expect(next(.atEnd, BudgetLedger()).eligibleAt == now + .minutes(5))
        #expect(next(.atEnd, spent).policyAt == now + .seconds(17_280))
        #expect(next(.after(now + .hours(6)), spent).policyAt == now + .hours(6))
        let never = next(.never, spent)
        #expect(never.policyAt == .distantFuture)
        #expect(never.eligibleAt == now + .seconds(17_280))
        #expect(next(.after(.distantFuture), spent).policyAt == .distantFuture)
    }

    @Test("A provider whose policy is always in the past causes no loop, even with neither spacing nor budget")
    func pastPolicy() {
        let free = ReloadRules.test(spacing: .zero, developerMode: true)
        #expect(free.due(.atEnd, lastEntry: now - .days(1), renderedAt: now) == now + .seconds(1))
        #expect(ReloadRules(minimumSpacing: .seconds(-5)).spaced(after: now) == now)
    }

    @Test("Free reasons wait for the spacing of shared kinds only, and not in developer mode")
    func freeAt() {
        for (isShared, developerMode) in [(false, false), (true, false), (false, true), (true, true)] {
            let rules = ReloadRules.test(developerMode: developerMode, isShared: isShared).exact
            let next = rules.next(
                policy: .never, lastEntry: now, renderedAt: now, timeline: .punctual, ledger: BudgetLedger(),
                views: .often)
            #expect(next.freeAt == (isShared && !developerMode ? now + .minutes(5) : .distantPast))
            #expect(next.eligibleAt == (developerMode ? .distantPast : now + .minutes(5)))
        }
    }

    /// A deferred timeline is reloaded at the planned time or, after a reduction of its budget, at the next possible
    /// time.
    @Test("A deferred reload is never dropped", .tags(.property), arguments: 1...20)
    func neverDrops(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        for _ in 0..<100 {
            let rules = ReloadRules.test(
                spacing: .seconds(Int.random(in: 0...7200, using: &random)),
                budget: DailyBudget(
                    minimum: Int.random(in: 0...20, using: &random), maximum: Int.random(in: 1...100, using: &random)))
            let views = ViewStatistics(
                viewsADay: Double.random(in: 0...100, using: &random), lastActive: now,
                lastPlaced: Bool.random(using: &random) ? now - .hours(Int.random(in: 0...80, using: &random)) : nil)
            var state = ReloadState(need: Bool.random(using: &random) ? .budgeted : .policy, views: views)
            var time = now
            for _ in 0..<30 {
                time = time + .seconds(Int.random(in: 0...600, using: &random))
                guard let ledger = rules.plan(state, at: time).ledger else { continue }
                state.ledger = ledger
                state.renderedAt = time
            }
            let asked = time
            var waits = 0
            while case .wait(let until, let rule) = rules.plan(state, at: time) {
                guard until > time, rule == .spacing || rule == .budget else {
                    Issue.record("waits until \(until) at \(time) for \(rule)")
                    return
                }
                #expect(rules.eligible(state, from: time).time == until)
                time = until
                waits += 1
            }
            #expect(rules.plan(state, at: time).reloadRule != nil)
            // One more if the learning period ends in between.
            #expect(waits <= 2)
            let longest = max(rules.spacing, BudgetLedger.pace(of: rules.reloadsADay(state, at: time)))
            #expect(time - asked <= longest)
        }
    }
}
