import WidgetModel

/// Leaves a provider alone while its whole requests fail.
///
/// It opens after so many failures in a row, or when so large a part of a window's requests fails, or when the provider
/// asks for a rest. Once the time is over one small request finds out whether the provider is well: its success closes
/// the breaker, its failure opens it for twice as long. Errors of single timelines never open it.
///
/// Pure: no clock, and chance is handed in.
struct CircuitBreaker: Hashable, Sendable {
    enum State: Hashable, Sendable {
        /// May become open.
        case closed
        /// May become half-open, once the time has come and a request begins.
        case open(until: Duration)
        /// A probe is on its way. May become closed or open.
        case halfOpen
    }

    enum Allowance: Hashable, Sendable {
        case anything
        case probe
        /// Nothing before this time; nil: before the probe is back.
        case nothing(until: Duration?)
    }

    enum Change: Hashable, Sendable {
        /// Until this time; `wasClosed`: requests got through before.
        case opened(until: Duration, wasClosed: Bool)
        case closed
    }

    private(set) var state = State.closed
    /// Which life of the breaker a request belongs to: what it says of an earlier one does not count any more.
    private(set) var epoch = 0
    private var failuresInARow = 0
    private var successesInARow = 0
    /// How often it has opened without being well in between.
    private var trips = 0
    private var failures: SlidingSum
    private var requests: SlidingSum
    private let rules: ProtectionRules

    init(_ rules: ProtectionRules) {
        self.rules = rules
        failures = SlidingSum(over: rules.failureWindow)
        requests = SlidingSum(over: rules.failureWindow)
    }

    func allowance(at time: Duration) -> Allowance {
        switch state {
        case .closed: .anything
        case .open(let until): until <= time ? .probe : .nothing(until: until)
        case .halfOpen: .nothing(until: nil)
        }
    }

    /// The request that was allowed as a probe begins.
    mutating func probeBegins() {
        guard case .open = state else { return }
        state = .halfOpen
        epoch += 1
    }

    /// The probe's request was not made to its end: the next one may be.
    mutating func probeWasGivenUp(epoch: Int, at time: Duration) {
        guard state == .halfOpen, epoch == self.epoch else { return }
        state = .open(until: time)
    }

    mutating func succeeded(epoch: Int, at time: Duration) -> Change? {
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

    /// A whole request failed.
    ///
    /// - Parameters:
    ///   - rest: how long the provider asks to be left alone.
    ///   - jitter: from 0 to 1.
    mutating func failed(epoch: Int, rest: Duration?, jitter: Double, at time: Duration) -> Change? {
        let rest = rest.map { min($0, rules.maximumRest) } ?? .zero
        guard epoch == self.epoch else {
            // From before it opened; only a wish for a longer rest is news.
            guard case .open(let until) = state, time + rest > until else { return nil }
            state = .open(until: time + rest)
            return nil
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

    private mutating func open(rest: Duration, jitter: Double, at time: Duration) -> Change {
        let wasClosed = state == .closed
        trips += 1
        let bound = rules.openBackoff.bound(attempt: trips)
        let until = time + max(rest, bound * (0.5 + 0.5 * min(1, max(0, jitter))))
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
