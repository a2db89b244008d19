import WidgetModel

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

    enum Change: Hashable, Sendable {
        /// Opened until a time; `wasClosed`: whether requests passed before.
        case opened(until: Duration, wasClosed: Bool)
        case closed
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

    func allowance(at time: Duration) -> Allowance {
        switch state {
        case .closed: .anything
        case .open(let until): until <= time ? .probe : .nothing(until: until)
        case .halfOpen: .nothing(until: nil)
        }
    }

    /// Notes the begin of the probe.
    mutating func probeBegins() {
        guard case .open = state else { return }
        state = .halfOpen
        epoch += 1
    }

    /// Notes a probe without an outcome, so that the next request is a probe.
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

    /// Notes the failure of a whole request.
    ///
    /// - Parameters:
    ///   - rest: pause requested by the provider.
    ///   - jitter: random number from 0 to 1.
    mutating func failed(epoch: Int, rest: Duration?, jitter: Double, at time: Duration) -> Change? {
        let rest = rest.map { min($0, rules.maximumRest) } ?? .zero
        guard epoch == self.epoch else {
            // Of an earlier epoch: only a longer pause counts.
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
