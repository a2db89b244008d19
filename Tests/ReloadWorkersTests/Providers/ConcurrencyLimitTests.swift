// SPDX-License-Identifier: Apache-2.0

import Testing

@testable import ReloadWorkers

struct ConcurrencyLimitTests {
    @Test func itGrowsByOneForEachRoundOfSuccessesThatUsedIt() {
        var limit = ConcurrencyLimit(initial: 2, ceiling: 5)
        var sizes: [Int] = []
        for _ in 0..<20 {
            limit.recordSuccess(wasUsed: true)
            sizes.append(limit.value)
        }
        #expect(sizes == [2, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5])
    }

    @Test func aLimitThatIsNotUsedDoesNotGrow() {
        var limit = ConcurrencyLimit(initial: 2, ceiling: 5)
        for _ in 0..<100 { limit.recordSuccess(wasUsed: false) }
        #expect(limit.value == 2)
    }

    @Test func oneRoundOfFailuresCutsOnce() {
        var limit = ConcurrencyLimit(initial: 16, ceiling: 16)
        // Sixteen concurrent requests.
        for request in 0..<16 {
            let cut = limit.recordOverload(startedAt: .seconds(1), at: .seconds(2) + .milliseconds(request))
            #expect(cut == (request == 0))
        }
        #expect(limit.value == 8)
        let cutAgain = limit.recordOverload(startedAt: .seconds(3), at: .seconds(4))
        #expect(cutAgain)
        #expect(limit.value == 4)
    }

    @Test func itNeverFallsBelowOne() {
        var limit = ConcurrencyLimit(initial: 3, ceiling: 8)
        for round in 1...10 { _ = limit.recordOverload(startedAt: .seconds(round * 2), at: .seconds(round * 2 + 1)) }
        #expect(limit.value == 1)
        let shrank = limit.recordOverload(startedAt: .seconds(50), at: .seconds(51))
        #expect(!shrank, "nothing left to report")
        limit.recordSuccess(wasUsed: true)
        #expect(limit.value == 2)
    }

    @Test func aFailureBeginsTheRoundAnew() {
        var limit = ConcurrencyLimit(initial: 2, ceiling: 8)
        limit.recordSuccess(wasUsed: true)
        _ = limit.recordOverload(startedAt: .seconds(1), at: .seconds(2))
        #expect(limit.value == 1)
        limit.recordSuccess(wasUsed: true)
        limit.recordSuccess(wasUsed: true)
        #expect(limit.value == 2, "one success raised it, the next is the first of two")
    }

    @Test(arguments: [(0, 5, 1), (9, 5, 5), (3, 0, 1), (-1, 3, 1)])
    func theLimitIsFromOneToTheCeilingForAnySettings(initial: Int, ceiling: Int, value: Int) {
        #expect(ConcurrencyLimit(initial: initial, ceiling: ceiling).value == value)
    }
}

struct SlidingSumTests {
    @Test func valuesOlderThanTheWindowDropOut() {
        var sum = SlidingSum(over: .seconds(10))
        for second in 0..<10 { sum.add(1, at: .seconds(second)) }
        #expect(sum.total(at: .seconds(9)) == 10)
        #expect(sum.total(at: .seconds(14)) == 5)
        #expect(sum.total(at: .seconds(19)) == 0)
        sum.add(3, at: .seconds(100))
        #expect(sum.total(at: .seconds(100)) == 3)
    }

    @Test func takingBackNeverMakesTheSumNegative() {
        var sum = SlidingSum(over: .seconds(10))
        sum.add(2, at: .seconds(1))
        sum.add(2, at: .seconds(5))
        sum.takeBack(3, at: .seconds(5))
        #expect(sum.total(at: .seconds(5)) == 1)
        sum.takeBack(100, at: .seconds(6))
        #expect(sum.total(at: .seconds(6)) == 0)
        sum.add(1, at: .seconds(6))
        #expect(sum.total(at: .seconds(6)) == 1)
    }
}
