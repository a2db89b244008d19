import FreshetClient
import KafkaClient
import WidgetModel
import WidgetStore

/// When the events of an open loop are to be sent: at a fixed rate, whatever becomes of them.
struct OpenLoop: Sendable {
    let start: ContinuousClock.Instant
    let interval: Duration
    /// Events handed out so far.
    private(set) var count = 0

    /// - Parameter rate: events a second, at least one.
    init(start: ContinuousClock.Instant, rate: Int) {
        self.start = start
        interval = .seconds(1) / max(1, rate)
    }

    /// When the next event is to be sent.
    var next: ContinuousClock.Instant { start + interval * count }

    /// The times of the events that are to be sent by now and were not handed out yet, at most `limit` of them.
    mutating func due(at now: ContinuousClock.Instant, limit: Int) -> [ContinuousClock.Instant] {
        var times: [ContinuousClock.Instant] = []
        while times.count < limit, next <= now {
            times.append(next)
            count += 1
        }
        return times
    }
}

/// Single reloads of an app's people, chosen at random, at a fixed rate.
struct LoadStream: Sendable {
    let app: LoadApp
    /// Events a second.
    let rate: Int
    let seed: UInt64
    let publisher: EventPublisher
    let latency: ReloadLatency

    /// Events sent at once, at most.
    private static let chunk = 2_000
    /// Beyond this many events without an acknowledgement the stream waits; latencies still count from the time at
    /// which its events were to be sent.
    private static let maximumUnacknowledged = 50_000
    /// Least time between two sends, so that a fast stream does not send its events one by one.
    private static let spacing = Duration.milliseconds(1)

    /// Publishes from `start` on.
    ///
    /// - Parameter series: which series an event that is to be sent at a time belongs to; nil ends the stream.
    /// - Throws: `CancellationError`.
    func run(
        from start: ContinuousClock.Instant, series: @Sendable (ContinuousClock.Instant) -> LoadSeries?
    ) async throws {
        try await withThrowingDiscardingTaskGroup { group in
            var random = DemoRandom(seed: seed)
            var loop = OpenLoop(start: start, rate: rate)
            var wake = start
            while true {
                try await Task.sleep(until: max(wake, loop.next), tolerance: .zero, clock: .continuous)
                while latency.unacknowledged > Self.maximumUnacknowledged {
                    try await Task.sleep(for: .milliseconds(5))
                }
                let now = ContinuousClock.now
                var events: [(event: OutgoingEvent, sample: ReloadLatency.Event)] = []
                for intended in loop.due(at: now, limit: Self.chunk) {
                    guard let series = series(intended) else {
                        send(events, in: &group)
                        return
                    }
                    let index = Int.random(in: 0..<app.people, using: &random)
                    events.append(
                        (
                            OutgoingEvent(app.reload(index), time: SampleProvider.systemTime()),
                            ReloadLatency.Event(timeline: app.timeline(index), intended: intended, series: series)
                        ))
                }
                send(events, in: &group)
                wake = now + Self.spacing
            }
        }
    }

    /// Hands events to Kafka without waiting for them.
    private func send(
        _ events: [(event: OutgoingEvent, sample: ReloadLatency.Event)],
        in group: inout ThrowingDiscardingTaskGroup<any Error>
    ) {
        guard !events.isEmpty else { return }
        latency.sending(events.map(\.sample))
        group.addTask {
            let results = await publisher.publish(events.map(\.event))
            for ((outgoing, sample), result) in zip(events, results) {
                switch result {
                case .success(let delivery):
                    latency.acknowledged(sample, at: EventPosition(delivery, of: outgoing.event))
                case .failure:
                    latency.acknowledged(sample, at: nil, isFailed: true)
                }
            }
        }
    }
}
