// SPDX-License-Identifier: Apache-2.0

import Testing
import WidgetModel

@testable import ReloadWorkers
@testable import WidgetStore

@Suite("Decisions about claimed timelines")
struct DecisionsTests {
    private func decide(_ list: LeasedList, kind: RegisteredKind = Sample.kind()) -> Decisions {
        Decisions(list.timelines.map { TimelineJob($0, of: Sample.claim(list, kind: kind)) })
    }

    private func rendered(requested: Int64 = 1, generation: Int64 = 0) -> TimelineState {
        TimelineState(
            requested: requested, rendered: 1, generation: generation, eligibleAt: Sample.now - .seconds(1),
            policyAt: Sample.now + .seconds(3_600))
    }

    /// Returns the only timeline, which is not fetched.
    private func rescheduled(_ decisions: Decisions) throws -> TimelineJob {
        #expect(decisions.fetches.isEmpty && decisions.orphans.isEmpty && decisions.unreadable.isEmpty)
        #expect(decisions.reschedules.count == 1)
        return try #require(decisions.reschedules.first)
    }

    @Test("A timeline that was never rendered is fetched")
    func fetches() throws {
        let decisions = decide(Sample.list(5, rows: [10, 11], lane: .interactive, lease: 7))
        #expect(decisions.fetches.map(\.timeline.row) == [10, 11] && decisions.reschedules.isEmpty)
        let job = try #require(decisions.fetches.first)
        #expect(job.rule == .first && job.lane == .interactive && job.claim.kind.id == 11)
        #expect(job.claim.list.hold == ListHold(id: 5, lease: 7) && job.claim.list.timelines.isEmpty)
    }

    @Test("A budgeted request is fetched with a budget token")
    func paced() throws {
        let state = rendered(requested: 2)
        let decisions = decide(
            Sample.list(5, [Sample.timeline(10, state: state, renderedAt: Sample.now - .seconds(86_400))]))
        let job = try #require(decisions.fetches.first)
        #expect(job.ledger != BudgetLedger())
    }

    @Test("A timeline without pending work is not fetched")
    func nothing() throws {
        let found = try rescheduled(
            decide(Sample.list(5, [Sample.timeline(10, state: rendered(), renderedAt: Sample.now - .seconds(900))])))
        #expect(found.outcome == .nothing)
        #expect(found.reschedule == (.none, .none))
    }

    @Test("A budgeted request within the spacing waits")
    func waits() throws {
        let found = try rescheduled(
            decide(
                Sample.list(
                    5, [Sample.timeline(10, state: rendered(requested: 2), renderedAt: Sample.now - .seconds(10))])))
        #expect(try #require(found.waitsUntil) > Sample.now && found.reschedule == (.deferred, .spacing))
    }

    @Test("A timeline that only its policy requests goes to sleep when it has not been viewed for long")
    func sleeps() throws {
        var state = rendered()
        state.policyAt = Sample.now - .seconds(1)
        let views = ViewStatistics(lastActive: Sample.now - .seconds(40 * 86_400))
        let found = try rescheduled(
            decide(
                Sample.list(
                    5, [Sample.timeline(10, state: state, renderedAt: Sample.now - .seconds(86_400), views: views)],
                    lane: .scheduled)))
        #expect(found.outcome == .sleep && found.reschedule == (.slept, .dormant))
    }

    @Test("An orphaned timeline is collected, also if its kind is retired")
    func collects() {
        var state = rendered()
        state.isOrphaned = true
        let timeline = Sample.timeline(10, state: state)
        for isRetired in [false, true] {
            let decisions = decide(
                Sample.list(5, [timeline], lane: .bulk, lease: 7), kind: Sample.kind(isRetired: isRetired))
            #expect(decisions.orphans.map(\.claim.list.hold) == [ListHold(id: 5, lease: 7)])
            #expect(decisions.fetches.isEmpty && decisions.reschedules.isEmpty)
        }
    }

    @Test("Timelines of a retired kind are not fetched")
    func retired() throws {
        let found = try rescheduled(decide(Sample.list(5, rows: [10]), kind: Sample.kind(isRetired: true)))
        #expect(found.outcome == .nothing)
    }

    @Test("A sweep's list fetches timelines behind its generation and no others")
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
            #expect(try rescheduled(decisions).outcome == .nothing)
        }
    }
}
