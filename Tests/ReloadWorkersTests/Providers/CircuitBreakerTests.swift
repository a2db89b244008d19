// SPDX-License-Identifier: Apache-2.0

import Testing
import Waiting
import WidgetModel

@testable import ReloadWorkers

struct CircuitBreakerTests {
    private static var rules: ProtectionRules {
        var rules = ProtectionRules()
        rules.consecutiveFailures = 3
        rules.failureSample = 10
        rules.failureShare = 0.5
        rules.openBackoff = Backoff(base: .seconds(4), cap: .seconds(30))
        rules.maximumRest = .seconds(600)
        return rules
    }

    private func failing(_ breaker: inout CircuitBreaker, _ count: Int, at time: Duration) -> ProviderHealth.Change? {
        var change: ProviderHealth.Change?
        for _ in 0..<count {
            change = breaker.recordFailure(epoch: breaker.epoch, rest: nil, jitter: 1, at: time) ?? change
        }
        return change
    }

    @Test func itOpensAfterFailuresInARow() {
        var breaker = CircuitBreaker(Self.rules)
        #expect(failing(&breaker, 2, at: .zero) == nil)
        _ = breaker.recordSuccess(epoch: 0, at: .zero)
        #expect(failing(&breaker, 2, at: .zero) == nil, "a success between them restarts the count")
        #expect(failing(&breaker, 1, at: .seconds(1)) == .opened(until: .seconds(5), wasClosed: true))
        #expect(breaker.allowance(at: .seconds(4)) == .nothing(until: .seconds(5)))
    }

    @Test func itOpensWhenMostOfAWindowFails() {
        var breaker = CircuitBreaker(Self.rules)
        var change: ProviderHealth.Change?
        // There are never two in a row.
        for second in 0..<5 {
            #expect(change == nil)
            _ = breaker.recordSuccess(epoch: 0, at: .seconds(second))
            change = breaker.recordFailure(epoch: 0, rest: nil, jitter: 1, at: .seconds(second))
        }
        #expect(change == .opened(until: .seconds(8), wasClosed: true))
        var slow = CircuitBreaker(Self.rules)
        for second in 0..<100 {
            _ = slow.recordSuccess(epoch: 0, at: .seconds(second * 5))
            #expect(
                slow.recordFailure(epoch: 0, rest: nil, jitter: 1, at: .seconds(second * 5)) == nil,
                "too few requests to decide")
        }
    }

    @Test func oneProbeAtATimeAndItsSuccessCloses() {
        var breaker = CircuitBreaker(Self.rules)
        _ = failing(&breaker, 3, at: .zero)
        #expect(breaker.allowance(at: .seconds(4)) == .probe)
        breaker.beginProbe()
        #expect(breaker.allowance(at: .seconds(4)) == .nothing(until: nil))
        #expect(breaker.recordSuccess(epoch: breaker.epoch, at: .seconds(5)) == .closed)
        #expect(breaker.allowance(at: .seconds(5)) == .anything)
    }

    @Test func aProbeThatFailsOpensItForTwiceAsLong() {
        var breaker = CircuitBreaker(Self.rules)
        _ = failing(&breaker, 3, at: .zero)
        var time = Duration.seconds(4)
        var waits: [Duration] = []
        for _ in 0..<5 {
            breaker.beginProbe()
            guard case .opened(let until, false)? = failing(&breaker, 1, at: time) else {
                Issue.record("expected it to open")
                return
            }
            waits.append(until - time)
            time = until
        }
        #expect(waits == [8, 16, 30, 30, 30].map { .seconds($0) })
    }

    @Test func jitterOnlyEverShortensByHalf() {
        for jitter in [-1, 0, 0.25, 1, 7] {
            var breaker = CircuitBreaker(Self.rules)
            for _ in 0..<3 { _ = breaker.recordFailure(epoch: 0, rest: nil, jitter: jitter, at: .zero) }
            guard case .open(let until) = breaker.state else {
                Issue.record("expected it to be open")
                return
            }
            #expect(until >= .seconds(2) && until <= .seconds(4))
        }
    }

    @Test func aWishForRestOpensItAtOnceAndIsHonouredUpToTheLimit() {
        var breaker = CircuitBreaker(Self.rules)
        #expect(
            breaker.recordFailure(epoch: 0, rest: .seconds(90), jitter: 0, at: .seconds(10))
                == .opened(until: .seconds(100), wasClosed: true))
        var long = CircuitBreaker(Self.rules)
        #expect(
            long.recordFailure(epoch: 0, rest: .seconds(1_000_000), jitter: 0, at: .zero)
                == .opened(until: .seconds(600), wasClosed: true))
        // Failures of requests under way may prolong the rest, but not shorten it.
        #expect(
            breaker.recordFailure(epoch: 0, rest: .seconds(200), jitter: 0, at: .seconds(20))
                == .delayed(until: .seconds(220)))
        #expect(breaker.state == .open(until: .seconds(220)))
        #expect(breaker.recordFailure(epoch: 0, rest: .seconds(1), jitter: 0, at: .seconds(21)) == nil)
        #expect(breaker.state == .open(until: .seconds(220)))
    }

    @Test func requestsFromBeforeTheChangeDoNotCount() {
        var breaker = CircuitBreaker(Self.rules)
        _ = failing(&breaker, 3, at: .zero)
        // Late answers neither close nor reopen the breaker.
        #expect(breaker.recordSuccess(epoch: 0, at: .seconds(1)) == nil)
        #expect(breaker.state == .open(until: .seconds(4)))
        breaker.beginProbe()
        #expect(breaker.recordSuccess(epoch: 0, at: .seconds(5)) == nil)
        #expect(breaker.recordFailure(epoch: 0, rest: nil, jitter: 1, at: .seconds(5)) == nil)
        #expect(breaker.state == .halfOpen)
        _ = breaker.recordSuccess(epoch: breaker.epoch, at: .seconds(6))
        for _ in 0..<10 { #expect(breaker.recordFailure(epoch: 0, rest: nil, jitter: 1, at: .seconds(7)) == nil) }
        #expect(breaker.state == .closed)
    }

    @Test func aProbeThatWasGivenUpMayBeMadeAgain() {
        var breaker = CircuitBreaker(Self.rules)
        _ = failing(&breaker, 3, at: .zero)
        breaker.beginProbe()
        breaker.giveUpProbe(epoch: breaker.epoch - 1, at: .seconds(5))
        #expect(breaker.state == .halfOpen, "earlier requests have no effect")
        breaker.giveUpProbe(epoch: breaker.epoch, at: .seconds(5))
        #expect(breaker.allowance(at: .seconds(5)) == .probe)
    }

    @Test func aProviderThatIsWellOnlyForAMomentIsLeftAloneForLonger() {
        var breaker = CircuitBreaker(Self.rules)
        _ = failing(&breaker, 3, at: .zero)
        breaker.beginProbe()
        _ = breaker.recordSuccess(epoch: breaker.epoch, at: .seconds(4))
        #expect(failing(&breaker, 3, at: .seconds(5)) == .opened(until: .seconds(13), wasClosed: true))
        breaker.beginProbe()
        _ = breaker.recordSuccess(epoch: breaker.epoch, at: .seconds(20))
        for _ in 0..<3 { _ = breaker.recordSuccess(epoch: breaker.epoch, at: .seconds(21)) }
        #expect(
            failing(&breaker, 3, at: .seconds(30)) == .opened(until: .seconds(34), wasClosed: true),
            "the provider recovered in between")
    }
}
