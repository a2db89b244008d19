import Testing
import WidgetModel

@testable import ReloadWorkers
@testable import WidgetStore

@Suite("From when on claims look for due work")
struct ClaimWatermarksTests {
    private static let start = Timestamp(microseconds: 1_000_000_000)

    private static func claimed(_ kindID: Int32, _ lane: ReloadLane, dueAfter time: Duration) -> ClaimRow {
        let list = LeasedList(id: 1, kindID: kindID, lane: lane, dueAt: start, lease: 1, timelines: [])
        return (list: list, readySince: start + time, timeline: nil)
    }

    @Test("while looks are fast, all is looked for and nothing is kept")
    func fast() {
        var watermarks = ClaimWatermarks()
        #expect(!watermarks.isPartial(at: .zero))
        watermarks.lookedForAll(took: ClaimWatermarks.slow, at: .seconds(1))
        watermarks.claimed([Self.claimed(1, .push, dueAfter: .seconds(1))])
        #expect(!watermarks.isPartial(at: .seconds(1)))
        #expect(watermarks.since(kindID: 1, lane: .push) == .distantPast)
    }

    @Test("after a slow look the next ones start before the latest that was claimed, queue by queue")
    func slow() {
        var watermarks = ClaimWatermarks()
        watermarks.lookedForAll(took: .milliseconds(50), at: .seconds(10))
        #expect(!watermarks.isPartial(at: .seconds(10)), "nothing was claimed yet")
        watermarks.claimed([
            Self.claimed(1, .push, dueAfter: .seconds(5)), Self.claimed(1, .push, dueAfter: .seconds(3)),
            Self.claimed(2, .bulk, dueAfter: .seconds(1)),
        ])
        #expect(watermarks.isPartial(at: .seconds(10)))
        #expect(watermarks.since(kindID: 1, lane: .push) == Self.start + .seconds(5) - ClaimWatermarks.slack)
        #expect(watermarks.since(kindID: 2, lane: .bulk) == Self.start + .seconds(1) - ClaimWatermarks.slack)
        #expect(watermarks.since(kindID: 1, lane: .bulk) == .distantPast)
        // A claim of late lists does not move the watermark back.
        watermarks.claimed([Self.claimed(1, .push, dueAfter: .seconds(2))])
        #expect(watermarks.since(kindID: 1, lane: .push) == Self.start + .seconds(5) - ClaimWatermarks.slack)
    }

    @Test("all is looked for again after a second, later when that takes long, and the watermarks go when it is fast")
    func again() {
        var watermarks = ClaimWatermarks()
        func claim() { watermarks.claimed([Self.claimed(1, .push, dueAfter: .seconds(5))]) }
        watermarks.lookedForAll(took: .milliseconds(50), at: .seconds(10))
        claim()
        #expect(watermarks.isPartial(at: .milliseconds(10_999)) && !watermarks.isPartial(at: .seconds(11)))
        watermarks.lookedForAll(took: .milliseconds(400), at: .seconds(12))
        #expect(watermarks.isPartial(at: .milliseconds(15_999)) && !watermarks.isPartial(at: .seconds(16)))
        watermarks.lookedForAll(took: .milliseconds(2), at: .seconds(17))
        #expect(!watermarks.isPartial(at: .seconds(17)) && watermarks.since(kindID: 1, lane: .push) == .distantPast)
    }
}
