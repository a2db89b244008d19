import Synchronization
import WidgetModel
import WidgetStore

/// Sampled latency from the publication of an event to the storage of a timeline. The event that a stored timeline
/// names as its cause is looked up among the published ones.
final class DemoLatency: Sendable {
    /// Percentiles in milliseconds; zero without samples.
    struct Summary: Sendable {
        let samples: Int
        let p50: Double
        let p99: Double

        init(_ latencies: [Duration]) {
            let sorted = latencies.sorted()
            func percentile(_ share: Double) -> Double {
                sorted.isEmpty ? 0 : sorted[Int(Double(sorted.count - 1) * share)] / .milliseconds(1)
            }
            samples = sorted.count
            p50 = percentile(0.5)
            p99 = percentile(0.99)
        }
    }

    private struct State {
        var sent: [EventPosition: ContinuousClock.Instant] = [:]
        /// The event that each timeline was last stored for: a timeline that is stored again for another reason (a
        /// reload of everyone, its policy) still names it.
        var served: [TimelineID: EventPosition] = [:]
        var all: [Duration] = []
        var recent: [Duration] = []
    }

    /// Most events that are remembered.
    private static let maximumRemembered = 200_000

    private let state = Mutex(State())

    func sent(_ position: EventPosition, at time: ContinuousClock.Instant) {
        state.withLock { state in
            if state.sent.count >= Self.maximumRemembered { state.sent.removeAll(keepingCapacity: true) }
            state.sent[position] = time
        }
    }

    func stored(_ timeline: TimelineID, _ cause: EventPosition?) {
        guard let cause else { return }
        let now = ContinuousClock.now
        state.withLock { state in
            guard state.served.updateValue(cause, forKey: timeline) != cause else { return }
            // Kept: one event may cause many timelines.
            guard let sent = state.sent[cause] else { return }
            state.all.append(sent.duration(to: now))
            state.recent.append(sent.duration(to: now))
        }
    }

    func overall() -> Summary { Summary(state.withLock { $0.all }) }

    /// Latencies since the last call.
    func takeRecent() -> Summary {
        Summary(
            state.withLock { state in
                defer { state.recent = [] }
                return state.recent
            })
    }
}
