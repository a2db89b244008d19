import Testing

@testable import WidgetModel

@Suite(.tags(.rules), .timeLimit(.minutes(5)))
struct RulesTests {
    private let now = time("2020-06-22T10:00:00Z")

    @Test func backoffBounds() {
        let backoff = Backoff(base: .seconds(1), cap: .seconds(60))
        let bounds = [-1, 0, 1, 2, 3, 6, 7, 8, 1000, Int.max].map { backoff.bound(attempt: $0) }
        #expect(bounds == [1, 1, 1, 2, 4, 32, 60, 60, 60, 60].map { .seconds($0) })
        #expect(Backoff(base: .seconds(Int64.max), cap: .seconds(5)).bound(attempt: 9) == .seconds(5))
        #expect(Backoff(base: .zero, cap: .seconds(5)).bound(attempt: 9) == .zero)
        #expect(Backoff(base: .seconds(-1), cap: .seconds(-5)).bound(attempt: 9) == .zero)
    }

    @Test func backoffIsFullyJittered() {
        let backoff = Backoff(base: .seconds(1), cap: .seconds(60))
        var random = SeededGenerator(seed: 21)
        let delays = (0..<2000).map { _ in backoff.delay(attempt: 4, using: &random) }
        #expect(delays.allSatisfy { $0 >= .zero && $0 <= .seconds(8) })
        for eighth in 0..<8 {
            let share = delays.filter { $0 >= .seconds(eighth) && $0 < .seconds(eighth + 1) }.count
            #expect(share > 180 && share < 320, "\(share) in second \(eighth)")
        }
        var again = SeededGenerator(seed: 21)
        #expect(backoff.delay(attempt: 4, using: &again) == delays[0])
    }

    @Test func policyGivesTheEarliestTime() {
        let last = time("2020-06-22T11:00:00Z")
        let evening = time("2020-06-22T22:00:00Z")
        #expect(ReloadPolicy.atEnd.earliestReload(lastEntry: last) == last)
        #expect(ReloadPolicy.after(evening).earliestReload(lastEntry: last) == evening)
        #expect(ReloadPolicy.never.earliestReload(lastEntry: last) == nil)
    }

    /// An id of the lowest bits gets no jitter, so that the rule without it shows.
    private let punctual = TimelineID(high: 1, low: 0)
    private let latest = TimelineID(high: 1, low: .max)

    @Test func nextDue() {
        let schedule = ReloadSchedule(minimumSpacing: .seconds(300))
        func due(_ policy: ReloadPolicy, last: Timestamp) -> Duration? {
            schedule.nextDue(policy: policy, lastEntry: last, renderedAt: now, timeline: punctual).map { $0 - now }
        }
        #expect(due(.atEnd, last: now + .seconds(3600)) == .seconds(3600))
        #expect(due(.after(now + .seconds(7200)), last: now) == .seconds(7200), "wherever the entries lie")
        #expect(due(.never, last: now) == nil)
        // Past: as soon as the spacing allows.
        #expect(due(.atEnd, last: now) == .seconds(300))
        #expect(due(.atEnd, last: now - .seconds(900)) == .seconds(300))
        #expect(due(.after(now - .seconds(900)), last: now) == .seconds(300))
        #expect(due(.after(.distantPast), last: now) == .seconds(300))
        #expect(due(.after(now + .seconds(299)), last: now) == .seconds(300))
    }

    @Test func developerModeLiftsTheSpacingButNeverLoops() {
        let schedule = ReloadSchedule(minimumSpacing: .seconds(300), developerMode: true)
        let due = schedule.nextDue(policy: .atEnd, lastEntry: now - .seconds(5), renderedAt: now, timeline: punctual)
        #expect(due == now + .seconds(1))
        #expect(schedule.eligible(after: now) == now)
        #expect(ReloadSchedule(minimumSpacing: .seconds(300)).eligible(after: now) == now + .seconds(300))
        #expect(ReloadSchedule(minimumSpacing: .seconds(-5)).eligible(after: now) == now)
    }

    @Test func jitterOnlyDelaysWithinATenthAndTheTolerance() {
        let schedule = ReloadSchedule(minimumSpacing: .seconds(300))
        #expect(schedule.jitter(interval: .seconds(1000), timeline: latest) == .seconds(100))
        #expect(schedule.jitter(interval: .seconds(1000), timeline: punctual) == .zero)
        #expect(schedule.jitter(interval: .seconds(86_400), timeline: latest) == .seconds(300))
        #expect(schedule.jitter(interval: .zero, timeline: latest) == .zero)
        #expect(schedule.jitter(interval: .seconds(-5), timeline: latest) == .zero)
        #expect(
            ReloadSchedule(minimumSpacing: .zero, tolerance: .zero).jitter(interval: .seconds(99), timeline: latest)
                == .zero)
        #expect(
            schedule.nextDue(policy: .after(.distantFuture), lastEntry: now, renderedAt: now, timeline: latest)
                == .distantFuture)
    }

    @Test func aMillionMidnightsAreSpread() {
        let schedule = ReloadSchedule(minimumSpacing: .seconds(300))
        let midnight = time("2020-06-23T00:00:00Z")
        var buckets = Array(repeating: 0, count: 30)
        for index in 0..<30_000 {
            let id = TimelineIdentity(
                app: "a", kind: "k", family: nil, configuration: .empty, locale: nil, timeZone: nil, user: "\(index)"
            ).id
            guard
                let due = schedule.nextDue(policy: .after(midnight), lastEntry: now, renderedAt: now, timeline: id),
                due == schedule.nextDue(policy: .after(midnight), lastEntry: now, renderedAt: now, timeline: id)
            else {
                Issue.record("not deterministic")
                return
            }
            let late = due - midnight
            guard late >= .zero, late <= .seconds(300) else {
                Issue.record("\(late) late")
                return
            }
            buckets[min(29, Int(late.components.seconds / 10))] += 1
        }
        #expect(buckets.allSatisfy { $0 > 800 && $0 < 1200 }, "\(buckets)")
    }
}
