// SPDX-License-Identifier: Apache-2.0

package import KafkaClient
import Synchronization
import Waiting
import WidgetModel

/// Sends messages, waits for their acknowledgements, and returns the outcomes in order, as `KafkaProducer` does.
package typealias SendMessages = @Sendable ([KafkaMessage]) async -> [Result<KafkaDelivery, KafkaError>]

/// Publishes messages and tracks the health of publishing.
final class TimelineProducer: Sendable {
    struct Outcome: Sendable {
        var acknowledged: [Int] = []
        /// Refused for their size: a retry cannot succeed.
        var refused: [(index: Int, error: KafkaError)] = []
        /// Not acknowledged; Kafka may have stored them.
        var failed: [Int] = []
    }

    /// Upper limit of the duration of ``publish(_:)``. A batch is published only if its lease lasts longer.
    let longestPublish: Duration
    private let send: SendMessages
    private let condition: WorkerCondition
    private let health: Mutex<OutputHealth>
    private let clock: WorkerClock

    /// - Parameters:
    ///   - deliveryTimeout: the producer's, which limits the wait for room and the wait for the acknowledgement.
    ///   - condition: receives the outcomes.
    init(
        deliveryTimeout: Duration, condition: WorkerCondition = WorkerCondition(), backoff: Backoff, clock: WorkerClock,
        send: @escaping SendMessages
    ) {
        longestPublish = deliveryTimeout * 2
        (self.send, self.condition, self.clock) = (send, condition, clock)
        health = Mutex(OutputHealth(backoff: backoff))
    }

    func allowance() -> OutputHealth.Allowance {
        health.withLock { $0.allowance(now: clock.elapsed) }
    }

    func beginProbe() {
        health.withLock { $0.beginProbe() }
    }

    func endProbe() {
        health.withLock { $0.endProbe(now: clock.elapsed) }
    }

    func publish(_ messages: [KafkaMessage]) async -> Outcome {
        var outcome = Outcome()
        guard !messages.isEmpty else { return outcome }
        let results = await send(messages)
        condition.recordOutcomes(results)
        for (index, result) in results.enumerated() {
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
                if works { health.recordSuccess() } else if fails { health.recordFailure(now: clock.elapsed) }
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

    mutating func beginProbe() {
        if case .down(let failures, _) = state { state = .probing(failures: failures) }
    }

    /// Notes a probe that published nothing, so that the next one may follow at once.
    mutating func endProbe(now: Duration) {
        if case .probing(let failures) = state { state = .down(failures: failures, until: now) }
    }

    mutating func recordSuccess() {
        state = .up
    }

    /// Notes a batch without an acknowledgement.
    mutating func recordFailure(now: Duration) {
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

/// Condition of claiming and publishing, for readiness.
package final class WorkerCondition: Sendable {
    /// Time for which a failure counts: under load, a batch is tried at least as often.
    private static let memory = Duration.seconds(60)

    private let failure = Mutex<(error: KafkaError, at: ContinuousClock.Instant)?>(nil)
    private let lastClaim = Mutex<String?>(nil)

    package init() {}

    /// Error of the latest claim; nil after a success.
    package var claimProblem: String? { lastClaim.withLock { $0 } }

    func recordClaim(problem: String? = nil) { lastClaim.withLock { $0 = problem } }

    /// Error of the last batch; nil if a message was acknowledged, only sizes were refused, or it is long ago.
    package var outputProblem: String? {
        failure.withLock { failure in
            guard let failure, failure.at.duration(to: .now) < Self.memory else { return nil }
            return failure.error.description
        }
    }

    func recordOutcomes(_ results: [Result<KafkaDelivery, KafkaError>]) {
        var failed: KafkaError?
        for result in results {
            guard case .failure(let error) = result, error.code != .messageTooLarge, error.code != .cancelled else {
                return failure.withLock { $0 = nil }
            }
            failed = error
        }
        if let failed { failure.withLock { $0 = (failed, .now) } }
    }
}
