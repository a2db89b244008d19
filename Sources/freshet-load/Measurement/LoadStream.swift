import FreshetClient
import FreshetService
import KafkaClient
import WidgetEvents
import WidgetModel
import WidgetStore

/// Reloads of an app's people in an open loop: each event is sent at its intended time, regardless of the events
/// before it.
struct LoadStream: Sendable {
    let plan: StreamPlan
    let publisher: EventPublisher
    let latency: ReloadLatency
    /// Whether an event goes to another widget if its own still has a pending reload. Otherwise the latencies of the two
    /// reloads could not be distinguished.
    var avoidsWaiting = false
    /// Least time between two sends, so that a fast stream sends several events at once.
    var spacing = Duration.microseconds(500)
    /// Whether the stream waits, because Kafka could not keep more; as with ``maximumUnacknowledged``, latencies count
    /// on.
    var isHeldUp: @Sendable () -> Bool = { false }

    /// Events sent at once, at most.
    private static let chunk = 2_000
    /// Beyond this many events without an acknowledgement the stream waits; latencies still count from the time at
    /// which its events were to be sent.
    private static let maximumUnacknowledged = 50_000
    /// Number of neighbours that are tried for a widget whose reload is waited for.
    private static let neighbours = 16

    /// An event with its intended time.
    private typealias Outgoing = (event: OutgoingEvent, sample: ReloadLatency.Event)

    /// Publishes from `start` on.
    ///
    /// - Parameter series: which series an event that is to be sent at a time belongs to; nil ends the stream.
    /// - Throws: `CancellationError`.
    func run(
        from start: ContinuousClock.Instant, series: @Sendable (ContinuousClock.Instant) -> LoadSeries?
    ) async throws {
        try await withThrowingDiscardingTaskGroup { group in
            var stream = SyntheticStream(plan)
            var wake = start
            while var event = stream.next() {
                var intended = start + event.arrival
                try await Task.sleep(until: max(wake, intended), tolerance: .zero, clock: .continuous)
                while latency.unacknowledged > Self.maximumUnacknowledged || isHeldUp() {
                    try await Task.sleep(for: .milliseconds(5))
                }
                let now = ContinuousClock.now
                var events: [Outgoing] = []
                while true {
                    guard let series = series(intended) else {
                        send(events, in: &group)
                        return
                    }
                    events.append(outgoing(event, intended: intended, series: series))
                    // The next one waits for its time, and this loop for the next turn.
                    guard events.count < Self.chunk, let peeked = stream.peek(), start + peeked.arrival <= now,
                        let next = stream.next()
                    else { break }
                    event = next
                    intended = start + next.arrival
                }
                send(events, in: &group)
                wake = now + spacing
            }
        }
    }

    private func outgoing(
        _ streamed: StreamEvent, intended: ContinuousClock.Instant, series: LoadSeries
    ) -> Outgoing {
        let world = plan.world
        var event = streamed
        var timeline = world.timeline(of: event.widget).id
        if avoidsWaiting {
            var tries = 0
            while latency.isWaiting(timeline), tries < Self.neighbours {
                event.widget = (event.widget + 1) % world.widgets
                timeline = world.timeline(of: event.widget).id
                tries += 1
            }
        }
        return (
            OutgoingEvent(
                event.event(in: plan.world), time: WallClock.now(),
                key: event.key(in: plan.world)),
            ReloadLatency.Event(timeline: timeline, intended: intended, series: series)
        )
    }

    /// Hands events to Kafka without waiting for them.
    private func send(_ events: [Outgoing], in group: inout ThrowingDiscardingTaskGroup<any Error>) {
        guard !events.isEmpty else { return }
        latency.noteSending(events.map(\.sample))
        group.addTask {
            let results = await publisher.publish(events.map(\.event))
            for (outgoing, result) in zip(events, results) {
                switch result {
                case .success(let delivery):
                    latency.noteAcknowledged(outgoing.sample, at: EventPosition(delivery, of: outgoing.event.event))
                case .failure:
                    latency.noteAcknowledged(outgoing.sample, at: nil, isFailed: true)
                }
            }
        }
    }
}
