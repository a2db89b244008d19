import Testing

@testable import WidgetModel

@Suite(.tags(.rules), .timeLimit(.minutes(5)))
struct TimelineStateMachineTests {
    private let now = time("2020-06-22T10:00:00Z")
    private let scope = ScopeGenerations()

    private func completion(
        _ claim: TimelineClaim, policyAt: Timestamp? = nil, isShared: Bool = false, publishedHash: ContentHash? = nil,
        eligibleAt: Timestamp = .distantPast
    ) -> TimelineCompletion {
        TimelineCompletion(
            claim: claim, publishedHash: publishedHash, eligibleAt: eligibleAt, policyAt: policyAt,
            spacing: .minutes(5), isShared: isShared)
    }

    /// A timeline that is being fetched since a moment.
    private func leased(isShared: Bool = false, in scope: ScopeGenerations = ScopeGenerations()) throws
        -> (TimelineStateMachine, TimelineClaim)
    {
        var timeline = TimelineStateMachine.rendered(at: now - .hours(1), policy: .after(now), isShared: isShared)
        let claim = timeline.claim(number: 7, lease: .minutes(1), in: scope, at: now)
        return (timeline, try #require(claim))
    }

    /// What is asked for during a fetch, and how many minutes after its end the next one is due: a per-user timeline's,
    /// a shared one's. Budgeted requests may be served after half an hour, the spacing is five minutes.
    @Test(
        "what is asked for during a fetch is one more reload, as soon as the most urgent may be",
        arguments: [
            ([], 180, 180), ([.budgeted], 30, 30), ([.free], 0, 5), ([.forced], 0, 0), ([.budgeted, .free], 0, 5),
            ([.free, .budgeted], 0, 5), ([.forced, .budgeted], 0, 0), ([.free, .forced], 0, 0),
        ] as [([RequestUrgency], Int, Int)])
    func duringFetch(requests: [RequestUrgency], perUser: Int, shared: Int) throws {
        for (isShared, minutes) in [(false, perUser), (true, shared)] {
            for isDeferral in [false, true] {
                var (timeline, claim) = try leased(isShared: isShared)
                for urgency in requests {
                    #expect(timeline.request(urgency: urgency, lane: .push, at: now) == .inFlight)
                }
                #expect(timeline.dueAt == now + .minutes(1), "the end of the lease stays")
                guard !isDeferral else {
                    // Nothing was fetched, so nothing restarts the spacing: what is free goes on at once.
                    let until = now + .minutes(30)
                    let isFree = requests.contains { $0 > .budgeted }
                    #expect(
                        timeline.wait(claim, until: until, at: now)
                            == .waiting(until: isFree ? now : until, for: isFree ? .request : .rules))
                    continue
                }
                let ending = timeline.complete(
                    completion(
                        claim, policyAt: now + .hours(3), isShared: isShared, eligibleAt: now + .minutes(30)), at: now)
                #expect(
                    ending
                        == .waiting(until: now + .minutes(minutes), for: requests.isEmpty ? .policy : .request))
                #expect(timeline.lane == (requests.isEmpty ? .scheduled : .push))
                #expect(timeline.rendered == 1 && timeline.requested == Int64(1 + requests.count))
                #expect(timeline.eligibleAt == now + .minutes(30))
                #expect(timeline.freeAt == (isShared ? now + .minutes(5) : .distantPast))
            }
        }
    }

    @Test("an operator's request before the claim is not taken for one during the fetch: no loop of free ones at once")
    func forcedBeforeFetch() throws {
        var timeline = TimelineStateMachine.rendered(at: now - .hours(1), policy: .never, isShared: true)
        #expect(timeline.request(urgency: .forced, lane: .interactive, at: now) == .due)
        for isPlaced in [false, true] {
            // A timeline that was never rendered has as little to wait for.
            if isPlaced { timeline = TimelineStateMachine(placedAt: now, lane: .interactive, in: scope) }
            let claimed = timeline.claim(number: 7, lease: .minutes(1), in: scope, at: now)
            let claim = try #require(claimed)
            #expect(timeline.request(urgency: .free, lane: .interactive, at: now) == .inFlight)
            #expect(
                timeline.complete(
                    completion(claim, isShared: true, publishedHash: ContentHash(high: 1, low: 1)), at: now)
                    == .waiting(until: now + .minutes(5), for: .request))
        }
    }

    @Test("a request before the claim is rendered by it, with all that were folded into it")
    func beforeFetch() throws {
        var timeline = TimelineStateMachine.rendered(at: now - .hours(1), policy: .never)
        _ = timeline.request(events: 41, urgency: .free, lane: .push, at: now)
        #expect(timeline.request(urgency: .budgeted, lane: .push, at: now) == .due)
        let claimed = timeline.claim(number: 2, lease: .minutes(1), in: scope, at: now)
        let claim = try #require(claimed)
        #expect(claim.requested == 43 && claim.state.need == .free && claim.state.requestedAt == now)
        #expect(timeline.complete(completion(claim), at: now) == .waiting(until: .distantFuture, for: .nothing))
        #expect(timeline.need(in: scope) == .policy)
    }

    @Test("a reload of everyone that the claim knew of is rendered by it, and the sweeper has nothing to do")
    func everyone() throws {
        var scope = ScopeGenerations()
        var (timeline, _) = try leased()
        scope.kind.bump(by: 3, urgency: .free)
        scope.app.bump(urgency: .budgeted)
        let claimed = timeline.claim(number: 8, lease: .minutes(1), in: scope, at: now + .minutes(1))
        let claim = try #require(claimed)
        #expect(claim.state.need == .free && claim.kindGeneration == 3 && claim.appGeneration == 1)
        _ = timeline.complete(completion(claim), at: now + .minutes(1))
        #expect(timeline.need(in: scope) == .policy && timeline.sweptGeneration == 4)
        #expect(timeline.sweep(to: scope, at: now + .minutes(2)) == nil)
    }

    @Test("a sweep that a claim did not know of is looked at again: at once, on a shared timeline after the spacing")
    func sweptBehindTheClaim() throws {
        for isShared in [false, true] {
            var old = TimelineStateMachine.rendered(at: now - .hours(1), policy: .after(now), isShared: isShared)
            var scope = ScopeGenerations()
            scope.app.bump(urgency: .budgeted)
            #expect(old.sweep(to: scope, at: now) == .due)
            // The claim's snapshot is older than the bump.
            let claimed = old.claim(number: 7, lease: .minutes(1), in: ScopeGenerations(), at: now)
            let claim = try #require(claimed)
            var waiting = old
            #expect(waiting.wait(claim, until: now + .hours(1), at: now) == .waiting(until: now, for: .request))
            #expect(
                old.complete(completion(claim, policyAt: now + .hours(3), isShared: isShared), at: now)
                    == .waiting(until: isShared ? now + .minutes(5) : now, for: .request))
            #expect(old.need(in: scope) == .budgeted, "the rules decide then")
            #expect(old.sweptGeneration == 1)
        }
    }

    @Test("a sweep during a fetch waits for its end, and finds it then")
    func sweepDuringFetch() throws {
        var (timeline, claim) = try leased()
        var scope = ScopeGenerations()
        scope.kind.bump(urgency: .budgeted)
        #expect(timeline.sweep(to: scope, at: now) == nil)
        #expect(timeline.sweptGeneration == 0)
        _ = timeline.complete(completion(claim, policyAt: now + .hours(3)), at: now)
        #expect(timeline.sweep(to: scope, at: now) == .deferred(until: now + .minutes(5)))
        #expect(timeline.lane == .bulk)
    }

    @Test("whose lease is over loses it to the next claim, and cannot end that one")
    func fencing() throws {
        var (timeline, claim) = try leased()
        #expect(timeline.claim(number: 8, lease: .minutes(1), in: scope, at: now + .seconds(59)) == nil)
        let claimed = timeline.claim(number: 8, lease: .minutes(1), in: scope, at: now + .minutes(1))
        let next = try #require(claimed)
        let before = timeline
        let later = now + .seconds(90)
        #expect(timeline.complete(completion(claim), at: later) == .fenced)
        #expect(timeline.fail(claim, delay: .zero, at: later) == .fenced)
        #expect(timeline.release(claim, at: later) == .fenced)
        #expect(timeline.wait(claim, until: later, at: later) == .fenced)
        #expect(timeline.sleep(claim, at: later) == .fenced)
        #expect(timeline.collect(claim, isShown: false, at: later) == .fenced)
        #expect(timeline == before)
        // Ended twice: the second time it is nobody's.
        #expect(timeline.complete(completion(next), at: later) != .fenced)
        let after = timeline
        #expect(timeline.complete(completion(next), at: later) == .fenced)
        #expect(timeline == after)
    }

    @Test("what was published last is not what is stored: due at once, free, and fenced off")
    func republish() throws {
        var (timeline, claim) = try leased(isShared: true)
        timeline.republish(claim: 8, at: now)
        #expect(timeline.complete(completion(claim), at: now) == .fenced)
        #expect(timeline.publishedHash == nil && timeline.isDue(at: now))
        let claimed = timeline.claim(number: 9, lease: .minutes(1), in: scope, at: now)
        let again = try #require(claimed)
        #expect(again.state.need == .free)
        // Overwritten once more meanwhile, or not published: it is due again at once, shared or not.
        var unpublished = timeline
        #expect(
            unpublished.complete(completion(again, isShared: true), at: now) == .waiting(until: now, for: .request))
        let hash = ContentHash(high: 3, low: 3)
        #expect(
            timeline.complete(completion(again, isShared: true, publishedHash: hash), at: now)
                == .waiting(until: .distantFuture, for: .nothing))
        #expect(timeline.publishedHash == hash)
    }

    @Test("a reload of everyone that is cancelled: nothing is swept, and what was waits for its policy's time again")
    func cancelled() {
        var scope = ScopeGenerations()
        scope.kind.bump(by: 4, urgency: .budgeted)
        let idle = TimelineStateMachine.rendered(at: now - .hours(1), policy: .after(now + .hours(1)))
        var swept = idle
        #expect(swept.sweep(to: scope, at: now) == .due)
        scope.cancelled = 4
        var late = idle
        #expect(late.sweep(to: scope, at: now) == nil)
        #expect(swept.cancel(upTo: 3) == false, "of a later one")
        var pushed = swept
        _ = pushed.request(urgency: .budgeted, lane: .push, at: now)
        #expect(pushed.cancel(upTo: 4) == false, "nobody cancels a request of its own")
        #expect(swept.cancel(upTo: 4) == true)
        #expect(swept.dueAt == idle.dueAt && swept.lane == .scheduled && swept.decision == .cancelled)
        #expect(swept.need(in: scope) == .budgeted, "stale all the same")
        // What sleeps goes on sleeping: its policy's time is long past.
        var asleep = idle
        asleep.viewClass = .dormant
        asleep.policyAt = now - .days(3)
        asleep.phase = .waiting(until: .distantFuture)
        scope.app.bump(urgency: .budgeted)
        #expect(asleep.sweep(to: scope, at: now) == .due)
        #expect(asleep.cancel(upTo: 5) == true)
        #expect(asleep.dueAt == .distantFuture)
    }

    @Test("failures count and back off; a success forgets them")
    func failures() throws {
        var timeline = TimelineStateMachine.rendered(at: now - .hours(1), policy: .after(now))
        var time = now
        for attempt in 0..<5 {
            let claimed = timeline.claim(number: Int64(attempt) + 2, lease: .minutes(1), in: scope, at: time)
            let claim = try #require(claimed)
            #expect(claim.attempts == attempt)
            _ = timeline.fail(claim, delay: .seconds(10), at: time)
            #expect(timeline.retryAt == time + .seconds(10) && timeline.decision == .failed)
            time = time + .seconds(10)
        }
        let claimed = timeline.claim(number: 9, lease: .minutes(1), in: scope, at: time)
        _ = timeline.complete(completion(try #require(claimed)), at: time)
        #expect(timeline.attempts == 0 && timeline.retryAt == .distantPast)
        timeline.attempts = Int(Int16.max)
        _ = timeline.request(urgency: .forced, lane: .interactive, at: time)
        let last = timeline.claim(number: 10, lease: .minutes(1), in: scope, at: time)
        _ = timeline.fail(try #require(last), delay: .zero, at: time)
        #expect(timeline.attempts == Int(Int16.max))
    }

    @Test("it sleeps until somebody looks, places or asks; a view of one that does not sleep changes nothing")
    func sleep() throws {
        var (timeline, claim) = try leased()
        #expect(timeline.sleep(claim, at: now) == .waiting(until: .distantFuture, for: .nothing))
        #expect(timeline.isDormant && timeline.decision == .slept)
        var viewed = timeline
        viewed.eligibleAt = now + .minutes(3)
        #expect(viewed.view(at: now) == true)
        #expect(viewed.dueAt == now + .minutes(3) && viewed.viewClass == .seldom)
        #expect(viewed.view(at: now) == false)
        var placed = timeline
        #expect(placed.place(lane: .interactive, in: ScopeGenerations(), at: now) == .due)
        #expect(placed.need(in: scope) == .free)
        var asked = timeline
        #expect(asked.request(urgency: .budgeted, lane: .push, at: now) == .due)
        // Asked for while the claim was on its way to sleep.
        var (late, held) = try leased()
        late.eligibleAt = now + .minutes(30)
        _ = late.request(urgency: .budgeted, lane: .push, at: now)
        #expect(late.sleep(held, at: now) == .waiting(until: now + .minutes(30), for: .request))
    }

    @Test("a timeline that no widget shows is collected, unless one does again")
    func collection() throws {
        var timeline = TimelineStateMachine.rendered(at: now - .hours(1), policy: .never)
        timeline.orphan(at: now)
        let claimed = timeline.claim(number: 2, lease: .minutes(1), in: scope, at: now)
        let claim = try #require(claimed)
        #expect(claim.isOrphaned)
        var gone = timeline
        #expect(gone.collect(claim, isShown: false, at: now) == .collected)
        // Placed between the claim and the deletion: published anew, for its tombstone may be out.
        for isMarked in [false, true] {
            var shown = timeline
            if isMarked { #expect(shown.place(lane: .interactive, in: ScopeGenerations(), at: now) == .inFlight) }
            #expect(shown.collect(claim, isShown: true, at: now) == .revived)
            #expect(!shown.isOrphaned && shown.publishedHash == nil && shown.isDue(at: now) && !shown.isLeased)
            #expect(shown.need(in: scope) == .free)
        }
    }

    @Test("the sum of the generations: a bump of either is swept, in any order of kind and app")
    func sums() {
        var timeline = TimelineStateMachine.rendered(at: now - .hours(1), policy: .never)
        var scope = ScopeGenerations()
        for bump in 1...6 {
            if bump % 2 == 0 { scope.kind.bump(urgency: .budgeted) } else { scope.app.bump(urgency: .budgeted) }
            #expect(timeline.sweep(to: scope, at: now) != nil)
            #expect(timeline.sweptGeneration == Int64(bump))
        }
    }
}
