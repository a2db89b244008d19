import Simulation
import Testing

@testable import WidgetModel

@Suite(.tags(.rules), .timeLimit(.minutes(5)))
struct JitterTests {
    private let now = time("2020-06-22T10:00:00Z")

    @Test("only later, by at most a tenth of the interval and the tolerance")
    func limits() {
        let schedule = ReloadSchedule(minimumSpacing: .seconds(300))
        #expect(schedule.jitter(interval: .seconds(1000), timeline: .latest) == .seconds(100))
        #expect(schedule.jitter(interval: .seconds(1000), timeline: .punctual) == .zero)
        #expect(schedule.jitter(interval: .seconds(86_400), timeline: .latest) == .seconds(300))
        #expect(schedule.jitter(interval: .zero, timeline: .latest) == .zero)
        #expect(schedule.jitter(interval: .seconds(-5), timeline: .latest) == .zero)
        #expect(schedule.jitter(interval: .seconds(Int64.max), timeline: .latest) == .seconds(300))
        for tolerance in [Duration.zero, .seconds(-1)] {
            let exact = ReloadSchedule(minimumSpacing: .zero, tolerance: tolerance)
            #expect(exact.jitter(interval: .days(1), timeline: .latest) == .zero)
        }
    }

    @Test("within the limits and the same each time, whatever interval, tolerance and timeline", .tags(.property))
    func everyTimeline() {
        var random = SeededGenerator(seed: 7)
        for _ in 0..<5000 {
            let tolerance = Duration.microseconds(Int64.random(in: 0...7_200_000_000, using: &random))
            let interval = Duration.microseconds(Int64.random(in: -1_000_000...200_000_000_000, using: &random))
            let schedule = ReloadSchedule(minimumSpacing: .zero, tolerance: tolerance)
            let id = TimelineID(high: random.next(), low: random.next())
            let jitter = schedule.jitter(interval: interval, timeline: id)
            guard jitter >= .zero, jitter <= tolerance, jitter == .zero || jitter * 10 <= interval,
                jitter == schedule.jitter(interval: interval, timeline: id)
            else {
                Issue.record("\(jitter) of \(interval), tolerance \(tolerance)")
                return
            }
        }
    }

    @Test("a million after(midnight) are spread over the tolerance, and never early")
    func aMillionMidnights() {
        let midnight = time("2020-06-23T00:00:00Z")
        let rules = ReloadRules.test()
        var random = SeededGenerator(seed: 8)
        var buckets = Array(repeating: 0, count: 20)
        let ledger = BudgetLedger()
        for _ in 0..<1_000_000 {
            // An id is a hash: evenly distributed bits.
            let id = TimelineID(high: random.next(), low: random.next())
            let next = rules.next(
                policy: .after(midnight), lastEntry: now, renderedAt: now, timeline: id, ledger: ledger, views: .often)
            let late = (next.dueAt ?? .distantPast).microseconds - midnight.microseconds
            guard late >= 0, late <= 300_000_000 else {
                Issue.record("\(late) µs after midnight")
                return
            }
            buckets[min(19, Int(late / 15_000_000))] += 1
        }
        // Four standard deviations of a bucket of 50,000.
        #expect(buckets.allSatisfy { abs($0 - 50_000) < 900 })
        print(Self.histogram(buckets, step: 15))
    }

    @Test("identities of people and cities are spread as well as random ids")
    func identities() {
        let midnight = time("2020-06-23T00:00:00Z")
        let rules = ReloadRules.test()
        var buckets = Array(repeating: 0, count: 20)
        for index in 0..<20_000 {
            let id = TimelineIdentity(
                app: "a", kind: "k", family: nil, configuration: .empty, locale: nil, timeZone: nil, user: "\(index)"
            ).id
            let late = (rules.due(.after(midnight), lastEntry: now, renderedAt: now, timeline: id) ?? now) - midnight
            guard late >= .zero, late <= .seconds(300) else {
                Issue.record("\(late) late")
                return
            }
            buckets[min(19, Int(late.components.seconds / 15))] += 1
        }
        #expect(buckets.allSatisfy { $0 > 850 && $0 < 1150 }, "\(buckets)")
    }

    /// One line a bucket, with the seconds after midnight at which it begins.
    static func histogram(_ buckets: [Int], step: Int) -> String {
        let most = max(buckets.max() ?? 0, 1)
        let lines = buckets.enumerated().map { index, count in
            let second = "\(index * step)"
            let pad = String(repeating: " ", count: max(0, 4 - second.utf8.count))
            return "\(pad)\(second) s \(String(repeating: "#", count: count * 40 / most)) \(count)"
        }
        return lines.joined(separator: "\n")
    }
}
