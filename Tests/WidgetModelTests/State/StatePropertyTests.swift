import Simulation
import Testing

@testable import WidgetModel

/// Random histories of one timeline, with workers that fail, stop, and come back too late.
@Suite("Timelines: random histories", .tags(.rules, .property), .timeLimit(.minutes(5)))
struct StatePropertyTests {
    /// What was asked for, and when the fetch began that has rendered it.
    private struct Asked {
        let at: Timestamp
        let order: Int
    }

    private struct History {
        var timeline: TimelineStateMachine
        var scope = ScopeGenerations()
        var now = time("2020-06-22T10:00:00Z")
        var random: SeededGenerator
        let rules: ReloadRules
        var number: Int64 = 0
        /// Claims that workers still hold, or think that they do, with what they were planned as.
        var held: [(claim: TimelineClaim, ledger: BudgetLedger, order: Int)] = []
        /// Not rendered yet.
        var asked: [Asked] = []
        var order = 0
        var fetches = 0
        var requests = 0
        var budgeted: [Timestamp] = []
        var renders: [Timestamp] = []

        init(seed: UInt64) {
            random = SeededGenerator(seed: seed)
            rules = .test(
                spacing: .seconds(Int.random(in: 0...900, using: &random)),
                budget: .always(Int.random(in: 1...40, using: &random)), isShared: Bool.random(using: &random))
            timeline = TimelineStateMachine(placedAt: now, lane: .interactive, in: scope)
            ask()
        }

        mutating func ask() {
            order += 1
            requests += 1
            asked.append(Asked(at: now, order: order))
        }

        var urgency: RequestUrgency {
            mutating get { RequestUrgency.allCases.randomElement(using: &random) ?? .budgeted }
        }

        mutating func happen() {
            switch Int.random(in: 0..<20, using: &random) {
            case 0...2:
                let urgency = urgency
                _ = timeline.request(urgency: urgency, lane: .push, at: now)
                ask()
            case 3:
                let urgency = urgency
                if Bool.random(using: &random) {
                    scope.kind.bump(urgency: urgency)
                } else {
                    scope.app.bump(urgency: urgency)
                }
                ask()
            case 4...5: _ = timeline.sweep(to: scope, at: now)
            case 6: _ = timeline.view(at: now)
            case 7:
                number += 1
                timeline.republish(claim: number, at: now)
            case 8: now = now + .seconds(Int.random(in: 0...100_000, using: &random))
            case 9...11: now = now + .seconds(Int.random(in: 0...600, using: &random))
            default: work()
            }
        }

        /// A worker claims, or one that has a claim ends it in one of the ways that there are.
        mutating func work() {
            if held.isEmpty || Bool.random(using: &random) { return claim() }
            guard let index = held.indices.randomElement(using: &random) else { return }
            let (claim, ledger, order) = held.remove(at: index)
            switch Int.random(in: 0..<10, using: &random) {
            case 0: _ = timeline.fail(claim, delay: .seconds(Int.random(in: 0...60, using: &random)), at: now)
            case 1: _ = timeline.release(claim, at: now)
            case 2: break
            default: complete(claim, ledger: ledger, order: order)
            }
        }

        mutating func claim() {
            number += 1
            let order = order
            guard let claim = timeline.claim(number: number, lease: .minutes(1), in: scope, at: now) else { return }
            switch rules.plan(claim.state, at: now) {
            case .reload(_, let ledger):
                fetches += 1
                held.append((claim, ledger, order))
            case .wait(let until, _): _ = timeline.wait(claim, until: until, at: now)
            case .sleep: _ = timeline.sleep(claim, at: now)
            }
        }

        mutating func complete(_ claim: TimelineClaim, ledger: BudgetLedger, order: Int) {
            let before = timeline
            let policy: ReloadPolicy =
                Bool.random(using: &random) ? .never : .after(now + .seconds(Int.random(in: 0...9000, using: &random)))
            let hash = ContentHash(high: UInt64(claim.number), low: 0)
            let ending = timeline.complete(
                rules.completion(
                    of: claim, timeline: .punctual, policy: policy, lastEntry: now, ledger: ledger,
                    publishedHash: hash, at: now), at: now)
            guard ending != .fenced else {
                #expect(timeline == before)
                return
            }
            if ledger != claim.state.ledger { budgeted.append(claim.claimedAt) }
            renders.append(now)
            #expect(timeline.rendered >= before.rendered)
            #expect(timeline.renderedKindGeneration >= before.renderedKindGeneration)
            #expect(timeline.renderedAppGeneration >= before.renderedAppGeneration)
            // All that was asked for before the fetch began.
            asked.removeAll { $0.order <= order }
        }

        /// Workers that neither fail nor stop, and a sweeper that comes by.
        mutating func settle() {
            held = []
            for _ in 0..<1000 {
                _ = timeline.sweep(to: scope, at: now)
                guard !asked.isEmpty || timeline.isLeased else { return }
                now = max(now, timeline.dueAt)
                claim()
                if let (claim, ledger, order) = held.popLast() { complete(claim, ledger: ledger, order: order) }
            }
        }
    }

    @Test("whatever happens, nothing that was asked for is lost, and no budget is exceeded", arguments: 1...60)
    func histories(seed: UInt64) {
        var history = History(seed: seed)
        for step in 0..<400 {
            history.happen()
            let timeline = history.timeline
            guard timeline.rendered <= timeline.requested, timeline.freeRequested <= timeline.requested,
                timeline.renderedKindGeneration <= history.scope.kind.current,
                timeline.renderedAppGeneration <= history.scope.app.current,
                timeline.sweptGeneration <= history.scope.sum
            else {
                Issue.record("step \(step): \(timeline)")
                return
            }
        }
        let asked = history.now
        history.settle()
        #expect(history.asked.isEmpty, "\(history.asked.count) requests were never served")
        #expect(history.timeline.rendered == history.timeline.requested)
        let scope = history.scope
        #expect(history.timeline.need(in: scope) == .policy)
        #expect(history.now - asked <= .days(1) + .minutes(15), "within the budget's pace and the spacing")
        #expect(mostInADay(history.budgeted) <= history.rules.budget.maximum)
    }
}
