import WidgetModel

/// Whether Kafka takes what is published, and so whether to claim: while it does not, every fetch would be for nothing.
///
/// Pure: outcomes and times go in, how much may be claimed comes out.
struct OutputHealth: Sendable, Equatable {
    private enum State: Sendable, Equatable {
        /// Anything may be claimed. → `down`
        case up
        /// Nothing may be claimed before the time. → `probing`
        case down(failures: Int, until: Duration)
        /// A few timelines were claimed to see whether they can be published. → `up`, `down`
        case probing(failures: Int)
    }

    /// How much may be claimed.
    enum Allowance: Sendable, Equatable {
        case everything
        /// No more than this, as a probe.
        case probe(timelines: Int)
        case nothing(for: Duration)
    }

    private static let probeSize = 10

    private var state = State.up
    private let backoff: Backoff

    init(backoff: Backoff) {
        self.backoff = backoff
    }

    /// - Parameter now: time since any fixed moment.
    func allowance(now: Duration) -> Allowance {
        switch state {
        case .up: .everything
        case .down(_, let until): now < until ? .nothing(for: until - now) : .probe(timelines: Self.probeSize)
        case .probing: .nothing(for: backoff.cap)
        }
    }

    /// A probe was claimed.
    mutating func probeStarted() {
        if case .down(let failures, _) = state { state = .probing(failures: failures) }
    }

    /// The probe ended without anything to publish: the next one may follow at once.
    mutating func probeEnded(now: Duration) {
        if case .probing(let failures) = state { state = .down(failures: failures, until: now) }
    }

    /// Something was acknowledged.
    mutating func published() {
        state = .up
    }

    /// Nothing of a batch was acknowledged, and not because of what it was.
    mutating func publishFailed(now: Duration) {
        let failures =
            switch state {
            case .up: 0
            case .down(let failures, _), .probing(let failures): failures
            }
        // Failures of batches that were under way together count once.
        if case .down(_, let until) = state, now < until { return }
        state = .down(failures: failures + 1, until: now + backoff.bound(attempt: failures + 1))
    }

    var isUp: Bool { state == .up }
}
