// SPDX-License-Identifier: Apache-2.0

/// Explanation of a timeline's last and next reload. It applies the functions of the
/// workers' plan to the facts of the store.
package struct Explanation: Sendable {
    package enum Status: String, Hashable, CaseIterable, Sendable {
        /// Its kind was retired.
        case retired
        /// No widget shows it; a worker deletes it.
        case orphaned
        /// A worker holds its lease.
        case fetching
        /// The worker's lease has ended without a result.
        case leaseEnded
        case paused
        /// Not viewed for a long time.
        case sleeping
        /// The next free worker takes it.
        case due
        case waiting
        /// Only a request reloads it.
        case onRequest
    }

    /// A statement with the rule that it follows from.
    package struct Sentence: Hashable, Sendable, CustomStringConvertible {
        package var text: String
        package var rule: ReloadRule?

        package init(_ text: String, _ rule: ReloadRule? = nil) {
            self.text = text
            self.rule = rule
        }

        package var description: String { rule.map { "\(text) (rule \($0.name))" } ?? text }
    }

    package let facts: ReloadFacts
    package let rules: ReloadRules

    package init(_ facts: ReloadFacts, rules: ReloadRules) {
        self.facts = facts
        self.rules = rules
    }

    var now: Timestamp { facts.readAt }
    var state: ReloadState { facts.state }

    package var status: Status {
        if facts.isRetired { return .retired }
        if facts.timeline.isOrphaned { return .orphaned }
        if let lease = facts.lease { return lease.endsAt > now ? .fetching : .leaseEnded }
        if pause != nil { return .paused }
        if facts.waitsForSweeper { return .waiting }
        guard let dueAt = facts.dueAt else {
            return facts.timeline.isAsleep && facts.timeline.policyAt != .distantFuture ? .sleeping : .onRequest
        }
        return dueAt <= now ? .due : .waiting
    }

    /// Pause of its app, or else of its kind.
    package var pause: OperatorAction? { facts.appPause ?? facts.kindPause }

    /// Outage of its provider, if no process asks it.
    private var outage: ProviderOutage? { facts.outage.flatMap { $0.isEverywhere ? $0 : nil } }

    /// Whether the timeline waits for a provider whose circuit breaker is open.
    private var isHeldByProvider: Bool { outage != nil && next.rule == .providerResting }

    /// Whether it gets no reloads by policy.
    package var isDormant: Bool { rules.isDormant(state, at: now) }

    /// Time at which a budgeted reason may reload it, and the rule that delays it until then.
    package var eligible: (time: Timestamp, rule: ReloadRule) { rules.eligible(state, from: now) }

    /// Time of the next look; nil if it is unknown, such as for a paused kind.
    package var nextAt: Timestamp? {
        switch status {
        case .due, .leaseEnded: isHeldByProvider ? max(now, outage?.probeAt ?? now) : now
        case .waiting: facts.waitsForSweeper ? nil : facts.dueAt
        case .retired, .orphaned, .fetching, .paused, .sleeping, .onRequest: nil
        }
    }

    // MARK: The daily budget

    /// Budgeted reloads in any 24 hours.
    package var reloadsADay: Int { rules.reloadsADay(state, at: now) }

    /// Budget tokens that could be spent now.
    package var tokensLeft: Int { tokens(at: now) }

    /// Spent burst tokens.
    package var spentAtWill: Int { facts.ledger.spent(at: now) }

    /// Time of the next budget token, if nothing is spent until then; nil for a full bucket.
    package var nextTokenAt: Timestamp? { facts.ledger.nextToken(of: reloadsADay, after: now) }

    /// Begin of the next day where the widget is.
    package var tomorrow: Timestamp { (LocalClock(timeZone: facts.timeZone) ?? .utc).nextDay(after: now) }

    /// Budget tokens that could be spent when tomorrow begins, if none is spent until then.
    package var tokensLeftTomorrow: Int { tokens(at: tomorrow) }

    private func tokens(at time: Timestamp) -> Int { rules.tokens(of: facts.ledger, views: facts.views, at: time) }

    /// The rest of the budget in words.
    package var budget: String {
        guard !rules.developerMode else { return "lifted by developer mode" }
        let next = nextTokenAt.map { ", one more \($0.words(from: now))" } ?? ""
        return "\(reloadsADay) in 24 h: \(tokensLeft) can be used at once\(next); "
            + "\(tokensLeftTomorrow) when tomorrow begins \(tomorrow.words(from: now))"
    }
}

/// The facts of a timeline's row, its kind and its lists that an ``Explanation`` is derived from, read in one snapshot.
package struct ReloadFacts: Sendable {
    package var timeline = TimelineState()
    package var kind = KindGenerations()

    /// Lane of its appointment, and the time of the list; `distantFuture` without an appointment.
    package var lane = ReloadLane.scheduled
    package var listedAt = Timestamp.distantFuture
    /// Lease of a list that names the timeline, with the revision of the result.
    package var lease: (token: Int64, endsAt: Timestamp)?
    package var renderedAt: Timestamp?
    /// The latest request to a person, a device or a widget.
    package var requestedAt: Timestamp?

    package var decision = Decision.none
    package var rule = ReloadRule.none
    package var decidedAt: Timestamp?
    package var fetchTime: Duration?
    /// Failures since the last success.
    package var attempts = 0

    package var ledger = BudgetLedger()
    package var views = ViewStatistics()
    /// IANA name of the widget's time zone.
    package var timeZone = "UTC"
    /// Whether there is content to show.
    package var isStored = false
    /// Times at which the snapshot, and without it the provider's placeholder, were stored. Without either, devices
    /// show the manifest's placeholder until there is content.
    package var snapshotAt: Timestamp?
    package var placeholderAt: Timestamp?

    package var kindPause: OperatorAction?
    package var appPause: OperatorAction?
    /// The latest cancellation of its kind's reloads of everyone, if it was recorded.
    package var cancellation: OperatorAction?
    package var isRetired = false
    /// Open breakers of its kind's provider; nil without any.
    package var outage: ProviderOutage?
    /// URL of its provider.
    package var provider: String?
    /// Requests of sweeps that match it and have not reached it, of the first thousand that wait; nil if none of these
    /// matches, and more wait.
    package var sweepsAhead: Int64? = 0

    /// Time of the reading by the database's clock.
    package var readAt: Timestamp

    package init(readAt: Timestamp) {
        self.readAt = readAt
    }
}

extension ReloadFacts {
    /// Pending requests to a person, a device or a widget.
    package var targetedPending: Int64 { max(0, timeline.requested - timeline.rendered) }

    /// Pending reloads of everyone, including cancelled ones.
    package var everyonePending: Int64 { max(0, kind.current - timeline.generation) }

    /// Whether all pending reloads of everyone are cancelled.
    package var isEveryoneCancelled: Bool { everyonePending > 0 && !kind.isAhead(of: timeline.generation) }

    /// Requests that the next fetch answers, without cancelled ones.
    package var pending: Int64 {
        targetedPending + max(0, kind.current - max(timeline.generation, kind.cancelled))
    }

    /// Whether all requests are rendered, those included that a sweep is still to bring.
    package var isAllRendered: Bool { !isStale && sweepsAhead == 0 }

    /// Whether a request is pending.
    package var isStale: Bool { timeline.pending(kind) != nil }

    /// Purpose of its next fetch.
    package var need: ReloadNeed { timeline.need(kind, renderedAt: renderedAt) }

    /// Time of its next look, or since when it has been due; nil if only a request makes it due.
    package var dueAt: Timestamp? {
        timeline.nextLook(kind, at: readAt).map { $0 > readAt ? $0 : min(listedAt, readAt) }
    }

    /// Whether it is not due, and a sweep that has not reached it will make it due.
    package var waitsForSweeper: Bool {
        waitsForWalk || lease == nil && sweepsAhead ?? 0 > 0 && (dueAt.map { $0 > readAt } ?? true)
    }

    /// Whether only a reload of everyone makes it due, and the sweeper has not reached it.
    package var waitsForWalk: Bool {
        guard targetedPending == 0, lease == nil, listedAt > readAt, timeline.pending(kind) != nil,
            timeline.isAsleep || timeline.policyAt > readAt, let dueAt
        else { return false }
        return dueAt <= readAt
    }

    /// Input of the rules.
    package var state: ReloadState {
        ReloadState(need: need, renderedAt: renderedAt, requestedAt: requestedAt, ledger: ledger, views: views)
    }

    /// Age of its content; nil before the first render.
    package var age: Duration? { renderedAt.map { max(.zero, readAt - $0) } }
}

extension Explanation {
    /// The next step, and the reason for its time.
    package var next: Sentence {
        switch status {
        case .retired: Sentence("its kind is retired: nothing is reloaded")
        case .orphaned: Sentence("no widget shows it: it will be deleted")
        case .fetching:
            Sentence("a worker is fetching it; its lease ends \(leaseEnd.words(from: now))", .inFlight)
        case .leaseEnded where outage != nil: waitForProvider("the lease of its worker ended")
        case .leaseEnded:
            Sentence(
                "the lease of the worker that was fetching it ended at \(leaseEnd.wholeSeconds): another one takes it",
                .inFlight)
        case .paused:
            Sentence(paused(pause, "reloads of the \(facts.appPause == nil ? "kind" : "app")"), .operatorCommand)
        case .sleeping: Sentence("sleeps: \(unseen); it wakes when it is viewed, placed or requested", .dormant)
        case .due: due
        case .waiting: waiting
        case .onRequest: Sentence("its policy names no time: only a request reloads it", .policy)
        }
    }

    private func paused(_ pause: OperatorAction?, _ reloads: String) -> String {
        guard let pause else { return reloads }
        return "\(reloads) are paused \(pause.words)"
    }

    private var unseen: String {
        facts.views.lastActive.map { "not viewed since \($0.wholeSeconds)" } ?? "not viewed"
    }

    private var leaseEnd: Timestamp { facts.lease?.endsAt ?? now }

    private var due: Sentence {
        let place = "due since \((facts.dueAt ?? now).wholeSeconds) in the \(facts.lane.name) lane"
        switch rules.plan(state, at: now) {
        case .fetch where outage != nil:
            return waitForProvider(place)
        case .fetch(let rule, _):
            return Sentence("\(place): reloaded as soon as a worker has room: \(rule.meaning)", rule)
        case .wait(let until, let rule):
            return Sentence("\(place), but it will be deferred: \(wait(for: rule, until: until))", rule)
        case .sleep:
            return Sentence("\(place), but it will sleep: \(unseen)", .dormant)
        case .collect, .nothing:
            return Sentence(place)
        }
    }

    /// - Parameter state: state of the timeline.
    private func waitForProvider(_ state: String) -> Sentence {
        Sentence("\(state): waits for \(outage?.words(from: now) ?? "its provider")", .providerResting)
    }

    private var waiting: Sentence {
        guard !facts.waitsForSweeper, let dueAt = facts.dueAt else {
            return Sentence("waits for the sweeper, which processes a kind's timelines in chunks")
        }
        let rule = holdingBack(until: dueAt)
        return Sentence(wait(for: rule, until: dueAt), rule)
    }

    /// The rule that keeps it from being due now.
    private func holdingBack(until dueAt: Timestamp) -> ReloadRule {
        if facts.timeline.retryAt > now { return .backoff }
        switch facts.need {
        case .first: return facts.attempts > 0 ? .backoff : facts.storedWait
        case .free: return .spacing
        case .budgeted:
            guard dueAt < facts.timeline.policyAt else { return .policy }
            let (time, rule) = eligible
            return time > now ? rule : facts.storedWait
        case .policy: return .policy
        }
    }

    private func wait(for rule: ReloadRule, until time: Timestamp) -> String {
        let when = time.words(from: now)
        switch rule {
        case .budget: return "waits for a token: next \(when)"
        case .spacing: return "waits for the kind's spacing of \(rules.spacing.words): next \(when)"
        case .backoff: return "waits after \(counted(facts.attempts, "failure")): tries again \(when)"
        case .policy: return "waits for its policy's time: next \(when)"
        default: return "waits: next \(when)"
        }
    }
}

extension Explanation {
    /// The last decision and its reason.
    package var last: Sentence {
        let when = facts.decidedAt.map { " \($0.words(from: now))" } ?? ""
        let rule = facts.rule == .none ? facts.decision.usualRule : facts.rule
        let why = rule.map { ": \($0.meaning)" } ?? ""
        switch facts.decision {
        case .none: return Sentence("nothing has been decided yet")
        case .reloaded: return Sentence("reloaded\(when)\(why)", rule)
        case .unchanged:
            return Sentence(
                "fetched\(when) without a visible change: neither written nor published", rule)
        case .failed: return Sentence("the fetch failed\(when)\(why); the content before it stays", rule)
        case .deferred: return Sentence("deferred\(when)\(why)", rule)
        case .released: return Sentence("given back\(when) without a result\(why)", rule)
        case .slept: return Sentence("put to sleep\(when)\(why)", rule)
        case .merged: return Sentence("merged\(when) with a pending reload", rule)
        case .refused: return Sentence("a request was refused\(when)\(why)", rule)
        }
    }

    /// Content that is shown while there is no timeline.
    private var fallback: String {
        if let time = facts.snapshotAt { return "the snapshot stored \(time.words(from: now))" }
        guard let time = facts.placeholderAt else { return "the manifest's placeholder" }
        return "the provider's placeholder stored \(time.words(from: now))"
    }

    /// Further facts, the most important first.
    package var notes: [Sentence] {
        var notes: [Sentence] = []
        if !facts.isStored { notes.append(Sentence("there is no timeline yet: devices show \(fallback)")) }
        if facts.pending > 1 {
            notes.append(Sentence("merged: \(facts.pending) requests are one reload", .coalescing))
        }
        if facts.appPause != nil, facts.kindPause != nil {
            notes.append(Sentence("and " + paused(facts.kindPause, "reloads of the kind"), .operatorCommand))
        }
        if facts.isEveryoneCancelled {
            let place = facts.cancellation.map { " at \($0.at.wholeSeconds)\($0.reasonWords)" } ?? ""
            notes.append(
                Sentence(
                    "\(counted(facts.everyonePending, "reload")) of everyone cancelled by "
                        + "\(facts.cancellation?.operatorName ?? "an operator")\(place)", .operatorCommand))
        } else if facts.waitsForWalk {
            notes.append(
                Sentence(
                    "\(counted(facts.everyonePending, "reload")) of everyone pending, which the sweeper has not reached"
                ))
        }
        if facts.sweepsAhead == nil {
            notes.append(Sentence("more sweeps wait than are examined here; further requests may be on the way"))
        }
        if let ahead = facts.sweepsAhead, ahead > 0 {
            notes.append(
                Sentence(
                    "\(counted(ahead, "request")) with a match or to a large audience on the way: the sweeper "
                        + "has not reached this timeline"))
        }
        if facts.attempts > 0 {
            notes.append(Sentence("\(counted(facts.attempts, "failure")) since the last success", .backoff))
        }
        if let outage = facts.outage, !facts.isRetired, !facts.timeline.isOrphaned, !isHeldByProvider {
            notes.append(Sentence("its reloads need \(outage.words(from: now))", .providerResting))
        }
        if isDormant, status != .sleeping {
            notes.append(Sentence("\(unseen): no reloads by policy until it is viewed", .dormant))
        }
        return notes
    }
}

private func counted(_ count: some BinaryInteger, _ noun: String) -> String {
    "\(count) \(noun)\(count == 1 ? "" : "s")"
}

extension ReloadFacts {
    /// The rule of the last decision, if it was to wait.
    fileprivate var storedWait: ReloadRule { decision == .deferred && rule != .none ? rule : .spacing }
}

extension Decision {
    /// The decision in the past tense.
    package var words: String {
        switch self {
        case .none: "nothing decided"
        case .reloaded: "reloaded"
        case .unchanged: "fetched without a visible change"
        case .failed: "the fetch failed"
        case .deferred: "deferred"
        case .released: "given back without a result"
        case .slept: "put to sleep"
        case .merged: "merged with a pending reload"
        case .refused: "a request was refused"
        }
    }

    /// The rule of a decision that was stored without one.
    fileprivate var usualRule: ReloadRule? {
        switch self {
        case .unchanged: .gate
        case .slept: .dormant
        case .released: .stopped
        case .merged: .coalescing
        case .refused: .invalidEvent
        case .none, .reloaded, .failed, .deferred: nil
        }
    }
}

extension ReloadRule {
    /// The reason, as the second half of a sentence.
    package var meaning: String {
        switch self {
        case .none: "no rule was recorded"
        case .free: "a free reason takes no budget and waits for no spacing"
        case .first: "it had never been rendered"
        case .developerMode: "developer mode lifts budget and spacing"
        case .paced: "a paced token of the daily budget covers it"
        case .token: "a token for bursts of the daily budget covers it"
        case .spacing: "the kind's spacing since the last reload has not passed"
        case .budget: "the tokens of the daily budget are spent"
        case .dormant: "it was not viewed for the kind's dormantAfter"
        case .backoff: "it waits for the back-off after a failure"
        case .inFlight: "it is being fetched, and one more reload follows"
        case .policy: "its policy's time has not come"
        case .gate: "its visible content has not changed"
        case .stopped: "the worker stopped"
        case .output: "Kafka did not take the message"
        case .operatorCommand: "an operator's command"
        case .coalescing: "requests before a fetch starts are one reload"
        case .invalidEvent: "the event cannot be applied"
        case .providerRefused: "the provider's address must not be called"
        case .providerUnresolved: "the provider's host has no address"
        case .providerConnection: "the connection to the provider failed"
        case .providerTimeout: "the provider did not answer in time"
        case .providerStatus: "the provider answered with an error status"
        case .providerTooLarge: "the provider's answer was too large"
        case .providerInvalid: "the provider's answer breaks the contract"
        case .providerMissing: "the provider's answer does not have it"
        case .providerDuplicate: "the provider's answer has it more than once"
        case .providerError: "the provider reported an error for this timeline"
        case .storage: "it could not be stored, or is too large to be published"
        case .providerPoison: "it alone makes the provider fail; the rest of its batch was answered"
        case .providerResting: "its provider's circuit breaker is open, or the provider asked for a pause"
        case .retryBudget: "too many retries of its provider have failed"
        }
    }
}
