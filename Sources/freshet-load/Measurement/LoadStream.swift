// SPDX-License-Identifier: Apache-2.0

import FreshetClient
import FreshetService
import KafkaClient
import WidgetEvents
import WidgetModel
import WidgetStore

extension ReloadMeasurement {
    /// Events sent at once, at most.
    private static let chunk = 2_000
    /// Beyond this many events without an acknowledgement a stream waits; latencies still count from the time at which
    /// its events were to be sent.
    private static let maximumUnacknowledged = 50_000
    /// Number of neighbours that are tried for a widget whose reload is waited for.
    private static let neighbours = 16

    /// An event with its intended time.
    private typealias Outgoing = (event: OutgoingEvent, sample: ReloadLatency.Event)

    /// Publishes a stream in an open loop: each event is sent at its intended time, regardless of the events before it.
    ///
    /// - Parameters:
    ///   - start: time of the stream's start.
    ///   - spacing: least time between two sends, so that a fast stream sends several events at once.
    ///   - series: which series an event that is to be sent at a time belongs to; nil ends the stream.
    /// - Throws: `CancellationError`.
    func publish(
        _ plan: StreamPlan, from start: ContinuousClock.Instant, spacing: Duration = .microseconds(500),
        series: @Sendable (ContinuousClock.Instant) -> LoadSeries?
    ) async throws {
        try await withThrowingDiscardingTaskGroup { group in
            var stream = SyntheticStream(plan)
            var wake = start
            while var event = stream.next() {
                var intended = start + event.arrival
                try await Task.sleep(until: max(wake, intended), tolerance: .zero, clock: .continuous)
                while latency.unacknowledged > Self.maximumUnacknowledged || latency.isHeldUp {
                    try await Task.sleep(for: .milliseconds(5))
                }
                let now = ContinuousClock.now
                var events: [Outgoing] = []
                while true {
                    guard let series = series(intended) else {
                        send(events, in: &group)
                        return
                    }
                    events.append(outgoing(event, of: plan.world, intended: intended, series: series))
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

    /// An event of a stream. Where the latencies of two reloads of a widget could not be distinguished, an event goes
    /// to another widget if its own still has a pending reload.
    private func outgoing(
        _ streamed: StreamEvent, of world: LoadWorld, intended: ContinuousClock.Instant, series: LoadSeries
    ) -> Outgoing {
        var event = streamed
        var timeline = world.timeline(of: event.widget).id
        if !roles.isEmpty {
            var tries = 0
            while latency.isWaiting(timeline), tries < Self.neighbours {
                event.widget = (event.widget + 1) % world.widgets
                timeline = world.timeline(of: event.widget).id
                tries += 1
            }
        }
        return (
            OutgoingEvent(event.event(in: world), time: Timestamp.now(), key: event.key(in: world)),
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
