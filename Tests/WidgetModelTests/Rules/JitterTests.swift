// SPDX-License-Identifier: Apache-2.0

import Randomness
import TestSupport
import Testing

@testable import WidgetModel

@Suite(.tags(.rules), .timeLimit(.patience))
struct JitterTests {
    private let now = time("2020-06-22T10:00:00Z")

    /// Returns the jitter of a reload that is due after an interval.
    private func delay(_ rules: ReloadRules, _ interval: Duration, _ timeline: TimelineID = .latest) -> Duration {
        rules.jittered(now + interval, from: now, timeline: timeline) - (now + interval)
    }

    @Test("Jitter only delays, by at most a tenth of the interval and the tolerance")
    func limits() {
        let schedule = ReloadRules(minimumSpacing: .seconds(300))
        for (interval, limit) in [(1_000, 100), (10, 1), (86_400, 300), (3_000, 300), (30_000_000, 300)] {
            let late = delay(schedule, .seconds(interval))
            #expect(late >= .seconds(limit) / 2 && late <= .seconds(limit))
        }
        for interval in [0, -5, -86_400] { #expect(delay(schedule, .seconds(interval)) == .zero) }
        #expect(schedule.jittered(.distantFuture, from: now, timeline: .latest) == .distantFuture)
        #expect(schedule.gridded(.distantFuture, from: now) == .distantFuture)
        #expect(schedule.gridded(.distantPast, from: now) == .distantPast)
        for tolerance in [Duration.zero, .seconds(-1)] {
            let exact = ReloadRules(minimumSpacing: .zero, tolerance: tolerance)
            #expect(delay(exact, .days(1)) == .zero)
            #expect(exact.gridded(now + .days(1), from: now) == now + .days(1))
        }
    }

    @Test("Jitter is deterministic and within its limits for any interval, tolerance and timeline", .tags(.property))
    func everyTimeline() {
        var random = SeededGenerator(seed: 7)
        for _ in 0..<5000 {
            let tolerance = Duration.microseconds(Int64.random(in: 0...7_200_000_000, using: &random))
            let interval = Duration.microseconds(Int64.random(in: -1_000_000...200_000_000_000, using: &random))
            let schedule = ReloadRules(minimumSpacing: .zero, tolerance: tolerance)
            let id = TimelineID(high: random.next(), low: random.next())
            let jitter = delay(schedule, interval, id)
            let grid = schedule.gridded(now + interval, from: now) - (now + interval)
            guard jitter >= .zero, jitter <= tolerance, jitter == .zero || jitter * 10 <= interval,
                jitter == delay(schedule, interval, id), grid >= .zero, grid * 4 <= tolerance,
                grid == .zero || grid * 40 <= interval
            else {
                Issue.record("\(jitter) and \(grid) of \(interval), tolerance \(tolerance)")
                return
            }
        }
    }

    @Test("Times are rounded up to the greatest power of two of microseconds within the step", .tags(.property))
    func rounding() {
        var random = SeededGenerator(seed: 9)
        for _ in 0..<5000 {
            let step = Int64.random(in: 0...(1 << 40), using: &random) >> Int64.random(in: 0...40, using: &random)
            let time = Timestamp(microseconds: Int64.random(in: -(1 << 60)...(1 << 60), using: &random))
            let rounded = time.rounded(upTo: step)
            guard step > 1 else {
                #expect(rounded == time)
                continue
            }
            let late = rounded.microseconds - time.microseconds
            var grid: Int64 = 1
            while grid * 2 <= step { grid *= 2 }
            #expect(late >= 0 && late < grid && rounded.microseconds % grid == 0)
        }
        let end = Timestamp(microseconds: .max - 1)
        #expect(end.rounded(upTo: 1 << 30) == end, "the end of time is not rounded further")
    }

    /// Returns the number of timelines for each due time.
    private func spread(of count: Int, due: (TimelineID) -> Timestamp) -> [Timestamp: Int] {
        var random = SeededGenerator(seed: 8)
        var times: [Timestamp: Int] = [:]
        for _ in 0..<count {
            // An ID is a hash: its bits are evenly distributed.
            times[due(TimelineID(high: random.next(), low: random.next())), default: 0] += 1
        }
        return times
    }

    @Test("A million timelines with after(midnight) share few lists within the tolerance, and none is early")
    func aMillionMidnights() {
        let midnight = time("2020-06-23T00:00:00Z")
        let rules = ReloadRules.test()
        let ledger = BudgetLedger()
        let times = spread(of: 1_000_000) { id in
            rules.next(
                policy: .after(midnight), lastEntry: now, renderedAt: now, timeline: id, ledger: ledger, views: .often
            ).policyAt
        }
        #expect(times.keys.allSatisfy { $0 >= midnight && $0 <= midnight + .seconds(300) })
        // The grid is 2^26 microseconds within 225 seconds of jitter: nearly a third of the timelines at each time.
        #expect(times.count >= 4 && times.count <= 5)
        #expect(times.values.allSatisfy { $0 < 305_000 })
    }

    @Test("Identities of users and cities are spread like random ids")
    func identities() {
        let midnight = time("2020-06-23T00:00:00Z")
        let rules = ReloadRules.test()
        var times: [Timestamp: Int] = [:]
        for index in 0..<20_000 {
            let id = TimelineIdentity(
                app: "a", kind: "k", family: nil, configuration: .empty, locale: nil, timeZone: nil, user: "\(index)"
            ).id
            times[rules.due(.after(midnight), lastEntry: now, renderedAt: now, timeline: id) ?? now, default: 0] += 1
        }
        #expect(times.keys.allSatisfy { $0 >= midnight && $0 <= midnight + .seconds(300) })
        #expect(times.count >= 4 && times.values.allSatisfy { $0 < 6_500 }, "\(times)")
    }
}
