import KafkaClient
import Synchronization

/// Publishes, and keeps count of whether that works.
final class OutputGate: Sendable {
    /// What became of a batch of messages.
    struct Outcome: Sendable {
        var acknowledged: [Int] = []
        /// Not taken because of what they are: trying again the same way is of no use.
        var refused: [(index: Int, error: KafkaError)] = []
        /// Not acknowledged; they may have been stored all the same.
        var failed: [Int] = []
    }

    private let publisher: any TimelinePublishing
    private let health: Mutex<OutputHealth>
    private let clock: WorkerClock

    init(_ publisher: any TimelinePublishing, configuration: WorkerConfiguration, clock: WorkerClock) {
        self.publisher = publisher
        self.clock = clock
        health = Mutex(OutputHealth(backoff: configuration.outputBackoff))
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
                // Also what was fatal to the producer's client: the producer makes a new one.
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
