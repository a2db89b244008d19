import Testing
import WidgetModel

@testable import ReloadWorkers
@testable import WidgetStore

@Suite("Decisions about claimed timelines")
struct DeciderTests {
    private func decide(_ lists: LeasedList..., kinds: [RegisteredKind] = [Sample.kind()]) -> Decisions {
        Decider(directory: Sample.directory(kinds))
            .decide(lists, token: 7, startedAt: .seconds(1), leaseEnds: .seconds(31))
    }

    private func rendered(requested: Int64 = 1, generation: Int64 = 0) -> TimelineState {
        TimelineState(
            requested: requested, rendered: 1, generation: generation, eligibleAt: Sample.now - .seconds(1),
            policyAt: Sample.now + .seconds(3_600))
    }

    /// Returns the settlement of a single decision.
    private func settlement(_ decisions: Decisions) throws -> TimelineSettlement {
        #expect(decisions.fetches.isEmpty && decisions.collections.isEmpty && decisions.settled.isEmpty)
        #expect(decisions.settlements.count == 1)
        return try #require(decisions.settlements.first)
    }

    @Test("A timeline that was never rendered is fetched, with the claim's token and lease")
    func fetches() throws {
        let decisions = decide(Sample.list(5, rows: [10, 11], lane: .interactive, lease: 7))
        #expect(decisions.fetches.map(\.timeline.row) == [10, 11] && decisions.settlements.isEmpty)
        let item = try #require(decisions.fetches.first)
        #expect(item.token == 7 && item.startedAt == .seconds(1) && item.leaseEnds == .seconds(31))
        #expect(item.rule == .first && item.lane == .interactive && item.kind.id == 11)
        #expect(item.list.hold == ListHold(id: 5, lease: 7) && item.list.timelines.isEmpty)
        #expect(item.settled.list == ListHold(id: 5, lease: 7) && item.settled.row == 10)
    }

    @Test("A budgeted request is fetched with a budget token")
    func paced() throws {
        let state = rendered(requested: 2)
        let decisions = decide(
            Sample.list(5, [Sample.timeline(10, state: state, renderedAt: Sample.now - .seconds(86_400))]))
        let item = try #require(decisions.fetches.first)
        #expect(item.ledger != BudgetLedger())
    }

    @Test("A timeline without pending work is settled without a fetch")
    func nothing() throws {
        let found = try settlement(
            decide(Sample.list(5, [Sample.timeline(10, state: rendered(), renderedAt: Sample.now - .seconds(900))])))
        guard case .nothing = found.outcome else {
            Issue.record("\(found.outcome)")
            return
        }
        #expect(found.decision == .none && found.rule == .none)
    }

    @Test("A budgeted request within the spacing waits")
    func waits() throws {
        let found = try settlement(
            decide(
                Sample.list(
                    5, [Sample.timeline(10, state: rendered(requested: 2), renderedAt: Sample.now - .seconds(10))])))
        guard case .wait(let until) = found.outcome else {
            Issue.record("\(found.outcome)")
            return
        }
        #expect(until > Sample.now && found.decision == .deferred && found.rule == .spacing)
    }

    @Test("A timeline that only its policy requests goes to sleep when it has not been viewed for long")
    func sleeps() throws {
        var state = rendered()
        state.policyAt = Sample.now - .seconds(1)
        let views = ViewStatistics(lastActive: Sample.now - .seconds(40 * 86_400))
        let found = try settlement(
            decide(
                Sample.list(
                    5, [Sample.timeline(10, state: state, renderedAt: Sample.now - .seconds(86_400), views: views)],
                    lane: .scheduled)))
        guard case .sleep = found.outcome else {
            Issue.record("\(found.outcome)")
            return
        }
        #expect(found.decision == .slept && found.rule == .dormant)
    }

    @Test("An orphaned timeline is collected, also if its kind is retired")
    func collects() {
        var state = rendered()
        state.isOrphaned = true
        let timeline = Sample.timeline(10, state: state)
        for isRetired in [false, true] {
            let decisions = decide(
                Sample.list(5, [timeline], lane: .bulk, lease: 7), kinds: [Sample.kind(isRetired: isRetired)])
            #expect(decisions.collections.map(\.list.hold) == [ListHold(id: 5, lease: 7)])
            #expect(decisions.collections.map(\.leaseEnds) == [.seconds(31)])
            #expect(decisions.fetches.isEmpty && decisions.settlements.isEmpty)
        }
    }

    @Test("Timelines of a retired kind are not fetched")
    func retired() throws {
        let found = try settlement(decide(Sample.list(5, rows: [10]), kinds: [Sample.kind(isRetired: true)]))
        guard case .nothing = found.outcome else {
            Issue.record("\(found.outcome)")
            return
        }
    }

    @Test("A list whose kind or app is not in the directory is returned with a delay")
    func unknown() {
        let strangers = decide(Sample.list(5, rows: [10]), kinds: [])
        #expect(strangers.settled.map(\.returnDelay) == [.seconds(5)])
        #expect(strangers.settled.map(\.row) == [10] && strangers.settlements.isEmpty && strangers.fetches.isEmpty)
    }

    @Test("A sweep's list fetches timelines behind its generation and settles the others")
    func sweeps() throws {
        let kind = KindGenerations(current: 4, free: 4)
        func look(generation: Int64, cancelled: Int64 = 0) -> Decisions {
            var kind = kind
            kind.cancelled = cancelled
            return decide(
                Sample.list(
                    5,
                    [
                        Sample.timeline(
                            10, state: rendered(generation: generation), kind: kind,
                            renderedAt: Sample.now - .seconds(86_400))
                    ], lane: .bulk, generation: 3))
        }
        #expect(look(generation: 2).fetches.count == 1)
        // The timeline was already rendered for the list's generation, or the reload was cancelled.
        for decisions in [look(generation: 3), look(generation: 2, cancelled: 4)] {
            guard case .nothing = try settlement(decisions).outcome else {
                Issue.record("\(decisions)")
                return
            }
        }
    }
}
