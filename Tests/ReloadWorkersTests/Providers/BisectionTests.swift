// SPDX-License-Identifier: Apache-2.0

import Testing
import WidgetModel

@testable import ReloadWorkers

struct BisectionTests {
    private static let blamed = ProviderFailure(.status, "500", status: 500)
    private static let tooLarge = ProviderFailure(.status, "413", status: 413)

    /// Bisects a batch for a provider that fails every part with an item of `poison`.
    private func run(_ count: Int, poison: Set<Int>, cap: Int = 28) -> (bisection: Bisection, answered: Set<Int>) {
        var bisection = Bisection(count: count, failure: Self.blamed, cause: .content, maximumRequests: cap)
        var answered: Set<Int> = []
        while let range = bisection.next() {
            if poison.isDisjoint(with: range) {
                bisection.recordSuccess(range)
                answered.formUnion(range)
            } else {
                bisection.recordFailure(range, Self.blamed, isSplit: true)
            }
        }
        return (bisection, answered)
    }

    @Test(arguments: [2, 3, 7, 64, 100, 1_000])
    func onePoisonIsFoundWhereverItIs(count: Int) {
        let places = count <= 100 ? Array(0..<count) : [0, 1, 499, 500, 999]
        for place in places {
            let (bisection, answered) = run(count, poison: [place])
            #expect(answered == Set(0..<count).subtracting([place]))
            let failures = bisection.failures
            #expect(failures.count == 1 && failures.first?.range == place..<(place + 1))
            #expect(failures.first?.isPoison == true)
            // Two requests per halving.
            var rounds = 0
            while 1 << rounds < count { rounds += 1 }
            #expect(bisection.requests <= 2 * rounds)
        }
    }

    @Test func someInOneHalfAreAllFound() {
        let (bisection, answered) = run(64, poison: [3, 4, 20])
        #expect(answered.count == 61)
        #expect(Set(bisection.failures.map(\.range.lowerBound)) == [3, 4, 20])
        #expect(bisection.failures.allSatisfy { $0.isPoison })
    }

    @Test func whereverOnePoisonIsTheSmallestRetryBudgetFindsIt() {
        for place in 0..<100 {
            var bisection = Bisection(count: 100, failure: Self.blamed, cause: .content, maximumRequests: 28)
            var (spent, most) = (0, 0)
            while let range = bisection.next() {
                most = max(most, spent + range.count)
                if range.contains(place) {
                    spent += range.count
                    bisection.recordFailure(range, Self.blamed, isSplit: true)
                } else {
                    bisection.recordSuccess(range)
                }
            }
            #expect(most <= ProtectionRules().retryFloor)
        }
    }

    @Test func aHalfWhoseSiblingSucceedsIsRequestedInParts() {
        var bisection = Bisection(count: 8, failure: Self.blamed, cause: .content, maximumRequests: 28)
        #expect(bisection.next() == 0..<4)
        bisection.recordSuccess(0..<4)
        #expect(bisection.next() == 4..<6)
        bisection.recordSuccess(4..<6)
        #expect(bisection.next() == 6..<7)
        bisection.recordSuccess(6..<7)
        #expect(bisection.next() == 7..<8, "a single item is requested, which may succeed now")
        bisection.recordSuccess(7..<8)
        #expect(bisection.next() == nil && bisection.failures.isEmpty)
    }

    @Test func anAnswerThatIsTooLargeAsAWholeBlamesNoHalf() {
        var bisection = Bisection(
            count: 8, failure: ProviderFailure(.tooLarge, "long"), cause: .content, maximumRequests: 28)
        #expect(bisection.next() == 0..<4)
        bisection.recordSuccess(0..<4)
        #expect(bisection.next() == 4..<8)
    }

    /// An item in either half looks like an outage until a single timeline is answered.
    @Test func twoAnywhereAreFoundByTheRequestsThatAreAllowed() {
        let cap = ProtectionRules().maximumBisectRequests
        for first in 1..<99 {
            for second in (first + 1)..<100 {
                let (bisection, answered) = run(100, poison: [first, second], cap: cap)
                #expect(answered.count == 98)
                #expect(bisection.failures.allSatisfy { $0.isPoison } && !bisection.isEverywhere)
            }
        }
    }

    @Test(arguments: [2, 3, 100])
    func anOutageIsNotMultiplied(count: Int) {
        let (bisection, answered) = run(count, poison: Set(0..<count))
        #expect(bisection.requests <= 3, "the halves, and one timeline")
        #expect(answered.isEmpty && bisection.isEverywhere)
        #expect(!bisection.failures.contains { $0.isPoison })
        #expect(bisection.failures.flatMap(\.range).sorted() == Array(0..<count), "each once")
    }

    @Test func requestsAreBoundedAndTheRestFailsLikeTheWhole() {
        let (bisection, answered) = run(1_000, poison: Set(stride(from: 0, to: 500, by: 10)), cap: 20)
        #expect(bisection.requests == 20)
        let failed = bisection.failures.flatMap(\.range)
        #expect(answered.count + failed.count == 1_000 && answered.isDisjoint(with: failed))
    }

    @Test func aFailureNotCausedByContentEndsTheSearch() {
        var bisection = Bisection(count: 8, failure: Self.blamed, cause: .content, maximumRequests: 28)
        #expect(bisection.next() == 0..<4)
        bisection.recordFailure(0..<4, ProviderFailure(.timeout, "late"), isSplit: false)
        #expect(bisection.next() == nil)
        #expect(bisection.failures.map(\.failure.reason) == [.timeout, .status])
        #expect(bisection.failures.map(\.range) == [0..<4, 4..<8])
    }

    @Test func aPartPutBackDoesNotCountAsARequest() {
        var bisection = Bisection(count: 4, failure: Self.blamed, cause: .content, maximumRequests: 28)
        let part = bisection.next()
        #expect(part == 0..<2)
        bisection.putBack(0..<2)
        bisection.stop()
        #expect(bisection.requests == 0 && bisection.next() == nil)
        #expect(bisection.failures.flatMap(\.range).sorted() == [0, 1, 2, 3])
    }

    @Test(arguments: [(100, 60, 50), (100, 50, 50), (100, 30, 25), (100, 7, 7), (2, 1, 1), (1_000, 250, 250)])
    func aBatchThatIsTooLargeIsHalvedUntilItFits(count: Int, limit: Int, fitting: Int) {
        var bisection = Bisection(count: count, failure: Self.tooLarge, cause: .size, maximumRequests: 100)
        var answered: Set<Int> = []
        while let range = bisection.next() {
            if range.count <= limit {
                bisection.recordSuccess(range)
                answered.formUnion(range)
            } else {
                bisection.recordFailure(range, Self.tooLarge, isSplit: true)
            }
        }
        #expect(answered.count == count && bisection.failures.isEmpty)
        #expect(bisection.fitting == fitting)
    }

    @Test func aProviderThatTakesNothingIsNotAskedForEver() {
        var bisection = Bisection(count: 100, failure: Self.tooLarge, cause: .size, maximumRequests: 28)
        while let range = bisection.next() { bisection.recordFailure(range, Self.tooLarge, isSplit: true) }
        #expect(bisection.requests == 28)
        #expect(bisection.failures.flatMap(\.range).sorted() == Array(0..<100))
        #expect(!bisection.failures.contains { $0.isPoison })
        #expect(bisection.fitting == 1)
    }
}
