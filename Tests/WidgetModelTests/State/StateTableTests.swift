import Testing

@testable import WidgetModel

/// Every state of a timeline and every event: what the event answers, and how the timeline stands then.
@Suite("Timelines: every state and every event", .tags(.rules), .timeLimit(.minutes(5)))
struct StateTableTests {
    static let now = time("2020-06-22T10:00:00Z")

    enum State: String, CaseIterable, Sendable {
        /// Placed, and never rendered.
        case new
        /// Rendered an hour ago, and wanted by its policy in an hour; so are all that follow where nothing else is
        /// said.
        case idle
        case due
        /// Its policy is `never`.
        case onRequest
        /// Its tokens are spent for another half an hour.
        case spent
        /// Shared, and rendered a minute ago.
        case spaced
        case asleep
        /// A fetch failed: left alone for two minutes.
        case failed
        case leased
        /// The worker did not come back.
        case lost
        case orphaned
        /// Orphaned during a fetch, or claimed to be collected.
        case leasedOrphan
    }

    enum Event: String, CaseIterable, Sendable {
        case push, foreground, operatorsReload
        /// The sweeper brings a reload of everyone.
        case sweepPush, sweepTimeChange, sweepOperators
        case place, orphan, view, republish, claim
        case complete, fail, release, wait, sleep, collect, collectShown
    }

    static func timeline(_ state: State) -> (timeline: TimelineStateMachine, claim: TimelineClaim?) {
        var timeline = TimelineStateMachine(placedAt: now, lane: .interactive, in: ScopeGenerations())
        guard state != .new else { return (timeline, nil) }
        let isSpaced = state == .spaced
        timeline = .rendered(
            at: isSpaced ? now - .minutes(1) : now - .hours(1), policy: .never, isShared: isSpaced)
        timeline.policyAt = now + .hours(1)
        timeline.phase = .waiting(until: timeline.policyAt)
        func claim(at time: Timestamp, lease: Duration) -> TimelineClaim? {
            timeline.phase = .waiting(until: time)
            return timeline.claim(number: 7, lease: lease, in: ScopeGenerations(), at: time)
        }
        switch state {
        case .new, .idle: break
        case .due: timeline.phase = .waiting(until: now - .minutes(1))
        case .onRequest:
            timeline.policyAt = .distantFuture
            timeline.phase = .waiting(until: .distantFuture)
        case .spent: timeline.eligibleAt = now + .minutes(30)
        case .spaced: break
        case .asleep:
            let held = claim(at: now - .minutes(1), lease: .minutes(2))
            if let held { _ = timeline.sleep(held, at: now - .minutes(1)) }
        case .failed:
            let held = claim(at: now - .minutes(1), lease: .minutes(2))
            if let held { _ = timeline.fail(held, delay: .minutes(3), at: now - .minutes(1)) }
        case .leased:
            let held = claim(at: now - .minutes(1), lease: .minutes(2))
            return (timeline, held)
        case .lost:
            let held = claim(at: now - .minutes(3), lease: .minutes(2))
            return (timeline, held)
        case .orphaned: timeline.orphan(at: now - .minutes(1))
        case .leasedOrphan:
            let held = claim(at: now - .minutes(1), lease: .minutes(2))
            timeline.orphan(at: now)
            return (timeline, held)
        }
        return (timeline, nil)
    }

    /// What an event answers.
    static func apply(_ event: Event, to timeline: inout TimelineStateMachine, holding claim: TimelineClaim?) -> String
    {
        // Who ends a claim that is not his: the one before.
        let claim =
            claim
            ?? TimelineClaim(
                number: 6, lane: .scheduled, claimedAt: now - .minutes(9), requested: 1, kindGeneration: 0,
                appGeneration: 0, attempts: 0, isOrphaned: false, state: ReloadState(need: .policy))
        func sweep(_ urgency: RequestUrgency) -> String {
            var scope = ScopeGenerations()
            scope.kind.bump(urgency: urgency)
            return text(timeline.sweep(to: scope, at: now))
        }
        switch event {
        case .push: return text(timeline.request(urgency: .budgeted, lane: .push, at: now))
        case .foreground: return text(timeline.request(urgency: .free, lane: .interactive, at: now))
        case .operatorsReload: return text(timeline.request(urgency: .forced, lane: .interactive, at: now))
        case .sweepPush: return sweep(.budgeted)
        case .sweepTimeChange: return sweep(.free)
        case .sweepOperators: return sweep(.forced)
        case .place: return text(timeline.place(lane: .interactive, in: ScopeGenerations(), at: now))
        case .orphan:
            timeline.orphan(at: now)
            return "-"
        case .view: return timeline.view(at: now) ? "woken" : "-"
        case .republish:
            timeline.republish(claim: 8, at: now)
            return "-"
        case .claim:
            let claimed = timeline.claim(number: 8, lease: .minutes(2), in: ScopeGenerations(), at: now)
            return claimed.map { "\($0.isOrphaned ? "collect" : "\($0.state.need)")" } ?? "-"
        case .complete:
            let completion = TimelineCompletion(
                claim: claim, publishedHash: nil, eligibleAt: now + .minutes(20), policyAt: now + .hours(3),
                spacing: .minutes(5))
            return text(timeline.complete(completion, at: now))
        case .fail: return text(timeline.fail(claim, delay: .minutes(4), at: now))
        case .release: return text(timeline.release(claim, at: now))
        case .wait: return text(timeline.wait(claim, until: now + .minutes(20), at: now))
        case .sleep: return text(timeline.sleep(claim, at: now))
        case .collect: return "\(timeline.collect(claim, isShown: false, at: now))"
        case .collectShown: return "\(timeline.collect(claim, isShown: true, at: now))"
        }
    }

    /// Minutes from now.
    private static func text(_ time: Timestamp) -> String {
        time == .distantFuture ? "ever" : "\((time - now).components.seconds / 60)"
    }

    private static func text(_ outcome: RequestOutcome?) -> String {
        switch outcome {
        case .due: "due"
        case .deferred(let time): "in \(text(time))"
        case .inFlight: "in flight"
        case nil: "-"
        }
    }

    private static func text(_ ending: ClaimEnding) -> String {
        switch ending {
        case .fenced: "fenced"
        case .waiting(_, let want): "\(want)"
        }
    }

    /// Leased or not, the minutes until it is due or its lease ends, the lane.
    private static func text(_ timeline: TimelineStateMachine) -> String {
        "\(timeline.isLeased ? "leased " : "")\(text(timeline.dueAt)) \(timeline.lane.name)"
    }

    @Test("answers and states", arguments: State.allCases)
    func table(state: State) throws {
        let expected = try #require(Self.expected[state])
        var found: [String] = []
        for event in Event.allCases {
            var (timeline, claim) = Self.timeline(state)
            let before = timeline
            let answer = Self.apply(event, to: &timeline, holding: claim)
            if answer == "fenced" || answer == "-" && event.changesNothingElse { #expect(timeline == before) }
            found.append("\(event): \(answer), \(Self.text(timeline))")
        }
        #expect(found.joined(separator: "\n") == expected)
    }
}

extension StateTableTests.Event {
    /// Whether an answer of nothing means that nothing changed.
    fileprivate var changesNothingElse: Bool {
        switch self {
        case .sweepPush, .sweepTimeChange, .sweepOperators, .place, .view, .claim: true
        default: false
        }
    }
}
