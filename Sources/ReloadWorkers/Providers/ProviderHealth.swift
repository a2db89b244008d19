import WidgetModel

/// Permission for a request, returned when the request has ended.
struct RequestTicket: Hashable, Sendable {
    let provider: ProviderKey
    /// For the log.
    let app: String
    /// Of the breaker, when the request began.
    let epoch: Int
    let startedAt: Duration
    /// It finds out whether the provider is well again.
    let isProbe: Bool
    /// No slot of the provider was free beside it.
    let wasUsed: Bool
}

/// State that a worker process keeps of one provider: its concurrency, breaker, retry budget and batch size.
///
/// Pure: time and random numbers are parameters.
struct ProviderHealth: Hashable, Sendable {
    /// Something that an operator may want to know.
    enum Change: Hashable, Sendable {
        case breaker(CircuitBreaker.Change)
        case shrunk(to: Int)
    }

    private(set) var limit: ConcurrencyLimit
    private(set) var breaker: CircuitBreaker
    var retries: RetryBudget
    var sizes = BatchSizeLimits()
    /// When it was last asked for anything.
    private(set) var usedAt: Duration
    private let rules: ProtectionRules

    init(_ rules: ProtectionRules, at time: Duration) {
        limit = ConcurrencyLimit(initial: rules.initialConcurrency, ceiling: rules.maximumConcurrency)
        breaker = CircuitBreaker(rules)
        retries = RetryBudget(rules)
        self.rules = rules
        usedAt = time
    }

    /// A request is about to be made.
    ///
    /// - Returns: nil when the breaker does not let it through.
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

    /// A request has ended.
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
            note(
                breaker.failed(epoch: ticket.epoch, rest: rest, jitter: jitter, at: time), at: time, &changes)
        case .unavailable(let rest):
            note(
                breaker.failed(epoch: ticket.epoch, rest: rest, jitter: jitter, at: time), at: time, &changes)
        case .tooLarge:
            // It reads requests and answers them.
            note(breaker.succeeded(epoch: ticket.epoch, at: time), at: time, &changes)
        case .blamesContent:
            // Whether it is the content shows only when it is asked for in parts, or again.
            if ticket.isProbe {
                note(
                    breaker.failed(epoch: ticket.epoch, rest: nil, jitter: jitter, at: time), at: time, &changes)
            }
        }
        return changes
    }

    /// Records that a failure blamed on the content was the provider's own: it fails for the whole batch.
    mutating func failedEverywhere(_ ticket: RequestTicket, jitter: Double, at time: Duration) -> [Change] {
        guard !ticket.isProbe else { return [] }
        var changes: [Change] = []
        note(breaker.failed(epoch: ticket.epoch, rest: nil, jitter: jitter, at: time), at: time, &changes)
        return changes
    }

    /// A request was not made to its end, through no fault of the provider.
    mutating func givenUp(_ ticket: RequestTicket, at time: Duration) {
        if ticket.isProbe { breaker.probeWasGivenUp(epoch: ticket.epoch, at: time) }
    }

    /// Whether an answer took more than its share of the timeout.
    func isSlow(_ time: Duration, of timeout: Duration) -> Bool {
        time > timeout * rules.slowShare
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
