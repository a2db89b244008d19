// SPDX-License-Identifier: Apache-2.0

import Randomness
import TestSupport
import Testing

@testable import WidgetModel

@Suite(.tags(.rules), .timeLimit(.patience))
struct ViewStatisticsTests {
    private let now = time("2020-06-22T10:00:00Z")

    /// Seconds at which a widget is viewed, and those that count.
    @Test(
        "A view within an hour after a counted one changes nothing",
        arguments: [
            ([], nil, []), ([0], nil, [0]), ([0, 3599, 3600], nil, [0, 3600]),
            ([0, 1800, 3600, 5400, 7200], nil, [0, 3600, 7200]),
            ([0, 3000, 6000, 9000], nil, [0, 6000]), ([3599], 0, []), ([3600], 0, [3600]),
            ([3599, 7198, 7199], 0, [7198]),
            // A late event is older than a counted view and does not count.
            ([5000, 100, 9000], nil, [5000, 9000]), ([-50], 0, []),
        ] as [([Int], Int?, [Int])])
    func counted(views: [Int], last: Int?, counted: [Int]) {
        let times = ViewStatistics.counted(views.map { now + .seconds($0) }, after: last.map { now + .seconds($0) })
        #expect(times == counted.map { now + .seconds($0) })
    }

    @Test("Counted views do not depend on the batches", .tags(.property))
    func batches() {
        var random = SeededGenerator(seed: 5)
        for _ in 0..<200 {
            var times: [Timestamp] = []
            var time = now
            for _ in 0..<30 {
                time = time + .seconds(Int.random(in: -600...4000, using: &random))
                times.append(time)
            }
            var last: Timestamp?
            var batched: [Timestamp] = []
            var rest = times[...]
            while !rest.isEmpty {
                let batch = rest.prefix(Int.random(in: 1...10, using: &random))
                rest = rest.dropFirst(batch.count)
                let counted = ViewStatistics.counted(batch, after: last)
                last = counted.last ?? last
                batched += counted
            }
            #expect(batched == ViewStatistics.counted(times, after: nil))
        }
    }

    @Test("100,000 views of 10,000 widgets within an hour change at most 10,000 averages")
    func manyViews() {
        var random = SeededGenerator(seed: 6)
        var last: [Timestamp?] = Array(repeating: nil, count: 10_000)
        // Half of the widgets had a counted view in the hour before.
        for widget in stride(from: 0, to: 10_000, by: 2) {
            last[widget] = now - .seconds(Int.random(in: 0..<3600, using: &random))
        }
        let seconds = (0..<100_000).map { _ in Int.random(in: 0..<3600, using: &random) }.sorted()
        var changes = 0
        for second in seconds {
            let widget = Int.random(in: 0..<10_000, using: &random)
            guard let counted = ViewStatistics.counted([now + .seconds(second)], after: last[widget]).first else {
                continue
            }
            last[widget] = counted
            changes += 1
        }
        #expect(changes <= 10_000)
        #expect(changes > 9_000, "nearly every widget was viewed: \(changes)")
    }

    @Test("The average falls to 1/e in three days")
    func decay() {
        #expect(ViewStatistics.decayed(9, for: .zero) == 9)
        #expect(abs(ViewStatistics.decayed(9, for: .days(3)) - 9 / 2.718281828) < 1e-6)
        #expect(ViewStatistics.decayed(9, for: .days(365)) < 1e-9)
        #expect(ViewStatistics.decayed(9, for: .seconds(-5)) == 9, "a late event")
        #expect(ViewStatistics.decayed(0, for: .days(1)) == 0)
        #expect(ViewStatistics.decayed(9, for: .seconds(Int64.max)) == 0)
    }

    @Test("The average converges to the hours a day with a view", arguments: [1, 2, 8, 16, 24])
    func steady(hours: Int) {
        var rate = 0.0
        var last: Timestamp?
        for day in 0..<30 {
            for hour in 0..<hours {
                let time = now + .days(day) + .hours(hour)
                rate = ViewStatistics.rate(rate, viewedAfter: last.map { time - $0 })
                last = time
            }
        }
        // The rate over a day, at its beginning and after its last view.
        let low = ViewStatistics.decayed(rate, for: .hours(25 - hours))
        #expect(low < Double(hours) * 1.02 && rate > Double(hours) * 0.98, "\(low) to \(rate)")
        #expect(rate - low <= Double(hours) / 3 + 0.1)
    }

    @Test("A widget without views has the minimum budget after some weeks")
    func forgotten() {
        let views = 90.0
        let later = ViewStatistics.decayed(views, for: .days(14))
        #expect(DailyBudget().reloads(for: ViewStatistics(viewsADay: later), at: now) == 8)
        #expect(DailyBudget().reloads(for: ViewStatistics(viewsADay: .nan), at: now) == 8)
        #expect(DailyBudget().reloads(for: ViewStatistics(viewsADay: -5), at: now) == 8)
        #expect(DailyBudget().reloads(for: ViewStatistics(viewsADay: .infinity), at: now) == 8)
    }
}
