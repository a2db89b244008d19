// SPDX-License-Identifier: Apache-2.0

import FreshetService
import Testing
import WidgetModel
import WidgetStore

@testable import freshet_load

/// Association of events with the stores that serve them, and their latencies.
struct ReloadLatencyTests {
    private static let timeline = TimelineID(high: 1, low: 1)
    private static let other = TimelineID(high: 2, low: 2)

    private let latency = ReloadLatency()

    private func place(_ offset: Int64, partition: Int32 = 0) -> EventPosition {
        EventPosition(topic: 0, partition: partition, offset: offset)
    }

    /// Returns an event that was due for sending some time ago.
    private func event(
        _ timeline: TimelineID = Self.timeline, ago: Duration = .seconds(1), _ series: LoadSeries = .alone
    ) -> ReloadLatency.Event {
        ReloadLatency.Event(timeline: timeline, intended: .now - ago, series: series)
    }

    @Test("A latency counts from the event's intended time")
    func intended() {
        let event = event(ago: .seconds(5))
        latency.noteSending([event])
        latency.noteAcknowledged(event, at: place(7))
        #expect(latency.counts.waiting == 1)
        latency.noteStored(Self.timeline, place(7))
        let summary = latency.summary(of: .alone)
        #expect(summary.samples == 1 && summary.p50 >= 5_000 && summary.p50 < 60_000)
        #expect(summary.max >= summary.p50 * 0.99)
        #expect(latency.counts == ReloadLatency.Counts(sent: 1, served: 1))
    }

    @Test("A stored timeline serves its events up to the one in its row, and no other timeline's")
    func folded() {
        let events = [event(), event(), event(), event(Self.other)]
        latency.noteSending(events)
        for (offset, event) in events.enumerated() { latency.noteAcknowledged(event, at: place(Int64(offset))) }
        latency.noteStored(Self.timeline, place(1))
        #expect(latency.counts.served == 2)
        // Offsets of another partition have no effect.
        latency.noteStored(Self.timeline, place(9, partition: 1))
        #expect(latency.counts.served == 2)
        // A store for a reload of everyone still names the event, which is already served.
        latency.noteStored(Self.timeline, place(1))
        latency.noteStored(Self.timeline, nil)
        #expect(latency.counts.served == 2 && latency.counts.waiting == 2)
        latency.noteStored(Self.timeline, place(5))
        latency.noteStored(Self.other, place(3))
        #expect(latency.counts.waiting == 0 && latency.summary(of: .alone).samples == 4)
    }

    @Test("A store before Kafka's acknowledgement is not missed")
    func storedFirst() {
        let (first, second) = (event(ago: .seconds(3)), event(ago: .seconds(2)))
        latency.noteSending([first, second])
        latency.noteStored(Self.timeline, place(4))
        latency.noteAcknowledged(first, at: place(4))
        #expect(latency.counts.served == 1)
        latency.noteAcknowledged(second, at: place(5))
        #expect(latency.counts.waiting == 1 && latency.unacknowledged == 0)
        latency.noteStored(Self.timeline, place(5))
        #expect(latency.counts.waiting == 0)
    }

    @Test("Events that Kafka refuses, or acknowledges without an offset, are counted and not waited for")
    func unplaced() {
        let events = [event(), event()]
        latency.noteSending(events)
        latency.noteAcknowledged(events[0], at: nil, isFailed: true)
        latency.noteAcknowledged(events[1], at: nil)
        #expect(latency.counts == ReloadLatency.Counts(sent: 2, failed: 1, unplaced: 1))
        #expect(latency.counts.waiting == 0)
    }

    @Test("Warm-up events are counted but not measured, and series are separate")
    func series() {
        for (offset, series) in [LoadSeries.warmUp, .alone, .beside, .beside].enumerated() {
            let event = event(TimelineID(high: 9, low: UInt64(offset)), series)
            latency.noteSending([event])
            latency.noteAcknowledged(event, at: place(Int64(offset)))
            latency.noteStored(event.timeline, place(Int64(offset)))
        }
        #expect(latency.counts.served == 4)
        #expect([.warmUp, .alone, .beside, .other].map { latency.summary(of: $0).samples } == [0, 1, 2, 0])
    }

    @Test("Distinct timelines are counted from the start of the counting, for any event")
    func distinct() {
        latency.noteStored(Self.other, nil)
        #expect(latency.distinctStored == 0)
        latency.startCountingStored()
        for timeline in [Self.timeline, Self.other, Self.timeline] { latency.noteStored(timeline, nil) }
        #expect(latency.distinctStored == 2)
    }

    @Test("A published timeline without a named event serves all its waiting events")
    func notePublished() {
        let (first, second) = (event(ago: .seconds(2)), event(Self.other))
        latency.noteSending([first, second])
        #expect(latency.isWaiting(Self.timeline) && latency.isWaiting(Self.other))
        latency.noteAcknowledged(first, at: place(3))
        latency.notePublished(Self.timeline)
        #expect(latency.counts.served == 1 && !latency.isWaiting(Self.timeline))
        // Published before the acknowledgement.
        latency.notePublished(Self.other)
        #expect(latency.isWaiting(Self.other))
        latency.noteAcknowledged(second, at: place(4))
        #expect(latency.counts.waiting == 0 && !latency.isWaiting(Self.other))
        latency.notePublished(Self.other)
        #expect(latency.counts == ReloadLatency.Counts(sent: 2, served: 2))
        #expect(latency.targets == [Self.timeline, Self.other])
    }

    @Test("Events beyond the consumer positions are not applied")
    func unapplied() {
        let events = [event(), event(), event(Self.other)]
        latency.noteSending(events)
        #expect(latency.unapplied(at: [:]) == 0)
        latency.noteAcknowledged(events[0], at: place(7))
        latency.noteAcknowledged(events[1], at: place(6))
        latency.noteAcknowledged(events[2], at: place(2, partition: 1))
        latency.notePublished(at: place(9))
        let (first, second) = (InputPartition(of: place(0)), InputPartition(of: place(0, partition: 1)))
        #expect(latency.unapplied(at: [first: 10, second: 3]) == 0)
        #expect(latency.unapplied(at: [first: 9, second: 3]) == 1)
        #expect(latency.unapplied(at: [first: 10]) == 3)
    }
}
