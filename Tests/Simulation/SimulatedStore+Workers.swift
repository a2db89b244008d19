import WidgetModel

// What workers and sweepers write.

extension SimulatedStore {
    // MARK: Claims

    /// `ClaimTimelines`: the scope and the time are those of the statement's snapshot, the row is as it is when it is
    /// locked.
    mutating func claim(_ timeline: Int, in scope: ScopeGenerations, at now: Timestamp) -> TimelineClaim? {
        guard let row = timelines[timeline], row.state.isDue(at: now) else { return nil }
        let number = nextClaim()
        let views = views(of: timeline)
        guard
            let claim = timelines[timeline]?.state.claim(
                number: number, lease: SimulatedWorld.lease, in: scope, views: views, at: now)
        else { return nil }
        witness.claimed(timeline, number, until: now + SimulatedWorld.lease, at: now)
        return claim
    }

    struct Saved {
        let isChanged: Bool
        /// As it was before.
        let publishedHash: ContentHash?
    }

    /// `SaveContent`; nil when the claim has moved on.
    mutating func save(
        _ timeline: Int, claim: Int64, value: UInt8, hash: ContentHash, fetchedAt: Int
    ) -> Saved? {
        guard var row = timelines[timeline] else { return nil }
        let saved = Saved(isChanged: row.content?.value != value, publishedHash: row.state.publishedHash)
        if mutation == .saveUnfenced {
            // Whatever the claim.
        } else if mutation == .saveKeepsPublishedHash {
            guard row.state.claim == claim else { return nil }
        } else {
            guard row.state.save(claim: claim, hash: hash, isChanged: saved.isChanged) else { return nil }
        }
        if saved.isChanged { row.content = Content(value: value, revision: claim) }
        timelines[timeline] = row
        witness.stored(timeline, claim: claim, value: value, fetchedAt: fetchedAt)
        return saved
    }

    /// `CompleteTimelines`: false when the claim was not his any more.
    mutating func complete(
        _ timeline: Int, _ completion: TimelineCompletion, fetchedAt: Int, at now: Timestamp
    ) -> Bool {
        guard let before = timelines[timeline]?.state else { return false }
        var completion = completion
        var after = before
        switch mutation {
        case .completionUnfenced: after.claim = completion.claim.number
        case .generationsAtCompletion, .completionForgetsLateRequests:
            let scope = scope(of: SimulatedWorld.kind(of: timeline))
            let keepsScope = mutation == .completionForgetsLateRequests
            completion.claim = TimelineClaim(
                number: completion.claim.number, lane: completion.claim.lane, claimedAt: completion.claim.claimedAt,
                requested: before.requested,
                kindGeneration: keepsScope ? completion.claim.kindGeneration : scope.kind.current,
                appGeneration: keepsScope ? completion.claim.appGeneration : scope.app.current,
                attempts: completion.claim.attempts, isOrphaned: false, state: completion.claim.state)
        default: break
        }
        guard after.complete(completion, at: now) != .fenced else { return false }
        if mutation == .renderedGoesBack {
            after.renderedKindGeneration = completion.claim.kindGeneration
            after.renderedAppGeneration = completion.claim.appGeneration
        }
        if mutation == .completionUnfenced { after.claim = max(after.claim, before.claim) }
        witness.completed(
            timeline, claim: completion.claim.number, fetchedAt: fetchedAt, from: before, to: after)
        timelines[timeline]?.state = after
        return true
    }

    /// `FailTimelines`.
    mutating func fail(_ timeline: Int, _ claim: TimelineClaim, delay: Duration, at now: Timestamp) {
        let forgets = mutation == .failureForgetsRequests
        end(timeline, claim) { state in
            let ending = state.fail(claim, delay: delay, at: now)
            if forgets, ending != .fenced {
                state.rendered = claim.requested
                state.renderedKindGeneration = claim.kindGeneration
                state.renderedAppGeneration = claim.appGeneration
                state.phase = .waiting(until: max(state.retryAt, state.policyAt))
            }
            return ending
        }
    }

    /// `ReleaseTimelines`.
    mutating func release(_ timeline: Int, _ claim: TimelineClaim, delay: Duration, at now: Timestamp) {
        end(timeline, claim) { $0.release(claim, delay: delay, at: now) }
    }

    /// `DeferTimelines`.
    mutating func deferred(_ timeline: Int, _ claim: TimelineClaim, until time: Timestamp?, at now: Timestamp) {
        let active = views(of: timeline).lastActive ?? .distantPast
        let isPublished = mutation == .sleepUnpublished || isPublished(timeline)
        let isSeen = active > claim.state.views.lastActive ?? .distantPast
        end(timeline, claim) { state in
            if let time {
                state.wait(claim, until: time, at: now)
            } else {
                state.sleep(claim, isSeen: isSeen, isPublished: isPublished, at: now)
            }
        }
    }

    private mutating func end(
        _ timeline: Int, _ claim: TimelineClaim, _ body: (inout TimelineStateMachine) -> ClaimEnding
    ) {
        if let ending = withTimeline(timeline, body), ending != .fenced {
            witness.ended(timeline, claim: claim.number)
        }
    }

    /// `RepublishTimelines`: whether the timeline exists.
    mutating func republish(_ timeline: Int, at now: Timestamp) -> Bool {
        guard timelines[timeline] != nil else { return false }
        let number = nextClaim()
        withTimeline(timeline) { $0.republish(claim: number, at: now) }
        witness.ended(timeline, claim: number)
        return true
    }

    /// `LockTimelines` and `CollectTimelines`: whether it was deleted.
    mutating func collect(_ timeline: Int, _ claim: TimelineClaim, at now: Timestamp) -> Bool {
        let isShown = mutation == .collectionUnchecked ? false : isShown(timeline)
        if mutation == .collectionUnchecked { withTimeline(timeline) { $0.isOrphaned = true } }
        switch withTimeline(timeline, { $0.collect(claim, isShown: isShown, at: now) }) {
        case .collected?:
            timelines[timeline] = nil
            witness.collected(timeline, claim: claim.number)
            return true
        case .revived?:
            witness.ended(timeline, claim: claim.number)
            return false
        case .fenced?, nil:
            return false
        }
    }

    // MARK: Sweeps

    /// `SweepKind`: how many it made due.
    mutating func sweep(_ kind: Int, to scope: ScopeGenerations, limit: Int, at now: Timestamp) -> Int {
        guard !kinds[kind].isPaused else { return 0 }
        var count = 0
        for timeline in timelines.indices where SimulatedWorld.kind(of: timeline) == kind && count < limit {
            if withTimeline(timeline, { $0.sweep(to: scope, at: now) != nil }) == true { count += 1 }
        }
        return count
    }

    /// `StartSweeps`, then a turn of `Sweeper.sweepEveryone`: false when no recorded sweep could be worked on.
    mutating func sweepRecorded(_ pick: Int, limit: Int, at now: Timestamp) -> Bool {
        for index in sweeps.indices { sweeps[index].isStarted = true }
        guard !sweeps.isEmpty else { return false }
        let index = pick % sweeps.count
        var sweep = sweeps[index]
        let left = sweep.kinds.filter { $0 >= sweep.cursorKind }
        let paused = left.filter { kinds[$0].isPaused }
        guard paused.isEmpty else {
            let others = left.filter { !kinds[$0].isPaused }
            guard !others.isEmpty else { return false }
            // `SplitSweep`.
            var rest = sweep
            rest = Sweep(
                id: nextSweep(), kinds: paused, parity: sweep.parity, events: sweep.events, urgency: sweep.urgency,
                isStarted: true, cursorKind: sweep.cursorKind, cursorTimeline: sweep.cursorTimeline)
            sweeps[index].kinds = others
            sweeps.append(rest)
            return true
        }
        guard let kind = left.first else {
            sweeps.remove(at: index)
            return true
        }
        if kind != sweep.cursorKind {
            sweep.cursorKind = kind
            sweep.cursorTimeline = -1
        }
        let page = timelines.indices.lazy.filter { [timelines] in
            $0 > sweep.cursorTimeline && SimulatedWorld.kind(of: $0) == kind && timelines[$0] != nil
        }.prefix(limit)
        let examined = Array(page)
        for timeline in examined where SimulatedWorld.parity(of: timeline) == sweep.parity {
            if mutation == .sweepSkipsLeased, timelines[timeline]?.state.isLeased == true { continue }
            mark(
                timeline, events: sweep.events, urgency: sweep.urgency, lane: .bulk, isBulk: true, at: now)
        }
        if examined.count < limit {
            guard let next = left.first(where: { $0 > kind }) else {
                sweeps.remove(at: index)
                return true
            }
            sweep.cursorKind = next
            sweep.cursorTimeline = -1
        } else if let last = examined.last {
            sweep.cursorTimeline = last
        }
        sweeps[index] = sweep
        return true
    }

    // MARK: Operators

    /// `CancelKind`, `CancelSweeps`, `CancelTimelines`.
    mutating func cancel(_ kind: Int) {
        let sum = scope(of: kind).sum
        kinds[kind].cancelled = max(kinds[kind].cancelled, sum)
        sweeps = sweeps.compactMap { sweep in
            guard sweep.kinds.contains(kind) else { return sweep }
            var sweep = sweep
            sweep.kinds.removeAll { $0 == kind }
            sweep.isStarted = true
            return sweep.kinds.isEmpty ? nil : sweep
        }
        let takesAll = mutation == .cancelTakesRequests
        for timeline in timelines.indices where SimulatedWorld.kind(of: timeline) == kind {
            let isPublished = mutation == .cancelUnpublished || isPublished(timeline)
            withTimeline(timeline) { state in
                if takesAll, !state.isLeased, !state.isOrphaned, state.renderedAt != nil {
                    state.rendered = state.requested
                    state.phase = .waiting(until: max(state.policyAt, state.retryAt))
                }
                _ = state.cancel(upTo: sum, isPublished: isPublished)
            }
            witness.cancelled(timeline)
        }
    }
}
