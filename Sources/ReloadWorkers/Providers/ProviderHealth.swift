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
    /// Whether the circuit breaker is open.
    package fileprivate(set) var isOpen = false
    /// Most concurrent requests.
    package fileprivate(set) var limit = 0
    package internal(set) var answeredAt: Timestamp?
    /// Duration of the latest answered request.
    package internal(set) var latency: Duration?
    package internal(set) var failedAt: Timestamp?
    package internal(set) var failure: String?
}

/// State of a provider: concurrency, breaker, retry budget and batch size.
///
/// Pure: times and random numbers are parameters.
struct ProviderHealth: Hashable, Sendable {
    /// A change to report to the operator.
    enum Change: Hashable, Sendable {
        case breaker(CircuitBreaker.Change)
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
        (record.isOpen, record.limit) = (breaker.state != .closed, limit.value)
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
            breaker.probeBegins()
            isProbe = true
        case .nothing: return nil
        }
        return RequestTicket(
            provider: provider, epoch: breaker.epoch, startedAt: time, isProbe: isProbe,
            wasUsed: held.room(lane, of: limit.value) == 0)
    }

    /// Notes the end of a request.
    mutating func ended(
        _ ticket: RequestTicket, _ verdict: RequestVerdict, jitter: Double, at time: Duration
    ) -> [Change] {
        var changes: [Change] = []
        switch verdict {
        case .answered(let slowly):
            if slowly {
                cut(ticket, at: time, &changes)
            } else {
                limit.succeeded(wasUsed: ticket.wasUsed)
            }
            note(breaker.succeeded(epoch: ticket.epoch, at: time), at: time, &changes)
        case .overloaded(let rest):
            cut(ticket, at: time, &changes)
            fail(ticket, rest, jitter, at: time, &changes)
        case .unavailable(let rest):
            fail(ticket, rest, jitter, at: time, &changes)
        case .tooLarge:
            // The provider answers requests.
            note(breaker.succeeded(epoch: ticket.epoch, at: time), at: time, &changes)
        case .blamesContent:
            // Requests for parts, or a retry, show whether the content is to blame.
            if ticket.isProbe { fail(ticket, nil, jitter, at: time, &changes) }
        }
        return changes
    }

    /// Notes that a failure blamed on the content was the provider's own, since it fails for the whole batch.
    mutating func failedEverywhere(_ ticket: RequestTicket, jitter: Double, at time: Duration) -> [Change] {
        guard !ticket.isProbe else { return [] }
        var changes: [Change] = []
        fail(ticket, nil, jitter, at: time, &changes)
        return changes
    }

    /// Notes a request without an outcome, through no fault of the provider.
    mutating func givenUp(_ ticket: RequestTicket, at time: Duration) {
        if ticket.isProbe { breaker.probeWasGivenUp(epoch: ticket.epoch, at: time) }
    }

    /// Whether an answer took more than its share of the timeout.
    func isSlow(_ time: Duration, of timeout: Duration) -> Bool {
        time > timeout * rules.slowShare
    }

    private mutating func fail(
        _ ticket: RequestTicket, _ rest: Duration?, _ jitter: Double, at time: Duration, _ changes: inout [Change]
    ) {
        note(breaker.failed(epoch: ticket.epoch, rest: rest, jitter: jitter, at: time), at: time, &changes)
    }

    private mutating func cut(_ ticket: RequestTicket, at time: Duration, _ changes: inout [Change]) {
        guard limit.overloaded(startedAt: ticket.startedAt, at: time) else { return }
        changes.append(.shrunk(to: limit.value))
    }

    private mutating func note(_ change: CircuitBreaker.Change?, at time: Duration, _ changes: inout [Change]) {
        guard let change else { return }
        if case .opened = change { limit.restart(at: time) }
        changes.append(.breaker(change))
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
    mutating func succeeded(wasUsed: Bool) {
        guard wasUsed, value < ceiling else { return }
        successes += 1
        guard successes >= value else { return }
        successes = 0
        value += 1
    }

    /// Notes an overload and returns whether the limit was reduced. Requests from before the latest reduction are
    /// ignored, so that one round reduces once.
    mutating func overloaded(startedAt: Duration, at time: Duration) -> Bool {
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
    mutating func wasTooLarge(fitting count: Int) { limit = max(1, min(limit ?? count, count)) }

    mutating func succeeded(_ count: Int) {
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

    mutating func firstAttempts(_ count: Int, at time: Duration) {
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

    private struct Step: Hashable, Sendable {
        let index: Int64
        var value: Int
    }

    private let stepLength: Int64
    /// At most ten, oldest first.
    private var recent: [Step] = []

    init(over window: Duration) {
        stepLength = max(1, window.wholeMicroseconds / Self.steps)
    }

    mutating func add(_ value: Int, at time: Duration) {
        let index = advance(to: time)
        if let last = recent.indices.last, recent[last].index >= index {
            recent[last].value += value
        } else {
            recent.append(Step(index: index, value: value))
        }
    }

    /// Subtracts from the newest steps, down to zero.
    mutating func takeBack(_ value: Int, at time: Duration) {
        _ = advance(to: time)
        var left = value
        for step in recent.indices.reversed() where left > 0 {
            let part = min(left, recent[step].value)
            recent[step].value -= part
            left -= part
        }
    }

    func total(at time: Duration) -> Int {
        let oldest = time.wholeMicroseconds / stepLength - Self.steps
        return recent.reduce(0) { $1.index > oldest ? $0 + $1.value : $0 }
    }

    private mutating func advance(to time: Duration) -> Int64 {
        let index = time.wholeMicroseconds / stepLength
        recent.removeAll { $0.index <= index - Self.steps }
        return index
    }
}
