import KafkaClient
import Synchronization
import WidgetModel

/// Publishes messages and tracks the health of publishing.
final class TimelineProducer: Sendable {
    struct Outcome: Sendable {
        var acknowledged: [Int] = []
        /// Refused for their size: a retry cannot succeed.
        var refused: [(index: Int, error: KafkaError)] = []
        /// Not acknowledged; Kafka may have stored them.
        var failed: [Int] = []
    }

    private let publisher: any TimelinePublishing
    private let health: Mutex<OutputHealth>
    private let clock: WorkerClock

    init(_ publisher: any TimelinePublishing, backoff: Backoff, clock: WorkerClock) {
        self.publisher = publisher
        self.clock = clock
        health = Mutex(OutputHealth(backoff: backoff))
    }

    var longestPublish: Duration { publisher.longestPublish }

    func allowance() -> OutputHealth.Allowance {
        health.withLock { $0.allowance(now: clock.elapsed) }
    }

    func probeStarted() {
        health.withLock { $0.probeStarted() }
    }

    func probeEnded() {
        health.withLock { $0.probeEnded(now: clock.elapsed) }
    }

    func publish(_ messages: [KafkaMessage]) async -> Outcome {
        var outcome = Outcome()
        guard !messages.isEmpty else { return outcome }
        for (index, result) in await publisher.publish(messages).enumerated() {
            switch result {
            case .success:
                outcome.acknowledged.append(index)
            case .failure(let error) where error.code == .messageTooLarge:
                outcome.refused.append((index, error))
            case .failure:
                // Also after a fatal error of the producer's client, which the producer replaces.
                outcome.failed.append(index)
            }
        }
        let (works, fails) = (!outcome.acknowledged.isEmpty, !outcome.failed.isEmpty)
        if !Task.isCancelled {
            health.withLock { health in
                if works { health.published() } else if fails { health.publishFailed(now: clock.elapsed) }
            }
        }
        return outcome
    }
}

/// Health of publishing, which limits claims: while publishing fails, fetches are in vain. Pure: times are parameters.
struct OutputHealth: Sendable, Equatable {
    private enum State: Sendable, Equatable {
        /// No limit. → `down`
        case up
        /// No claims before a time. → `probing`
        case down(failures: Int, until: Duration)
        /// A few timelines are claimed as a probe. → `up`, `down`
        case probing(failures: Int)
    }

    enum Allowance: Sendable, Equatable {
        case everything
        /// Limited to a probe.
        case probe(timelines: Int)
        case nothing(for: Duration)
    }

    private static let probeSize = 10

    private var state = State.up
    private let backoff: Backoff

    init(backoff: Backoff) {
        self.backoff = backoff
    }

    func allowance(now: Duration) -> Allowance {
        switch state {
        case .up: .everything
        case .down(_, let until): now < until ? .nothing(for: until - now) : .probe(timelines: Self.probeSize)
        case .probing: .nothing(for: backoff.cap)
        }
    }

    mutating func probeStarted() {
        if case .down(let failures, _) = state { state = .probing(failures: failures) }
    }

    /// Notes a probe that published nothing, so that the next one may follow at once.
    mutating func probeEnded(now: Duration) {
        if case .probing(let failures) = state { state = .down(failures: failures, until: now) }
    }

    mutating func published() {
        state = .up
    }

    /// Notes a batch without an acknowledgement.
    mutating func publishFailed(now: Duration) {
        let failures =
            switch state {
            case .up: 0
            case .down(let failures, _), .probing(let failures): failures
            }
        // Failures of concurrent batches count once.
        if case .down(_, let until) = state, now < until { return }
        state = .down(failures: failures + 1, until: now + backoff.bound(attempt: failures + 1))
    }
}
