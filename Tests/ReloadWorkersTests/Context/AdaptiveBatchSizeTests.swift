// SPDX-License-Identifier: Apache-2.0

import Testing

@testable import ReloadWorkers

@Suite struct AdaptiveBatchSizeTests {
    private func state(after outcomes: [Bool]) -> AdaptiveBatchSize {
        let state = AdaptiveBatchSize()
        for (index, isInTime) in outcomes.enumerated() {
            let now = Duration.seconds(index)
            state.recordEnd(begun: now, isInTime: isInTime, at: now)
        }
        return state
    }

    @Test(
        "A batch that is too large halves the size; one that is in time lets it grow",
        arguments: [
            ([], 1.0), ([true, true], 1), ([false], 0.5), ([false, false], 0.25), ([false, true], 0.5625),
            ([false, true, true], 0.625), (Array(repeating: false, count: 5), 1.0 / 32),
            (Array(repeating: false, count: 5) + [true], 1.0 / 16),
            (Array(repeating: false, count: 5) + [true, true], 1.0 / 8),
            (Array(repeating: false, count: 100), 1.0 / 4096),
            (Array(repeating: false, count: 100) + Array(repeating: true, count: 100), 1),
        ] as [([Bool], Double)])
    func steps(_ outcomes: [Bool], _ share: Double) {
        #expect(state(after: outcomes).share == share)
    }

    @Test func batchesFromBeforeTheHalvingAreIgnored() {
        let state = AdaptiveBatchSize()
        state.recordEnd(begun: .seconds(5), isInTime: false, at: .seconds(10))
        state.recordEnd(begun: .seconds(6), isInTime: false, at: .seconds(11))
        state.recordEnd(begun: .seconds(9), isInTime: true, at: .seconds(12))
        #expect(state.share == 0.5)
        state.recordEnd(begun: .seconds(10), isInTime: false, at: .seconds(13))
        #expect(state.share == 0.25)
    }

    @Test func thereIsAlwaysSomethingToTakeOn() {
        let size = AdaptiveBatchSize()
        #expect(size.share(of: 1000) == 1000)
        for second in 0..<100 {
            size.recordEnd(begun: .seconds(second), isInTime: false, at: .seconds(second))
        }
        #expect(size.share(of: 1000) == 1)
        #expect(size.share(of: 1) == 1)
    }
}
