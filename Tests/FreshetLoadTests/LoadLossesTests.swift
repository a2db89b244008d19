// SPDX-License-Identifier: Apache-2.0

import JSON
import Testing
import WidgetModel

@testable import WidgetStore
@testable import freshet_load

struct LoadLossesTests {
    private static func overview(
        stale: Int64 = 0, requested: Int64, deadLetters: Int64 = 0
    ) -> Overview {
        Overview(
            widgets: 5, timelines: 5, due: 0, leased: 0, stale: stale, waiting: 0, stored: 5, requested: requested,
            sweeps: 0,
            deadLetters: deadLetters, deadLettersToForward: 0)
    }

    @Test("Nothing is lost when every event is counted and nothing is stale")
    func nothing() {
        let losses = [LoadLoss: Int](
            published: 10, before: Self.overview(requested: 5), after: Self.overview(requested: 16))
        #expect(losses.total == 0 && losses.json == [LoadLoss: Int]().json)
    }

    @Test("Every missing part is counted and reported by name")
    func missing() {
        let after = Self.overview(stale: 2, requested: 12, deadLetters: 1)
        var losses = [LoadLoss: Int](published: 10, before: Self.overview(requested: 5), after: after)
        losses[.unapplied] = 4
        losses[.unfetched] = -7
        #expect(losses[.uncounted] == 3 && losses[.stale] == 2 && losses[.deadLetters] == 1)
        #expect(losses.total == 10)
        #expect(losses.json["uncounted"] == 3 && losses.json["unapplied"] == 4 && losses.json["unfetched"] == 0)
    }

    /// Pushes to a person and to a device mark one timeline twice in a batch, but the row records only one of them. The
    /// other one must not be reported as lost.
    @Test("An event that no store names still waits")
    func unnamed() {
        let latency = ReloadLatency()
        let timelines = (0..<2).map { TimelineID(high: 1, low: UInt64($0)) }
        for (number, timeline) in timelines.enumerated() {
            let events = (0..<2).map { _ in ReloadLatency.Event(timeline: timeline, intended: .now, series: .alone) }
            latency.noteSending(events)
            let device = EventPosition(topic: 0, partition: 0, offset: Int64(number * 2))
            let person = EventPosition(topic: 0, partition: 0, offset: Int64(number * 2 + 1))
            latency.noteAcknowledged(events[0], at: device)
            latency.noteAcknowledged(events[1], at: person)
            latency.noteStored(timeline, device)
        }
        #expect(latency.counts.waiting == 2 && latency.waiting == [timelines[0]: 1, timelines[1]: 1])
    }
}
