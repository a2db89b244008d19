import Histogram
import KafkaClient
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
        var all = DemoLatency.histogram()
        var recent = DemoLatency.histogram()
    }

    /// More than this many unanswered events are not remembered.
    private static let maximumRemembered = 200_000

    private let state = Mutex(State())

    private static func histogram() -> Histogram<UInt32> {
        Histogram(highestTrackableValue: 600_000_000, numberOfSignificantValueDigits: .three)
    }

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
            let microseconds = UInt64(max(0, sent.duration(to: now) / .microseconds(1)))
            _ = state.all.record(microseconds)
            _ = state.recent.record(microseconds)
        }
    }

    struct Percentiles: Sendable {
        var samples: UInt64
        var p50: Double
        var p99: Double
    }

    /// Of the whole run, in milliseconds.
    func overall() -> Percentiles {
        state.withLock { Self.percentiles($0.all) }
    }

    /// Of what was stored since this was asked last.
    func takeRecent() -> Percentiles {
        state.withLock { state in
            defer { state.recent.reset() }
            return Self.percentiles(state.recent)
        }
    }

    private static func percentiles(_ histogram: Histogram<UInt32>) -> Percentiles {
        Percentiles(
            samples: histogram.totalCount, p50: Double(histogram.valueAtPercentile(50)) / 1000,
            p99: Double(histogram.valueAtPercentile(99)) / 1000)
    }
}
