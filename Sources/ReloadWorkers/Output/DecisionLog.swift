// SPDX-License-Identifier: Apache-2.0

import KafkaClient
package import Logging
import ServiceLifecycle
import Synchronization
import Waiting
package import WidgetEvents
package import WidgetModel
import WidgetStore

/// Publishes decisions to their topic in the background: bounded, one send at a time, each message once. Decisions
/// without room or acknowledgement are counted and logged, not retried.
package final class DecisionLog: Service {
    private static let batch = 1_000
    private static let logInterval = Duration.seconds(60)
    /// Time limit of the last decisions when the process stops.
    private static let lastSend = Duration.seconds(3)
    private static let source = "/freshet/decisions"

    private struct State {
        var waiting: [(decision: TimelineDecidedEvent, time: Timestamp)] = []
        /// Losses since the latest log message: not acknowledged by Kafka, and not recorded since too many waited.
        var failed = 0
        var dropped = 0
        var loggedAt: Duration?
    }

    private let state = Mutex(State())
    private let sendMessages: SendMessages
    private let topic: String
    private let inputs: [String]
    private let limit: Int
    private let signal = Signal()
    private let clock: WorkerClock
    private let now: @Sendable () -> Timestamp
    private let logger: Logger

    /// - Parameters:
    ///   - inputs: names of the input topics, in the order of `EventPosition.topic`.
    ///   - limit: most waiting decisions.
    package init(
        topic: String, inputs: [String], limit: Int = 20_000,
        clock: any Clock<Duration> = ContinuousClock(), now: @escaping @Sendable () -> Timestamp = Timestamp.now,
        logger: Logger, send: @escaping SendMessages
    ) {
        (sendMessages, self.topic, self.inputs, self.limit) = (send, topic, inputs, limit)
        self.clock = WorkerClock(clock)
        self.now = now
        self.logger = logger
    }

    /// Records the decisions of one statement and returns at once: it must not delay reloads.
    package func record(_ decisions: [TimelineDecidedEvent]) {
        guard !decisions.isEmpty else { return }
        let time = now()
        state.withLock { state in
            let room = max(0, limit - state.waiting.count)
            state.waiting += decisions.prefix(room).map { ($0, time) }
            state.dropped += max(0, decisions.count - room)
        }
        signal.signal()
    }

    /// Sends recorded decisions until graceful shutdown or cancellation, and the remaining ones then. It must stop
    /// after the services that record.
    package func run() async throws {
        while !Task.isCancelled, !Task.isShuttingDownGracefully {
            let version = signal.version
            await send()
            do {
                try await cancelWhenGracefulShutdown { [signal] in try await signal.wait(past: version) }
            } catch {
                break
            }
        }
        // A task of its own, since this one may be cancelled.
        await Task { [clock] in
            _ = try? await withTimeLimit(Self.lastSend, clock: clock.clock) { await self.send() }
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
            let results = await sendMessages(chunk.map { message($0.decision, $0.time) })
            let failed = results.count { if case .failure = $0 { true } else { false } }
            state.withLock { $0.failed += failed }
            log(isLast: false)
        }
    }

    /// Logs new losses, at most once a minute and at the end.
    private func log(isLast: Bool) {
        let elapsed = clock.elapsed
        let lost = state.withLock { state -> (failed: Int, dropped: Int)? in
            guard state.failed + state.dropped > 0,
                isLast || state.loggedAt.map({ elapsed - $0 >= Self.logInterval }) ?? true
            else { return nil }
            defer { (state.failed, state.dropped, state.loggedAt) = (0, 0, elapsed) }
            return (state.failed, state.dropped)
        }
        guard let lost else { return }
        logger.warning(
            "decisions were not published",
            metadata: ["topic": "\(topic)", "failed": "\(lost.failed)", "dropped": "\(lost.dropped)"])
    }

    private func message(_ decision: TimelineDecidedEvent, _ time: Timestamp) -> KafkaMessage {
        KafkaMessage(decision.encode(source: Self.source, time: time, topics: inputs), topic: topic)
    }
}
