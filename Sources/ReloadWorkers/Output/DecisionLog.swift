import KafkaClient
package import Logging
import ServiceLifecycle
import Synchronization
package import WidgetEvents
package import WidgetModel
import WidgetStore

/// Where decisions are told. Telling is never in the way of a reload: it takes note and returns.
package protocol DecisionPublishing: Sendable {
    /// - Parameter decisions: those of one statement.
    func record(_ decisions: [TimelineDecidedEvent])
}

/// Publishes decisions to their topic, behind the reloads' backs: bounded, one send at a time, each message once. What
/// finds no room, or is not acknowledged, is counted and logged, and not tried again.
package final class DecisionLog: DecisionPublishing, Service {
    package struct Counts: Hashable, Sendable {
        package var published = 0
        /// Not acknowledged by Kafka.
        package var failed = 0
        /// Not taken note of: too many waited.
        package var dropped = 0
    }

    private static let batch = 1_000
    private static let logInterval = Duration.seconds(60)
    /// How long the last decisions may take when the process stops.
    private static let lastSend = Duration.seconds(3)
    private static let source = "/freshet/decisions"

    private struct State {
        var waiting: [(decision: TimelineDecidedEvent, time: Timestamp)] = []
        var counts = Counts()
        /// Counts in the latest log message, and its time.
        var logged = Counts()
        var loggedAt: Duration?
    }

    private let state = Mutex(State())
    private let publisher: any TimelinePublishing
    private let topic: String
    private let inputs: [String]
    private let limit: Int
    private let signal = WorkSignal()
    private let clock: WorkerClock
    private let now: @Sendable () -> Timestamp
    private let logger: Logger

    /// - Parameters:
    ///   - inputs: names of the input topics, in the order of `EventPosition.topic`.
    ///   - limit: most decisions that wait to be sent.
    package init(
        publisher: any TimelinePublishing, topic: String, inputs: [String], limit: Int = 20_000,
        clock: any Clock<Duration> = ContinuousClock(), now: @escaping @Sendable () -> Timestamp = WallClock.now,
        logger: Logger
    ) {
        self.publisher = publisher
        self.topic = topic
        self.inputs = inputs
        self.limit = limit
        self.clock = WorkerClock(clock)
        self.now = now
        self.logger = logger
    }

    package var counts: Counts { state.withLock { $0.counts } }

    package func record(_ decisions: [TimelineDecidedEvent]) {
        guard !decisions.isEmpty else { return }
        let time = now()
        state.withLock { state in
            let room = max(0, limit - state.waiting.count)
            state.waiting += decisions.prefix(room).map { ($0, time) }
            state.counts.dropped += max(0, decisions.count - room)
        }
        signal.signal(.timelines)
    }

    /// Sends what is recorded until graceful shutdown or cancellation, and what is left then. It must stop after those who
    /// record.
    package func run() async throws {
        while !Task.isCancelled, !Task.isShuttingDownGracefully {
            let mark = signal.mark(.timelines)
            await send()
            do {
                try await cancelWhenGracefulShutdown { [signal] in try await signal.wait(past: mark) }
            } catch {
                break
            }
        }
        // A task of its own, since this one may be cancelled; awaited, and bounded.
        await Task { [clock] in
            _ = try? await clock.withLimit(Self.lastSend) { await self.send() }
        }.value
        log(isLast: true)
    }

    private func send() async {
        while true {
            let chunk = state.withLock { state in
                let chunk = Array(state.waiting.prefix(Self.batch))
                state.waiting.removeFirst(chunk.count)
                return chunk
            }
            guard !chunk.isEmpty, !Task.isCancelled else { return }
            let results = await publisher.publish(chunk.map { message($0.decision, $0.time) })
            let failed = results.count { if case .failure = $0 { true } else { false } }
            state.withLock { state in
                state.counts.failed += failed
                state.counts.published += results.count - failed
            }
            log(isLast: false)
        }
    }

    /// Once a minute at most, and at the end: what was lost since the last time.
    private func log(isLast: Bool) {
        let elapsed = clock.elapsed
        let lost = state.withLock { state -> Counts? in
            let failed = state.counts.failed - state.logged.failed
            let dropped = state.counts.dropped - state.logged.dropped
            guard failed + dropped > 0,
                isLast || state.loggedAt.map({ elapsed - $0 >= Self.logInterval }) ?? true
            else { return nil }
            state.logged = state.counts
            state.loggedAt = elapsed
            return Counts(failed: failed, dropped: dropped)
        }
        guard let lost else { return }
        logger.warning(
            "decisions were not published",
            metadata: ["topic": "\(topic)", "failed": "\(lost.failed)", "dropped": "\(lost.dropped)"])
    }

    private func message(_ decision: TimelineDecidedEvent, _ time: Timestamp) -> KafkaMessage {
        let event = decision.encode(source: Self.source, time: time, topics: inputs)
        return KafkaMessage(
            topic: topic, key: event.key, value: event.value,
            headers: event.headers.map { KafkaHeader(name: $0.name, value: $0.value) })
    }
}
