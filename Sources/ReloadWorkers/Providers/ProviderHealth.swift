// SPDX-License-Identifier: Apache-2.0

import Waiting
package import WidgetModel

/// Permission for a request, returned when the request has ended.
struct RequestTicket: Hashable, Sendable {
    let provider: ProviderKey
    /// Epoch of the breaker at the begin.
    let epoch: Int
    let startedAt: Duration
    /// Whether the request is the breaker's probe.
    let isProbe: Bool
    /// Whether the request took the last slot.
    let wasUsed: Bool
}

/// Latest requests for timelines to a provider.
package struct ProviderRecord: Hashable, Sendable {
    /// Most concurrent requests.
    package fileprivate(set) var limit = 0
    package internal(set) var answeredAt: Timestamp?
    /// Duration of the latest answered request.
    package internal(set) var latency: Duration?
    package internal(set) var failedAt: Timestamp?
    package internal(set) var failure: String?
    /// Latest error of a single timeline in an answer.
    package internal(set) var itemFailedAt: Timestamp?
    package internal(set) var itemFailure: String?
}

/// State of a provider: concurrency, breaker, retry budget and batch size.
///
/// Pure: times and random numbers are parameters.
struct ProviderHealth: Hashable, Sendable {
    /// A change to report to the operator.
    enum Change: Hashable, Sendable {
        /// The breaker opened until a time; `wasClosed`: whether requests passed before.
        case opened(until: Duration, wasClosed: Bool)
        /// The open breaker stays open until a later time.
        case delayed(until: Duration)
        /// The breaker closed.
        case closed
        /// The limit of concurrent requests was reduced.
        case shrunk(to: Int)
    }

    private(set) var limit: ConcurrencyLimit
    private(set) var breaker: CircuitBreaker
    var retries: RetryBudget
    var sizes = BatchSizeLimits()
    /// Time of the latest request.
    private(set) var usedAt: Duration
    /// Latest requests, without the state.
    var latest = ProviderRecord()
    private let rules: ProtectionRules

    init(_ rules: ProtectionRules, at time: Duration) {
        limit = ConcurrencyLimit(initial: rules.initialConcurrency, ceiling: rules.maximumConcurrency)
        breaker = CircuitBreaker(rules)
        retries = RetryBudget(rules)
        self.rules = rules
        usedAt = time
    }

    /// Latest requests and the state.
    var record: ProviderRecord {
        var record = latest
        record.limit = limit.value
        return record
    }

    /// Admits a request; nil if the breaker refuses it.
    mutating func begin(
        _ provider: ProviderKey, held: HeldSlots, lane: ReloadLane, at time: Duration
    ) -> RequestTicket? {
        usedAt = time
        var isProbe = false
        switch breaker.allowance(at: time) {
        case .anything: break
        case .probe:
            breaker.beginProbe()
            isProbe = true
        case .nothing: return nil
        }
        return RequestTicket(
            provider: provider, epoch: breaker.epoch, startedAt: time, isProbe: isProbe,
            wasUsed: held.room(lane, of: limit.value) == 0)
    }

    /// Notes the end of a request.
    mutating func end(
        _ ticket: RequestTicket, _ verdict: RequestVerdict, jitter: Double, at time: Duration
    ) -> [Change] {
        var changes: [Change] = []
        switch verdict {
        case .answered(let slowly):
            if slowly {
                cut(ticket, at: time, &changes)
            } else {
                limit.recordSuccess(wasUsed: ticket.wasUsed)
            }
            note(breaker.recordSuccess(epoch: ticket.epoch, at: time), at: time, &changes)
        case .overloaded(let rest):
            cut(ticket, at: time, &changes)
            fail(ticket, rest, jitter, at: time, &changes)
        case .unavailable(let rest):
            fail(ticket, rest, jitter, at: time, &changes)
        case .tooLarge:
            // The provider answers requests.
            note(breaker.recordSuccess(epoch: ticket.epoch, at: time), at: time, &changes)
        case .blamesContent:
            // Requests for parts, or a retry, show whether the content is to blame.
            if ticket.isProbe { fail(ticket, nil, jitter, at: time, &changes) }
        }
        return changes
    }

    /// Notes that a failure blamed on the content was the provider's own, since it fails for the whole batch.
    mutating func recordFailureEverywhere(_ ticket: RequestTicket, jitter: Double, at time: Duration) -> [Change] {
        guard !ticket.isProbe else { return [] }
        var changes: [Change] = []
        fail(ticket, nil, jitter, at: time, &changes)
        return changes
    }

    /// Notes a request without an outcome, through no fault of the provider.
    mutating func giveUp(_ ticket: RequestTicket, at time: Duration) {
        if ticket.isProbe { breaker.giveUpProbe(epoch: ticket.epoch, at: time) }
    }

    /// Whether an answer took more than its share of the timeout.
    func isSlow(_ time: Duration, of timeout: Duration) -> Bool {
        time > timeout * rules.slowShare
    }

    private mutating func fail(
        _ ticket: RequestTicket, _ rest: Duration?, _ jitter: Double, at time: Duration, _ changes: inout [Change]
    ) {
        note(breaker.recordFailure(epoch: ticket.epoch, rest: rest, jitter: jitter, at: time), at: time, &changes)
    }

    private mutating func cut(_ ticket: RequestTicket, at time: Duration, _ changes: inout [Change]) {
        guard limit.recordOverload(startedAt: ticket.startedAt, at: time) else { return }
        changes.append(.shrunk(to: limit.value))
    }

    private mutating func note(_ change: Change?, at time: Duration, _ changes: inout [Change]) {
        guard let change else { return }
        if case .opened = change { limit.restart(at: time) }
        changes.append(change)
    }
}

/// Outcome of a whole request for the provider's health. Errors of single timelines are part of an answer.
enum RequestVerdict: Hashable, Sendable {
    /// - Parameter slowly: whether it took more than its share of the timeout.
    case answered(slowly: Bool)
    /// The provider or the network is overloaded.
    case overloaded(rest: Duration?)
    /// The provider does not serve such requests.
    case unavailable(rest: Duration?)
    /// The batch was too large.
    case tooLarge
    /// The provider fails for the content, which may be one poisonous timeline or all.
    case blamesContent

    init(_ failure: ProviderFailure) {
        switch (failure.reason, failure.status) {
        case (.timeout, _), (.connection, _), (.status, 429), (.status, 503):
            self = .overloaded(rest: failure.retryAfter)
        case (.status, 413), (.status, 414), (.status, 431):
            self = .tooLarge
        case (.invalid, _), (.tooLarge, _), (.status, 400), (.status, 422), (.status, 500):
            self = .blamesContent
        default:
            self = .unavailable(rest: failure.retryAfter)
        }
    }
}

extension ProviderFailure {
    /// Whether the request may have crashed or blocked the provider. An outage looks the same, so it counts only after
    /// several attempts.
    var mayBreakProvider: Bool {
        guard retryAfter == nil else { return false }
        switch (reason, status) {
        case (.timeout, _), (.connection, _), (.status, 502), (.status, 504): return true
        default: return false
        }
    }
}

/// Limit of concurrent requests to a provider, by additive increase and multiplicative decrease (AIMD): one more after
/// each round of successes that used the limit, half when the provider is overloaded.
///
/// Pure: times are parameters.
struct ConcurrencyLimit: Hashable, Sendable {
    let ceiling: Int
    private(set) var value: Int
    private var successes = 0
    private var cutAt: Duration?

    init(initial: Int, ceiling: Int) {
        self.ceiling = max(1, ceiling)
        value = max(1, min(initial, ceiling))
    }

    /// Notes a success.
    ///
    /// - Parameter wasUsed: whether the request took the last slot; otherwise its success says nothing about the limit.
    mutating func recordSuccess(wasUsed: Bool) {
        guard wasUsed, value < ceiling else { return }
        successes += 1
        guard successes >= value else { return }
        successes = 0
        value += 1
    }

    /// Notes an overload and returns whether the limit was reduced. Requests from before the latest reduction are
    /// ignored, so that one round reduces once.
    mutating func recordOverload(startedAt: Duration, at time: Duration) -> Bool {
        successes = 0
        if let cutAt, startedAt <= cutAt { return false }
        cutAt = time
        guard value > 1 else { return false }
        value /= 2
        return true
    }

    /// Starts again at one, for a provider after an outage.
    mutating func restart(at time: Duration) {
        value = 1
        successes = 0
        cutAt = time
    }
}

/// Largest batch that a provider accepts: the size accepted at the last refusal, and one more for each full batch
/// since.
struct BatchSizeLimits: Hashable, Sendable {
    /// Nil without a refusal lately.
    private var limit: Int?

    /// A limit of this size is no limit.
    private static let forgottenAt = 10_000

    func size(atMost maxBatch: Int) -> Int { max(1, min(maxBatch, limit ?? maxBatch)) }

    /// Notes that a request or its answer was too large.
    ///
    /// - Parameter count: size that fits, as far as known.
    mutating func recordRefusal(fitting count: Int) { limit = max(1, min(limit ?? count, count)) }

    mutating func recordSuccess(of count: Int) {
        guard let known = limit, count >= known else { return }
        limit = known + 1 < Self.forgottenAt ? known + 1 : nil
    }
}

/// Limit of the load of retries on a failing provider: failed retries are at most a fifth of first attempts, in
/// timelines over a sliding window, or a small number.
///
/// A retry is paid before it is made, and paid back if it succeeds, so that after an outage nothing waits for first
/// attempts.
///
/// Pure: times are parameters.
struct RetryBudget: Hashable, Sendable {
    private let rules: ProtectionRules
    private var firsts: SlidingSum
    private var retries: SlidingSum
    private var refused: SlidingSum

    init(_ rules: ProtectionRules) {
        self.rules = rules
        firsts = SlidingSum(over: rules.retryWindow)
        retries = SlidingSum(over: rules.retryWindow)
        refused = SlidingSum(over: rules.retryWindow)
    }

    mutating func recordFirstAttempts(_ count: Int, at time: Duration) {
        firsts.add(count, at: time)
    }

    /// Number of timelines that may be retried now.
    func available(at time: Duration) -> Int {
        max(0, allowed(at: time) - retries.total(at: time))
    }

    /// Notes refused timelines and returns their delay, which grows with the ratio of refused to allowed timelines:
    /// claiming them in vain must not cost more than retrying them.
    mutating func wait(after count: Int, at time: Duration) -> Duration {
        refused.add(count, at: time)
        let windows = Double(refused.total(at: time)) / Double(max(1, allowed(at: time)))
        return rules.retryWindow * min(Self.longestWait, 1 + windows)
    }

    /// Longest delay, in windows.
    private static let longestWait = 30.0

    private func allowed(at time: Duration) -> Int {
        max(rules.retryFloor, Int((Double(firsts.total(at: time)) * rules.retryShare).rounded(.down)))
    }

    /// Pays for wanted retries within the budget, and returns their number.
    mutating func take(_ wanted: Int, at time: Duration) -> Int {
        let granted = min(wanted, available(at: time))
        if granted > 0 { retries.add(granted, at: time) }
        return granted
    }

    /// Pays back retries that succeeded or were not made.
    mutating func payBack(_ count: Int, at time: Duration) {
        retries.takeBack(count, at: time)
    }
}

/// A sum over a sliding window of ten steps.
struct SlidingSum: Hashable, Sendable {
    private static let steps: Int64 = 10

    private let stepLength: Int64
    /// Values of the latest steps, at most ten, oldest first.
    private var values: [Int] = []
    /// Index of the last one.
    private var newest: Int64 = 0

    init(over window: Duration) {
        stepLength = max(1, window.wholeMicroseconds / Self.steps)
    }

    mutating func add(_ value: Int, at time: Duration) {
        advance(to: time)
        values[values.count - 1] += value
    }

    /// Subtracts from the newest steps, down to zero.
    mutating func takeBack(_ value: Int, at time: Duration) {
        advance(to: time)
        var left = value
        for index in values.indices.reversed() where left > 0 {
            let part = min(left, values[index])
            values[index] -= part
            left -= part
        }
    }

    func total(at time: Duration) -> Int {
        let past = time.wholeMicroseconds / stepLength - newest
        return values.suffix(Int(max(0, min(Self.steps, Self.steps - past)))).reduce(0, +)
    }

    /// Begins the step of a time, unless a later one has begun.
    private mutating func advance(to time: Duration) {
        let index = time.wholeMicroseconds / stepLength
        if values.isEmpty || index - newest >= Self.steps {
            values = [0]
            newest = index
        }
        while newest < index {
            values.append(0)
            newest += 1
        }
        values.removeFirst(max(0, values.count - Int(Self.steps)))
    }
}

/// Stops requests to a provider while whole requests fail.
///
/// It opens after a number of failures in a row, at a share of failures in a window, or when the provider asks for a
/// pause. After the pause a small request probes the provider: success closes the breaker, failure opens it for twice
/// as long. Errors of single timelines never open it.
///
/// Pure: times and random numbers are parameters.
struct CircuitBreaker: Hashable, Sendable {
    enum State: Hashable, Sendable {
        /// Requests pass. → `open`
        case closed
        /// No requests until a time. → `halfOpen` with the first request after it
        case open(until: Duration)
        /// A probe is under way. → `closed`, `open`
        case halfOpen
    }

    enum Allowance: Hashable, Sendable {
        case anything
        case probe
        /// Nothing before a time; nil before the probe's outcome.
        case nothing(until: Duration?)
    }

    private(set) var state = State.closed
    /// Number of changes of state; outcomes of requests from earlier epochs do not count.
    private(set) var epoch = 0
    private var failuresInARow = 0
    private var successesInARow = 0
    /// Openings without a recovery in between.
    private var trips = 0
    private var failures: SlidingSum
    private var requests: SlidingSum
    private let rules: ProtectionRules

    init(_ rules: ProtectionRules) {
        self.rules = rules
        failures = SlidingSum(over: rules.failureWindow)
        requests = SlidingSum(over: rules.failureWindow)
    }

    /// Time until a request may probe the provider; nil while the breaker is closed.
    func rest(at time: Duration) -> Duration? {
        switch state {
        case .closed: nil
        case .open(let until): max(.zero, until - time)
        case .halfOpen: .zero
        }
    }

    func allowance(at time: Duration) -> Allowance {
        switch state {
        case .closed: .anything
        case .open(let until): until <= time ? .probe : .nothing(until: until)
        case .halfOpen: .nothing(until: nil)
        }
    }

    /// Notes the begin of the probe.
    mutating func beginProbe() {
        guard case .open = state else { return }
        state = .halfOpen
        epoch += 1
    }

    /// Notes a probe without an outcome, so that the next request is a probe.
    mutating func giveUpProbe(epoch: Int, at time: Duration) {
        guard state == .halfOpen, epoch == self.epoch else { return }
        state = .open(until: time)
    }

    mutating func recordSuccess(epoch: Int, at time: Duration) -> ProviderHealth.Change? {
        guard epoch == self.epoch else { return nil }
        failuresInARow = 0
        successesInARow += 1
        requests.add(1, at: time)
        if successesInARow >= rules.consecutiveFailures { trips = 0 }
        guard state == .halfOpen else { return nil }
        state = .closed
        self.epoch += 1
        forgetCounts()
        return .closed
    }

    /// Notes the failure of a whole request.
    ///
    /// - Parameters:
    ///   - rest: pause requested by the provider.
    ///   - jitter: random number from 0 to 1.
    mutating func recordFailure(epoch: Int, rest: Duration?, jitter: Double, at time: Duration) -> ProviderHealth
        .Change?
    {
        let rest = rest.map { min($0, rules.maximumRest) } ?? .zero
        guard epoch == self.epoch else {
            // Of an earlier epoch: only a longer pause counts.
            guard case .open(let until) = state, time + rest > until else { return nil }
            state = .open(until: time + rest)
            return .delayed(until: time + rest)
        }
        successesInARow = 0
        failuresInARow += 1
        requests.add(1, at: time)
        failures.add(1, at: time)
        switch state {
        case .open:
            return nil
        case .halfOpen:
            return open(rest: rest, jitter: jitter, at: time)
        case .closed:
            guard rest > .zero || failuresInARow >= rules.consecutiveFailures || isFailingMostly(at: time) else {
                return nil
            }
            return open(rest: rest, jitter: jitter, at: time)
        }
    }

    private func isFailingMostly(at time: Duration) -> Bool {
        let count = requests.total(at: time)
        return count >= rules.failureSample
            && Double(failures.total(at: time)) >= Double(count) * rules.failureShare
    }

    private mutating func open(rest: Duration, jitter: Double, at time: Duration) -> ProviderHealth.Change {
        let wasClosed = state == .closed
        trips += 1
        let until = time + max(rest, rules.openBackoff.delay(attempt: trips, jitter: jitter))
        state = .open(until: until)
        epoch += 1
        forgetCounts()
        return .opened(until: until, wasClosed: wasClosed)
    }

    private mutating func forgetCounts() {
        failuresInARow = 0
        successesInARow = 0
        failures = SlidingSum(over: rules.failureWindow)
        requests = SlidingSum(over: rules.failureWindow)
    }
}
