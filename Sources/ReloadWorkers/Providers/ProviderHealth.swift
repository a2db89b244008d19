import WidgetModel

/// Permission for a request, returned when the request has ended.
struct RequestTicket: Hashable, Sendable {
    let provider: ProviderKey
    /// Name of the app, for the log.
    let app: String
    /// Epoch of the breaker at the begin.
    let epoch: Int
    let startedAt: Duration
    /// Whether the request is the breaker's probe.
    let isProbe: Bool
    /// Whether the request took the last slot.
    let wasUsed: Bool
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
    private let rules: ProtectionRules

    init(_ rules: ProtectionRules, at time: Duration) {
        limit = ConcurrencyLimit(initial: rules.initialConcurrency, ceiling: rules.maximumConcurrency)
        breaker = CircuitBreaker(rules)
        retries = RetryBudget(rules)
        self.rules = rules
        usedAt = time
    }

    /// Admits a request; nil if the breaker refuses it.
    mutating func begin(
        _ provider: ProviderKey, app: String, held: HeldSlots, lane: ReloadLane, at time: Duration
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
            provider: provider, app: app, epoch: breaker.epoch, startedAt: time, isProbe: isProbe,
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
