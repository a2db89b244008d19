import FreshetService
import Synchronization
import WidgetModel
import WidgetStore

/// Event produced → timeline stored, sampled: the event that a stored timeline names as its cause is looked up among
/// those that the demo has sent.
final class DemoLatency: Sendable {
    private struct State {
        var sent: [EventPosition: ContinuousClock.Instant] = [:]
        /// The event that each timeline was last stored for: a timeline that is stored again for another reason (a
        /// reload of everyone, its policy) still names it.
        var served: [TimelineID: EventPosition] = [:]
        var all = LatencyHistogram()
        var recent = LatencyHistogram()
    }

    /// More than this many unanswered events are not remembered.
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
            state.all.record(sent.duration(to: now))
            state.recent.record(sent.duration(to: now))
        }
    }

    /// Of the whole run.
    func overall() -> LatencySummary {
        state.withLock { $0.all.summary }
    }

    /// Of what was stored since this was asked last.
    func takeRecent() -> LatencySummary {
        state.withLock { state in
            defer { state.recent.reset() }
            return state.recent.summary
        }
    }
}
