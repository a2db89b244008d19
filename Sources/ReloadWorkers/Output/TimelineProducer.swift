package import KafkaClient
import Synchronization
import WidgetEvents
import WidgetModel
import WidgetStore

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

package protocol TimelinePublishing: Sendable {
    /// Upper limit of the duration of ``publish(_:)``. A batch is published only if its lease lasts longer.
    var longestPublish: Duration { get }

    /// Sends messages, waits for their acknowledgements, and returns the outcomes in order.
    func publish(_ messages: [KafkaMessage]) async -> [Result<KafkaDelivery, KafkaError>]
}

/// Publishes with a producer, which its owner shuts down.
package struct KafkaTimelinePublisher: TimelinePublishing {
    package let longestPublish: Duration
    private let producer: KafkaProducer
    private let condition: WorkerCondition?

    /// - Parameters:
    ///   - deliveryTimeout: the producer's, which limits the wait for room and the wait for the acknowledgement.
    ///   - condition: receives the outcomes.
    package init(producer: KafkaProducer, deliveryTimeout: Duration, condition: WorkerCondition? = nil) {
        self.producer = producer
        self.condition = condition
        longestPublish = deliveryTimeout * 2
    }

    package func publish(_ messages: [KafkaMessage]) async -> [Result<KafkaDelivery, KafkaError>] {
        let results = await producer.send(messages)
        condition?.published(results)
        return results
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

    func claimed(problem: String? = nil) { lastClaim.withLock { $0 = problem } }

    /// Error of the last batch; nil if a message was acknowledged, only sizes were refused, or it is long ago.
    package var outputProblem: String? {
        failure.withLock { failure in
            guard let failure, failure.at.duration(to: .now) < Self.memory else { return nil }
            return failure.error.description
        }
    }

    func published(_ results: [Result<KafkaDelivery, KafkaError>]) {
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

/// Kafka messages of timelines.
struct TimelineMessages: Sendable {
    /// `ce_source` of the workers' messages.
    static let source = "/freshet/workers"

    let topic: String

    /// Message with a timeline's content.
    func updated(
        _ timeline: ClaimedTimeline, of kind: RegisteredKind, revision: Int64, content: [UInt8],
        headers: [String: String] = [:]
    ) -> KafkaMessage {
        let event = TimelineUpdatedEvent(
            timeline: timeline.id, identity: timeline.identity(of: kind), revision: revision, storedAt: nil,
            content: content)
        var message = KafkaMessage(event.encode(source: Self.source), topic: topic)
        for (name, value) in headers.sorted(by: { $0.key < $1.key }) {
            message.headers.append(KafkaHeader(name: name, value: Array(value.utf8)))
        }
        return message
    }

    /// Tombstone of a timeline that no widget shows.
    func removed(_ id: TimelineID, revision: Int64) -> KafkaMessage {
        KafkaMessage(TimelineRemovedEvent.encode(id, revision: revision, source: Self.source), topic: topic)
    }
}

extension KafkaMessage {
    init(_ event: EncodedEvent, topic: String) {
        self.init(topic: topic, key: event.key, value: event.value, headers: event.headers)
    }
}
