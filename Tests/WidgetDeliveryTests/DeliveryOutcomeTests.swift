// SPDX-License-Identifier: Apache-2.0

import Testing
import Waiting
import WidgetModel

@testable import WidgetDelivery
@testable import WidgetStore

@Suite("Outcomes of attempts")
struct DeliveryOutcomeTests {
    private static let now = Timestamp(microseconds: 1_790_000_000_000_000)

    private func settle(
        _ verdict: DeliveryVerdict, attempts: Int = 0, developerMode: Bool = false, rest: RouteBackoff.Rest? = nil,
        jitter: Double = 1
    ) -> DeliveryResult {
        let device = DueDevice(
            id: 1, list: ListHold(id: 1, lease: 1), dueAt: Self.now, appID: 1, app: "a",
            isDeveloperMode: developerMode, user: "u", device: "d", channel: .webhook, changed: 3,
            changedAt: nil, isUrgent: false, registeredAt: Self.now - .seconds(60), attempts: attempts,
            hasBadToken: false, budget: BudgetLedger(), hasFetched: false, claimedAt: Self.now)
        return DeliveryOutcome(verdict: verdict, answer: 1).result(
            of: device, at: Self.now, resting: rest, policy: DeliveryPolicy(), jitter: jitter)
    }

    @Test("An accepted push spends a token and starts the spacing; developer mode has neither")
    func accepted() {
        let settled = settle(.accepted)
        #expect(settled.isDone && settled.eligibleAt == Self.now + .seconds(15) && settled.budget != BudgetLedger())
        let developer = settle(.accepted, developerMode: true)
        #expect(developer.isDone && developer.eligibleAt == Self.now && developer.budget == BudgetLedger())
    }

    @Test("Changes that were already fetched cost nothing")
    func fetched() {
        let settled = settle(.fetchedAlready)
        #expect(settled.isDone && settled.eligibleAt == nil && settled.budget == BudgetLedger())
    }

    @Test(
        "A device's delays double with its attempts; the service's own delay, up to an hour, takes precedence",
        arguments: [0, 1, 5, 50])
    func retry(_ attempts: Int) {
        let settled = settle(.retry(after: nil), attempts: attempts)
        let delay = Duration.seconds(min(3_600, 2 << min(attempts, 30)))
        #expect(!settled.isDone && settled.retryAt == Self.now + delay)
        #expect(settle(.retry(after: nil), attempts: attempts, jitter: 0).retryAt == Self.now + delay / 2)
        #expect(settle(.retry(after: .seconds(3_600)), attempts: attempts).retryAt == Self.now + .seconds(3_600))
        #expect(settle(.retry(after: .seconds(7_200)), attempts: attempts).retryAt == Self.now + .seconds(3_600))
    }

    @Test(
        "A device waits until its route's rest ends, and longer only if it has failed often where others were accepted")
    func rest() {
        func retryAt(isFirst: Bool, attempts: Int) -> Timestamp? {
            let rest = RouteBackoff.Rest(until: Self.now + .seconds(40), isFirst: isFirst)
            return settle(.rest(after: nil), attempts: attempts, rest: rest).retryAt
        }
        #expect(retryAt(isFirst: true, attempts: 0) == Self.now + .seconds(40))
        #expect(retryAt(isFirst: true, attempts: 5) == Self.now + .seconds(64))
        #expect(retryAt(isFirst: false, attempts: 5) == Self.now + .seconds(40))
    }

    @Test("A token that became invalid after its registration is deleted; otherwise the push is retried")
    func forget() {
        #expect(settle(.forget(since: nil)).forgets)
        #expect(settle(.forget(since: Self.now)).forgets)
        let later = settle(.forget(since: Self.now - .seconds(61)))
        #expect(!later.forgets && later.retryAt == Self.now + .seconds(2))
    }

    private let routes = RouteBackoff(
        backoff: Backoff(base: .seconds(1), cap: .seconds(300)), probeTime: .seconds(10))

    private func failed(at time: Timestamp, retryAfter: Duration? = nil) -> Timestamp {
        routes.recordFailure("r", at: time, retryAfter: retryAfter).until
    }

    @Test("Results of earlier requests neither prolong nor end a route's rest, and other routes do not rest")
    func earlierResults() {
        #expect(failed(at: Self.now) == Self.now + .seconds(1))
        #expect(failed(at: Self.now) == Self.now + .seconds(1))
        routes.recordSuccess("r", at: Self.now)
        #expect(routes.admit("r", at: Self.now) == Self.now + .seconds(1))
        #expect(routes.admit("other", at: Self.now) == nil)
    }

    @Test("A route's rest grows with each failure after a rest, and a success after it ends it")
    func routeRest() {
        _ = failed(at: Self.now)
        let next = Self.now + .seconds(1)
        #expect(routes.admit("r", at: next) == nil)
        #expect(failed(at: next) == next + .seconds(2))
        #expect(failed(at: next, retryAfter: .seconds(60)) == next + .seconds(60))
        #expect(routes.admit("r", at: next + .seconds(60)) == nil)
        routes.recordSuccess("r", at: next + .seconds(60))
        #expect(routes.admit("r", at: next) == nil && routes.admit("r", at: next) == nil)
    }

    @Test("The first failure of a route since its last success is told apart")
    func firstFailures() {
        var time = Self.now
        for isFirst in [true, false, false] {
            #expect(routes.admit("r", at: time) == nil)
            let rest = routes.recordFailure("r", at: time, retryAfter: nil)
            #expect(rest.isFirst == isFirst)
            time = rest.until
        }
        #expect(routes.admit("r", at: time) == nil)
        routes.recordSuccess("r", at: time)
        #expect(routes.recordFailure("r", at: time, retryAfter: nil).isFirst)
    }

    @Test("A route rests for at most an hour, whatever the service requests")
    func longestRest() {
        #expect(
            routes.recordFailure("r", at: Self.now, retryAfter: .seconds(86_400)).until == Self.now + .seconds(3_600))
    }

    @Test("After a rest one request probes the route, and the others wait for its result or time limit")
    func probe() {
        let routes = RouteBackoff(backoff: Backoff(base: .seconds(1), cap: .seconds(300)), probeTime: .seconds(10))
        let next = routes.recordFailure("r", at: Self.now, retryAfter: nil).until
        #expect(routes.admit("r", at: next) == nil)
        #expect(routes.admit("r", at: next) == next + .seconds(2))
        #expect(routes.admit("r", at: next + .seconds(9)) == next + .seconds(10))
        #expect(routes.admit("r", at: next + .seconds(10)) == nil)
        #expect(routes.recordFailure("r", at: next + .seconds(11), retryAfter: nil).until == next + .seconds(13))
    }

    @Test("An app may use half of the lists that others leave free, so that another app finds room")
    func shares() {
        let shares = AppShares(limit: 8)
        func fill(_ app: Int32) -> Int {
            var count = 0
            while shares.hasRoom, !shares.full.contains(app) {
                shares.begin(app)
                count += 1
            }
            return count
        }
        #expect(fill(1) == 4)
        #expect(fill(2) == 2)
        #expect(fill(3) == 1 && fill(4) == 1)
        #expect(!shares.hasRoom)
        for _ in 0..<4 { shares.end(1) }
        #expect(shares.hasRoom && fill(2) == 1)
    }

    @Test("A message about one subject is logged once a minute, with the number of suppressed ones")
    func limiter() {
        let (limiter, start) = (LogLimiter(), ContinuousClock.now)
        #expect(limiter.admit("a", at: start) == 0)
        #expect(limiter.admit("a", at: start + .seconds(1)) == nil)
        #expect(limiter.admit("b", at: start + .seconds(1)) == 0)
        #expect(limiter.admit("a", at: start + .seconds(61)) == 1)
        #expect(limiter.admit("a", at: start + .seconds(122)) == 0)
    }
}
