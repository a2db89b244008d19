// SPDX-License-Identifier: Apache-2.0

import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

@Suite("Timelines queued for a request")
struct FetchQueueTests {
    private let queue = FetchQueue()

    private func append(
        _ rows: ClosedRange<Int64>, kind: RegisteredKind = Sample.kind(), lane: ReloadLane = .push, attempts: Int16 = 0
    ) {
        let jobs = rows.map { Sample.job($0, kind: kind, lane: lane, attempts: attempts) }
        #expect(queue.append(jobs) == [Sample.provider])
    }

    /// Returns the rows of the next request; nil if there is none.
    private func next(
        sizeLimit: Int = .max, admits: @escaping (ReloadLane, Bool) -> Bool = { _, _ in true }
    ) -> [Int64]? {
        queue.next(Sample.provider, sizeLimit: sizeLimit, admits: admits)?.jobs.map(\.timeline.row)
    }

    @Test("A request takes the most urgent lane first, in order, up to the kind's batch size")
    func order() {
        append(1...3, kind: Sample.kind(maxBatch: 4), lane: .push)
        append(4...6, kind: Sample.kind(maxBatch: 4), lane: .interactive)
        #expect(next() == [4, 5, 6, 1])
        #expect(next() == [2, 3])
        #expect(next() == nil)
    }

    @Test("Patient lanes share a request among themselves, but do not fill up an urgent one")
    func lanes() {
        append(1...2, lane: .push)
        append(3...4, lane: .scheduled)
        append(5...6, lane: .bulk)
        #expect(next() == [1, 2])
        #expect(next() == [3, 4, 5, 6])
    }

    @Test("Admission receives the most urgent lane and whether the request is full")
    func admission() {
        append(1...3, kind: Sample.kind(maxBatch: 4), lane: .bulk)
        var asked: [(ReloadLane, Bool)] = []
        let refused = next { lane, isFull in
            asked.append((lane, isFull))
            return false
        }
        #expect(refused == nil)
        append(4...4, kind: Sample.kind(maxBatch: 4), lane: .scheduled)
        let granted = next { lane, isFull in
            asked.append((lane, isFull))
            return true
        }
        #expect(granted == [4, 1, 2, 3])
        #expect(asked.map(\.0) == [.bulk, .scheduled] && asked.map(\.1) == [false, true])
    }

    @Test("Timelines without a slot keep their place")
    func refused() {
        append(1...2)
        #expect(next { _, _ in false } == nil)
        append(3...3)
        #expect(next() == [1, 2, 3])
    }

    @Test("A request of several kinds is no larger than the smallest of their batch sizes")
    func mixedKinds() {
        append(1...2, kind: Sample.kind(11, maxBatch: 10))
        append(3...6, kind: Sample.kind(12, maxBatch: 4))
        append(7...8, kind: Sample.kind(13, maxBatch: 1))
        #expect(next() == [1, 2, 3, 4])
        #expect(next() == [5, 6], "a kind with smaller batches than the request has already waits for the next")
        #expect(next() == [7])
        #expect(next() == [8])
        #expect(next() == nil)
    }

    @Test("A provider that takes smaller batches gets smaller batches")
    func sizeLimit() {
        append(1...5)
        #expect(next(sizeLimit: 2) == [1, 2])
        #expect(next(sizeLimit: 0) == [3], "at least one timeline")
        #expect(next(sizeLimit: 2) == [4, 5])
    }

    @Test("Retries follow fresh work in separate, smaller requests")
    func retries() {
        append(1...200, attempts: 1)
        append(201...203)
        #expect(next() == [201, 202, 203])
        #expect(next()?.count == 25)
        append(301...301, lane: .bulk)
        #expect(next() == [301], "an urgent retry does not delay fresh work")
        var sizes: [Int] = []
        while let rows = next() { sizes.append(rows.count) }
        #expect(sizes == Array(repeating: 25, count: 7))
        append(401...420, kind: Sample.kind(maxBatch: 10), attempts: 3)
        #expect(next()?.count == 10, "small batches are not made smaller")
    }

    @Test("First attempts and retries of one list wait apart")
    func mixedAttempts() {
        let claim = Sample.claim()
        let timelines = [Sample.timeline(1), Sample.timeline(2, attempts: 1), Sample.timeline(3)]
        #expect(queue.append(timelines.map { TimelineJob($0, of: claim) }) == [Sample.provider])
        #expect(next() == [1, 3])
        #expect(next() == [2])
    }

    @Test("A retry is admitted although fresh work is refused")
    func retryWhileFreshWaits() {
        append(1...1)
        append(2...2, attempts: 1)
        var answers = [false, true]
        #expect(next { _, _ in answers.removeFirst() } == [2])
        #expect(next() == [1])
    }

    @Test("Providers are separated by app and by URL")
    func providers() {
        let other = Sample.kind(12, url: "http://other/widgets")
        let key = ProviderKey(appID: 1, app: Sample.app.name, url: "http://other/widgets")
        #expect(queue.append([Sample.job(1), Sample.job(2, kind: other)]) == [Sample.provider, key])
        #expect(next() == [1] && next() == nil)
        #expect(queue.next(key, sizeLimit: 9) { _, _ in true }?.jobs.map(\.timeline.row) == [2])
    }
}
