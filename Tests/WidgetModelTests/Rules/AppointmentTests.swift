// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import WidgetModel

/// Functions that compute a timeline's next look and its decision, compared with simpler definitions over small
/// domains.
@Suite(.tags(.rules), .timeLimit(.patience))
struct AppointmentTests {
    private static let now = time("2020-06-22T10:00:00Z")
    private let now = Self.now

    private static let times: [Timestamp] = [.distantPast, now - .hours(1), now, now + .hours(1), .distantFuture]

    /// All pending states of a row and its kind in a small domain.
    private static let requests: [(TimelineState, KindGenerations)] = {
        var requests: [(TimelineState, KindGenerations)] = []
        for bits in 0..<(3 * 3 * 3 * 3) {
            let state = TimelineState(
                requested: Int64(bits % 3), rendered: Int64(bits / 3 % 3), freeRequested: Int64(bits / 9 % 3),
                forcedRequested: Int64(bits / 27 % 3), generation: 1)
            for bits in 0..<(3 * 3 * 3 * 3) {
                let kind = KindGenerations(
                    current: Int64(bits % 3), free: Int64(bits / 3 % 3), forced: Int64(bits / 9 % 3),
                    cancelled: Int64(bits / 27 % 3))
                requests.append((state, kind))
            }
        }
        return requests
    }()

    // MARK: Pending

    @Test("The pending urgency is the highest of targeted requests and uncancelled reloads of everyone")
    func pending() {
        for (state, kind) in Self.requests {
            var found: [RequestUrgency] = []
            for (urgency, requested, everyone) in [
                (RequestUrgency.budgeted, state.requested, kind.current), (.free, state.freeRequested, kind.free),
                (.forced, state.forcedRequested, kind.forced),
            ] {
                if requested > state.rendered { found.append(urgency) }
                if everyone > max(state.generation, kind.cancelled) { found.append(urgency) }
            }
            #expect(state.pending(kind) == found.max())
        }
    }

    @Test("A cancellation voids earlier reloads of everyone, but no targeted requests")
    func cancelled() {
        let row = TimelineState(generation: 3)
        #expect(row.pending(KindGenerations(current: 5, free: 4, cancelled: 0)) == .free)
        #expect(row.pending(KindGenerations(current: 5, free: 4, cancelled: 4)) == .budgeted)
        #expect(row.pending(KindGenerations(current: 5, free: 4, cancelled: 5)) == nil)
        #expect(KindGenerations(current: 5, cancelled: 4).isAhead(of: 3))
        #expect(!KindGenerations(current: 5, cancelled: 5).isAhead(of: 3))
        #expect(!KindGenerations(current: 5).isAhead(of: 5))
        #expect(TimelineState(requested: 1).pending(KindGenerations(current: 5, cancelled: 5)) == .budgeted)
    }

    // MARK: Next look

    /// Independent formulation of the rule: whether work is permitted at this time.
    private func isDue(_ state: TimelineState, _ pending: RequestUrgency?, at time: Timestamp) -> Bool {
        guard !state.isOrphaned else { return true }
        guard time >= state.retryAt, time < .distantFuture else { return false }
        if !state.isAsleep, state.policyAt <= time { return true }
        return switch pending {
        case .forced: true
        case .free: state.freeAt <= time
        case .budgeted: state.eligibleAt <= time
        case nil: false
        }
    }

    @Test("The next look is the first time at which there may be work", arguments: [false, true])
    func nextLook(isAsleep: Bool) {
        let kind = KindGenerations()
        let urgencies: [(TimelineState, RequestUrgency?)] = [
            (TimelineState(), nil), (TimelineState(requested: 1), .budgeted),
            (TimelineState(requested: 1, freeRequested: 1), .free),
            (TimelineState(requested: 1, freeRequested: 1, forcedRequested: 1), .forced),
        ]
        for (base, pending) in urgencies {
            for eligible in Self.times {
                for free in Self.times {
                    for retry in Self.times {
                        for policy in Self.times {
                            var state = base
                            state.eligibleAt = eligible
                            state.freeAt = free
                            state.retryAt = retry
                            state.policyAt = policy
                            state.isAsleep = isAsleep
                            let first = Self.times.filter { $0 >= now }.first { isDue(state, pending, at: $0) }
                            #expect(state.nextLook(kind, at: now) == first)
                            state.isOrphaned = true
                            #expect(state.nextLook(kind, at: now) == now)
                        }
                    }
                }
            }
        }
    }

    @Test("There is a next look exactly if a request is pending or the policy has a time")
    func nothing() {
        for (state, kind) in Self.requests {
            #expect((state.nextLook(kind, at: now) == nil) == (state.pending(kind) == nil))
        }
    }

    @Test(
        "The lane of the next appointment follows the urgency",
        arguments: [
            (TimelineState(), 0, nil, .scheduled), (TimelineState(), 1, nil, .bulk),
            (TimelineState(requested: 1), 0, .push, .push), (TimelineState(requested: 1), 1, .push, .push),
            (TimelineState(requested: 1), 0, .foreground, .interactive), (TimelineState(requested: 1), 0, nil, .push),
            (TimelineState(requested: 1), 0, .policy, .scheduled),
            (TimelineState(requested: 1, rendered: 1), 0, .foreground, .scheduled),
            (TimelineState(requested: 1, isOrphaned: true), 0, .foreground, .bulk),
        ] as [(TimelineState, Int64, ReloadReason?, ReloadLane)])
    func lanes(state: TimelineState, generation: Int64, reason: ReloadReason?, lane: ReloadLane) {
        #expect(state.nextLane(KindGenerations(current: generation), reason: reason) == lane)
    }

    @Test("A list is at most a day and five minutes ahead, and nearer times are kept")
    func horizon() {
        #expect(TimelineState.appointment(for: nil, at: now) == nil)
        for microseconds in stride(from: Int64(0), through: 172_800_000_000, by: 1_234_567_891) {
            let next = now + .microseconds(microseconds)
            let time = TimelineState.appointment(for: next, at: now) ?? .distantFuture
            #expect(time <= next && time <= now + .days(1) + .minutes(5))
            if next <= now + .days(1) { #expect(time == next) }
            if time < next { #expect(time >= now + .days(1) && time.microseconds % (1 << 28) == 0) }
        }
        #expect(TimelineState.appointment(for: .distantFuture, at: now) ?? .distantFuture < now + .days(2))
    }

    // MARK: Decide

    private let rules = ReloadRules.test(spacing: .minutes(5), budget: .always(8))

    private func decide(
        _ state: TimelineState, _ kind: KindGenerations = KindGenerations(), facts: ReloadState? = nil,
        sweep: Int64? = nil, isRetired: Bool = false
    ) -> LookOutcome {
        let known = ReloadState(need: .policy, renderedAt: now - .days(1), views: .often)
        return rules.decide(state, kind, facts: facts ?? known, sweep: sweep, isRetired: isRetired, at: now)
    }

    @Test("A look before the row's next look, or by a sweep of a rendered generation, finds nothing")
    func decisions() {
        for (base, kind) in Self.requests {
            for retry in Self.times {
                for sweep in [nil, 1, 2] as [Int64?] {
                    var state = base
                    state.retryAt = retry
                    let next = state.nextLook(kind, at: now)
                    var isMeant = next.map { $0 <= now } ?? false
                    if let sweep {
                        isMeant = isMeant && state.generation < sweep && kind.isAhead(of: state.generation)
                    }
                    let outcome = decide(state, kind, sweep: sweep)
                    if case .fetch = outcome { #expect(isMeant) } else { #expect(outcome == .nothing && !isMeant) }
                    #expect(decide(state, kind, sweep: sweep, isRetired: true) == .nothing)
                    state.isOrphaned = true
                    #expect(decide(state, kind, sweep: sweep) == .collect)
                    #expect(decide(state, kind, sweep: sweep, isRetired: true) == .collect)
                }
            }
        }
    }

    @Test("First and free fetches need no budget; budgeted ones and those by policy spend a token")
    func needs() {
        func rule(_ state: TimelineState, renderedAt: Timestamp?) -> ReloadRule? {
            let facts = ReloadState(need: .policy, renderedAt: renderedAt, views: .often)
            if case .fetch(let rule, _) = decide(state, facts: facts) { return rule }
            return nil
        }
        let due = TimelineState(policyAt: now)
        #expect(rule(due, renderedAt: nil) == .first)
        #expect(rule(TimelineState(requested: 1, freeRequested: 1), renderedAt: now) == .free)
        #expect(rule(TimelineState(requested: 1, forcedRequested: 1), renderedAt: now) == .free)
        #expect(rule(TimelineState(requested: 1), renderedAt: now - .hours(1)) == .paced)
        #expect(rule(due, renderedAt: now - .hours(1)) == .paced)
        #expect(rule(TimelineState(requested: 1), renderedAt: now) == nil)
    }

    @Test("A deferred timeline is not looked at before its time")
    func waits() {
        for (base, kind) in Self.requests {
            for policy in Self.times {
                var state = base
                state.policyAt = policy
                let facts = ReloadState(need: .policy, renderedAt: now - .seconds(10), views: .often)
                guard case .wait(let until, let rule) = decide(state, kind, facts: facts) else { continue }
                #expect(until >= now + .seconds(290) && until <= now + .seconds(300) && rule == .spacing)
                state.defer(until: until)
                #expect(state.nextLook(kind, at: now) == until)
            }
        }
    }

    @Test("A dormant timeline sleeps only for its policy")
    func sleep() {
        let facts = ReloadState(
            need: .policy, renderedAt: now - .days(20), views: ViewStatistics(lastActive: now - .days(15)))
        #expect(decide(TimelineState(policyAt: now), facts: facts) == .sleep)
        for (state, kind) in Self.requests where state.pending(kind) != nil {
            #expect(decide(state, kind, facts: facts) != .sleep)
        }
        #expect(TimelineState(policyAt: now, isAsleep: true).nextLook(KindGenerations(), at: now) == nil)
    }
}

extension TimelineState {
    /// Applies a decision like a settlement.
    fileprivate mutating func `defer`(until time: Timestamp) {
        eligibleAt = time
        policyAt = max(policyAt, time)
    }
}
