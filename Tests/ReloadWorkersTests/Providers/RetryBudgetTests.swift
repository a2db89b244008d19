// SPDX-License-Identifier: Apache-2.0

import Testing

@testable import ReloadWorkers

struct RetryBudgetTests {
    private func budget(floor: Int = 0) -> RetryBudget {
        var rules = ProtectionRules()
        rules.retryShare = 0.2
        rules.retryFloor = floor
        rules.retryWindow = .seconds(10)
        return RetryBudget(rules)
    }

    @Test func failingRetriesAreAFifthOfFirstAttempts() {
        var budget = budget()
        #expect(budget.take(10, at: .zero) == 0)
        budget.recordFirstAttempts(100, at: .zero)
        #expect(budget.take(15, at: .zero) == 15)
        #expect(budget.take(15, at: .seconds(1)) == 5, "the budget limits the retries")
        #expect(budget.take(15, at: .seconds(1)) == 0)
        budget.recordFirstAttempts(50, at: .seconds(2))
        #expect(budget.available(at: .seconds(2)) == 10)
    }

    @Test func theWindowSlides() {
        var budget = budget()
        budget.recordFirstAttempts(100, at: .zero)
        #expect(budget.take(20, at: .seconds(5)) == 20)
        #expect(budget.available(at: .seconds(11)) == 0, "first attempts expire before the retries")
        budget.recordFirstAttempts(100, at: .seconds(12))
        #expect(budget.available(at: .seconds(12)) == 0)
        #expect(budget.available(at: .seconds(16)) == 20)
    }

    @Test func aQuietProviderMayStillRetry() {
        var budget = budget(floor: 5)
        #expect(budget.take(7, at: .zero) == 5)
        #expect(budget.take(7, at: .seconds(9)) == 0)
        #expect(budget.take(7, at: .seconds(10)) == 5)
    }

    @Test func whatSucceedsIsPaidBackSoThatNothingWaitsAfterAnOutage() {
        var budget = budget(floor: 5)
        for _ in 0..<1_000 {
            #expect(budget.take(5, at: .seconds(1)) == 5)
            budget.payBack(5, at: .seconds(1))
        }
    }

    @Test func theMoreAreRefusedTheLongerTheyStayAway() {
        var budget = budget(floor: 10)
        #expect(budget.wait(after: 1, at: .zero) == .seconds(11))
        #expect(budget.wait(after: 19, at: .zero) == .seconds(30))
        #expect(budget.wait(after: 1_000_000, at: .seconds(1)) == .seconds(300))
        #expect(budget.wait(after: 10, at: .seconds(20)) == .seconds(20), "earlier attempts have expired")
        budget.recordFirstAttempts(1_000, at: .seconds(20))
        #expect(budget.wait(after: 10, at: .seconds(20)) == .seconds(11), "the budget has grown")
    }

    /// A storm: every request fails, and every failure is retried at once.
    @Test func aStormOfRetriesIsAFifthOfTheLoad() {
        var budget = budget(floor: 10)
        var (firsts, retries) = (0, 0)
        for tick in 0..<600 {
            let time = Duration.milliseconds(tick * 100)
            budget.recordFirstAttempts(20, at: time)
            firsts += 20
            retries += budget.take(1_000, at: time)
        }
        #expect(Double(retries) <= 0.2 * Double(firsts) + 10)
        #expect(Double(retries) > 0.15 * Double(firsts), "the permitted retries are made")
    }
}

@Suite("Learned batch sizes of providers")
struct BatchSizeLimitsTests {
    @Test("A size that was too large is learned, and grows slowly with each full batch")
    func learning() {
        var sizes = BatchSizeLimits()
        #expect(sizes == BatchSizeLimits() && sizes.size(atMost: 100) == 100)
        sizes.recordRefusal(fitting: 50)
        #expect(sizes.size(atMost: 100) == 50)
        sizes.recordSuccess(of: 20)
        #expect(sizes.size(atMost: 100) == 50, "a small batch has no effect")
        sizes.recordSuccess(of: 50)
        #expect(sizes.size(atMost: 100) == 51)
        for size in 51..<10_000 { sizes.recordSuccess(of: size) }
        #expect(sizes == BatchSizeLimits())
    }

    @Test("A size is never less than one, and never grows by a refusal")
    func bounds() {
        var sizes = BatchSizeLimits()
        sizes.recordRefusal(fitting: 0)
        #expect(sizes.size(atMost: 100) == 1)
        sizes.recordRefusal(fitting: 40)
        #expect(sizes.size(atMost: 100) == 1)
        #expect(sizes.size(atMost: 0) == 1)
    }
}
