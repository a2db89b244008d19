// SPDX-License-Identifier: Apache-2.0

import Testing
import WidgetModel

@testable import ReloadWorkers
@testable import WidgetStore

@Suite("Lower bounds of the due time in claims")
struct ClaimWatermarksTests {
    private static let start = Timestamp(microseconds: 1_000_000_000)

    private static func claimed(_ kindID: Int32, _ lane: ReloadLane, dueAfter time: Duration) -> ClaimRow {
        let list = LeasedList(id: 1, kindID: kindID, lane: lane, dueAt: start, lease: 1, timelines: [])
        return (list: list, readySince: start + time)
    }

    @Test("Fast claims scan everything and keep no watermark")
    func fast() {
        var watermarks = ClaimWatermarks()
        #expect(!watermarks.isPartial(at: .zero))
        watermarks.recordCompleteLook(took: ClaimWatermarks.slow, at: .seconds(1))
        watermarks.recordClaim([Self.claimed(1, .push, dueAfter: .seconds(1))])
        #expect(!watermarks.isPartial(at: .seconds(1)))
        #expect(watermarks.since(KindLane(kindID: 1, lane: .push)) == .distantPast)
    }

    @Test("After a slow claim the next ones start before the latest claimed time, by queue")
    func slow() {
        var watermarks = ClaimWatermarks()
        watermarks.recordCompleteLook(took: .milliseconds(50), at: .seconds(10))
        #expect(!watermarks.isPartial(at: .seconds(10)), "nothing was claimed yet")
        watermarks.recordClaim([
            Self.claimed(1, .push, dueAfter: .seconds(5)), Self.claimed(1, .push, dueAfter: .seconds(3)),
            Self.claimed(2, .bulk, dueAfter: .seconds(1)),
        ])
        #expect(watermarks.isPartial(at: .seconds(10)))
        #expect(watermarks.since(KindLane(kindID: 1, lane: .push)) == Self.start + .seconds(5) - ClaimWatermarks.slack)
        #expect(watermarks.since(KindLane(kindID: 2, lane: .bulk)) == Self.start + .seconds(1) - ClaimWatermarks.slack)
        #expect(watermarks.since(KindLane(kindID: 1, lane: .bulk)) == .distantPast)
        // A claim of late lists leaves the watermark in place.
        watermarks.recordClaim([Self.claimed(1, .push, dueAfter: .seconds(2))])
        #expect(watermarks.since(KindLane(kindID: 1, lane: .push)) == Self.start + .seconds(5) - ClaimWatermarks.slack)
    }

    @Test("A full scan follows after a second, or later if scans are slow; fast scans remove the watermarks")
    func again() {
        var watermarks = ClaimWatermarks()
        func claim() { watermarks.recordClaim([Self.claimed(1, .push, dueAfter: .seconds(5))]) }
        watermarks.recordCompleteLook(took: .milliseconds(50), at: .seconds(10))
        claim()
        #expect(watermarks.isPartial(at: .milliseconds(10_999)) && !watermarks.isPartial(at: .seconds(11)))
        watermarks.recordCompleteLook(took: .milliseconds(400), at: .seconds(12))
        #expect(watermarks.isPartial(at: .milliseconds(15_999)) && !watermarks.isPartial(at: .seconds(16)))
        watermarks.recordCompleteLook(took: .milliseconds(2), at: .seconds(17))
        #expect(
            !watermarks.isPartial(at: .seconds(17))
                && watermarks.since(KindLane(kindID: 1, lane: .push)) == .distantPast)
    }
}
