import Testing
import WidgetModel
import WidgetStore

@testable import freshet

struct LoadLossesTests {
    private static func overview(
        stale: Int64 = 0, requested: Int64, deadLetters: Int64 = 0
    ) -> Overview.Row {
        Overview.Row(
            widgets: 5, timelines: 5, due: 0, leased: 0, stale: stale, stored: 5, requested: requested, sweeps: 0,
            deadLetters: deadLetters, deadLettersToForward: 0)
    }

    /// Of ten events, each for one timeline, and one more that is for everyone.
    private static func losses(
        counts: ReloadLatency.Counts = ReloadLatency.Counts(sent: 10, served: 10), unapplied: Int = 0,
        unserved: Int = 0, after: Overview.Row = overview(requested: 15)
    ) -> LoadLosses {
        LoadLosses(
            counts: counts, unapplied: unapplied, unserved: unserved, before: overview(requested: 5), after: after)
    }

    @Test("nothing is lost when every event is acknowledged, applied, counted and served")
    func nothing() {
        #expect(Self.losses() == LoadLosses())
        #expect(Self.losses().total == 0 && Self.losses().lines.isEmpty)
    }

    @Test("whatever is missing is counted and named")
    func missing() {
        let cases: [(LoadLosses, String)] = [
            (Self.losses(unapplied: 3), "3 events are not applied"),
            (Self.losses(after: Self.overview(requested: 12)), "3 events are counted by no timeline"),
            (Self.losses(after: Self.overview(stale: 3, requested: 15)), "3 timelines are stale"),
            (Self.losses(after: Self.overview(requested: 15, deadLetters: 3)), "3 events became dead letters"),
            (
                Self.losses(counts: ReloadLatency.Counts(sent: 10, served: 7), unserved: 3),
                "3 events had no timeline stored for them"
            ),
            (
                Self.losses(
                    counts: ReloadLatency.Counts(sent: 10, failed: 3, served: 7),
                    after: Self.overview(requested: 12)),
                "3 events were not acknowledged by Kafka"
            ),
        ]
        for (losses, line) in cases {
            #expect(losses.total == 3, "\(line)")
            #expect(losses.lines == ["  - \(line)"])
        }
    }

    /// A push to the person and one to the device are two marks of one timeline in one batch, and the row notes one of them:
    /// with seed 1 the tool reported the other as lost.
    @Test("an event that no store names is lost only if its timeline is stale")
    func unnamed() {
        let latency = ReloadLatency()
        let timelines = (0..<2).map { TimelineID(high: 1, low: UInt64($0)) }
        for (number, timeline) in timelines.enumerated() {
            let events = (0..<2).map { _ in ReloadLatency.Event(timeline: timeline, intended: .now, series: .alone) }
            latency.sending(events)
            let device = EventPosition(topic: 0, partition: 0, offset: Int64(number * 2))
            let person = EventPosition(topic: 0, partition: 0, offset: Int64(number * 2 + 1))
            latency.acknowledged(events[0], at: device)
            latency.acknowledged(events[1], at: person)
            latency.stored(timeline, device)
        }
        #expect(latency.counts.waiting == 2 && latency.waiting == [timelines[0]: 1, timelines[1]: 1])
        var events = UnmeasuredEvents(latency.waiting)
        events.look(at: timelines[0], isServed: true)
        events.look(at: timelines[1], isServed: false)
        #expect(events.served == 1 && events.unserved == 1)
        let losses = Self.losses(counts: latency.counts, unserved: events.unserved, after: Self.overview(requested: 9))
        #expect(losses.total == 1 && losses.unserved == 1)
    }
}
