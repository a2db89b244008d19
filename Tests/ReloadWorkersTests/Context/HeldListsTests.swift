// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing
import Waiting
import WidgetModel

@testable import ReloadWorkers
@testable import WidgetStore

@Suite("Lists that a process holds", .timeLimit(.patience))
struct HeldListsTests {
    private let signal = Signal()
    private let lists: HeldLists

    init() {
        lists = HeldLists(signal: signal)
    }

    private func hold(_ id: Int64, lease: Int64 = 1) -> ListHold { ListHold(id: id, lease: lease) }

    private func ended(_ list: Int64, _ row: Int64, lease: Int64 = 1) -> TimelineJob {
        TimelineJob(Sample.timeline(row), of: Sample.claim(Sample.list(list, rows: [], lease: lease)))
    }

    @discardableResult
    private func enter(_ lists: LeasedList...) -> (ready: [TimelineJob], closed: [HeldList]) {
        self.lists.enter(lists.map { (claim: Sample.claim($0), timelines: $0.timelines) })
    }

    @Test(
        "Extracted jobs leave the others in order",
        arguments: [([1, 2, 3], [1, 2, 3]), ([1, 2, 3], []), ([1, 2, 3], [2]), ([], [])])
    func extract(rows: [Int64], matching: [Int64]) {
        var jobs = rows.map { Sample.job($0) }
        let extracted = jobs.extract { matching.contains($0.timeline.row) }
        #expect(extracted.map(\.timeline.row) == matching)
        #expect(jobs.map(\.timeline.row) == rows.filter { !matching.contains($0) })
    }

    @Test("Timelines that are not in flight are ready at once, and held until they end")
    func entering() {
        let entered = enter(Sample.list(1, rows: [10, 11]), Sample.list(2, rows: [12]))
        #expect(entered.ready.map(\.timeline.row) == [10, 11, 12])
        #expect(entered.closed.isEmpty && lists.held == 3)
        #expect(lists.end([ended(1, 10)]).closed.isEmpty)
        #expect(lists.held == 2)
        let result = lists.end([ended(1, 11), ended(2, 12)])
        #expect(result.closed.map(\.list.id) == [1, 2] && result.waiting.isEmpty)
        #expect(result.closed.allSatisfy { $0.leaseEnds == .seconds(30) && !$0.mayBeStored && $0.returnDelay == nil })
        #expect(lists.held == 0)
    }

    @Test("A claim of lost history is lost as well if it is entered after the loss was noticed")
    func lostHistory() {
        enter(Sample.list(1, rows: [10], lease: 5))
        #expect(lists.lose(through: 9) == 1)
        let late = enter(Sample.list(2, rows: [11], lease: 9), Sample.list(3, rows: [12], lease: 10))
        var jobs = late.ready
        #expect(lists.removeLost(from: &jobs).map(\.timeline.row) == [11])
        #expect(jobs.map(\.timeline.row) == [12])
        let closed = lists.end([ended(2, 11, lease: 9)]).closed
        #expect(closed.map(\.returnDelay) == [.zero] && closed.allSatisfy(\.mayBeStored))
    }

    @Test("A list whose timelines are all superseded is closed at once")
    func superseded() {
        let entered = enter(Sample.list(1, rows: [], suspects: [10]))
        #expect(entered.ready.isEmpty && entered.closed.map(\.list.id) == [1])
        #expect(entered.closed[0].list.suspects == [10] && lists.held == 0)
    }

    @Test("A row in flight through another list waits, and is decided again for each list in turn")
    func busyRows() {
        enter(Sample.list(1, rows: [10]))
        let entered = enter(Sample.list(2, rows: [10, 11]), Sample.list(3, rows: [10]))
        #expect(entered.ready.map(\.timeline.row) == [11])
        #expect(lists.held == 4)
        let first = lists.end([ended(1, 10)])
        #expect(first.waiting.map(\.timeline.row) == [10])
        #expect(first.waiting.map(\.claim.leaseEnds) == [.seconds(30)])
        // The row is still in flight, now for list 2.
        #expect(enter(Sample.list(4, rows: [10])).ready.isEmpty)
        let ends = [first] + [[ended(2, 10), ended(2, 11)], [ended(3, 10)], [ended(4, 10)]].map { lists.end($0) }
        #expect(ends.map { $0.closed.map(\.list.id) } == [[1], [2], [3], [4]])
        #expect(ends.map { $0.waiting.map(\.claim.list.id) } == [[2], [3], [4], []])
    }

    @Test("A row is released with the last list that waits for it")
    func releasedRows() {
        enter(Sample.list(1, rows: [10]), Sample.list(2, rows: [10]))
        for list: Int64 in [1, 2] { _ = lists.end([ended(list, 10)]) }
        #expect(lists.held == 0)
        #expect(enter(Sample.list(3, rows: [10])).ready.count == 1)
    }

    @Test("A list that names a row twice works on it twice, in sequence")
    func twice() {
        let entered = enter(Sample.list(1, rows: [10, 10]))
        #expect(entered.ready.map(\.timeline.row) == [10] && lists.held == 2)
        let first = lists.end([ended(1, 10)])
        #expect(first.closed.isEmpty && first.waiting.map(\.claim.list.id) == [1])
        #expect(lists.end([ended(1, 10)]).closed.map(\.list.id) == [1])
        #expect(lists.held == 0)
    }

    @Test("A list that the process claims again after its lease has expired is entered beside the earlier lease")
    func claimedAgain() {
        enter(Sample.list(1, rows: [10, 11], lease: 1))
        let again = enter(Sample.list(1, rows: [10, 11], lease: 2))
        #expect(again.ready.isEmpty && lists.held == 4)
        let old = lists.end([ended(1, 10), ended(1, 11)])
        #expect(old.closed.map(\.list.lease) == [1], "the later lease is still open")
        #expect(old.waiting.map(\.claim.list.lease) == [2, 2])
        let new = lists.end([ended(1, 10, lease: 2), ended(1, 11, lease: 2)])
        #expect(new.closed.map(\.list.lease) == [2] && new.waiting.isEmpty)
        #expect(lists.held == 0)
    }

    @Test("A closed list reports its messages and whether content was stored")
    func published() {
        enter(Sample.list(1, rows: [10, 11, 12]))
        var first = ended(1, 10)
        first.mayBeStored = true
        first.published = 7
        var second = ended(1, 11)
        second.published = 8
        let closed = lists.end([first, second, ended(1, 12)]).closed
        #expect(closed.map(\.mayBeStored) == [true])
        #expect(closed[0].published.map(\.revision) == [7, 8])
    }

    @Test("Timelines of one claim end together, beside those of another")
    func together() {
        var jobs = enter(Sample.list(1, rows: [10, 11]), Sample.list(2, rows: [12, 13])).ready
        for index in jobs.indices { jobs[index].published = Int64(index) }
        let closed = lists.end([jobs[2], jobs[0], jobs[1]]).closed
        #expect(closed.map(\.list.id) == [1] && lists.held == 1)
        #expect(closed.flatMap(\.published).map(\.row) == [10, 11])
        #expect(lists.end([jobs[3]]).closed.flatMap(\.published).map(\.revision) == [2, 3])
    }

    @Test("Claims of lost history leave a batch from anywhere in it")
    func removingLost() {
        var jobs = enter(
            Sample.list(1, rows: [10, 11], lease: 5), Sample.list(2, rows: [12, 13], lease: 9),
            Sample.list(3, rows: [14], lease: 4)
        ).ready
        #expect(lists.lose(through: 6) == 2)
        #expect(lists.removeLost(from: &jobs).map(\.timeline.row) == [10, 11, 14])
        #expect(jobs.map(\.timeline.row) == [12, 13])
    }

    @Test("A list is returned after the longest delay of its timelines")
    func returning() {
        enter(Sample.list(1, rows: [10, 11, 12]), Sample.list(2, rows: [13]))
        var (short, long) = (ended(1, 10), ended(1, 11))
        (short.returnDelay, long.returnDelay) = (.zero, .seconds(9))
        let closed = lists.end([long, short, ended(1, 12), ended(2, 13)]).closed
        #expect(closed.map(\.returnDelay) == [.seconds(9), nil])
    }

    @Test("Reserved room counts as held until it is released, and is refused beyond the limit")
    func reserving() {
        enter(Sample.list(1, rows: [10, 11]))
        #expect(lists.reserve(3, limit: 5) && lists.held == 5)
        #expect(!lists.reserve(1, limit: 5) && lists.held == 5)
        lists.unreserve(3)
        #expect(lists.held == 2 && lists.reserve(3, limit: 5))
    }

    @Test("Room is announced once, and only to a waiting claim loop")
    func announcing() {
        enter(Sample.list(1, rows: [10, 11, 12]))
        let quiet = signal.version
        _ = lists.end([ended(1, 10)])
        lists.roomFreed()
        #expect(signal.version == quiet)
        lists.awaitRoom(true)
        _ = lists.end([ended(1, 11)])
        let told = signal.version
        #expect(told != quiet)
        _ = lists.end([ended(1, 12)])
        #expect(signal.version == told)
        lists.awaitRoom(true)
        lists.roomFreed()
        #expect(signal.version != told)
        let last = signal.version
        lists.awaitRoom(true)
        lists.awaitRoom(false)
        lists.roomFreed()
        #expect(signal.version == last)
    }

    @Test("Room that a hand-over gives back is announced to a waiting claim loop")
    func announcingReservedRoom() {
        #expect(lists.reserve(3, limit: 5))
        let quiet = signal.version
        lists.awaitRoom(true)
        lists.unreserve(3)
        #expect(signal.version != quiet)
    }

    @Test("Abandoned lists are returned with their state, and later ends have no effect")
    func abandoning() {
        enter(Sample.list(1, rows: [10, 11]), Sample.list(2, rows: [12]))
        var stored = ended(1, 10)
        stored.mayBeStored = true
        _ = lists.end([stored])
        let abandoned = lists.abandon()
        #expect(
            Dictionary(uniqueKeysWithValues: abandoned.map { ($0.list.id, $0.mayBeStored) }) == [1: true, 2: false])
        let late = lists.end([ended(1, 11), ended(2, 12)])
        #expect(late.closed.isEmpty && late.waiting.isEmpty && lists.held == 0)
    }

    @Test("Draining ends with the last timeline or at the deadline")
    func draining() async throws {
        #expect(try await lists.drained(within: .seconds(3_600), clock: WorkerClock()))
        enter(Sample.list(1, rows: [10]))
        #expect(try await !lists.drained(within: .milliseconds(1), clock: WorkerClock()))
        let lists = lists
        async let drained = lists.drained(within: .seconds(3_600), clock: WorkerClock())
        _ = lists.end([ended(1, 10)])
        #expect(try await drained)
    }
}
