// SPDX-License-Identifier: Apache-2.0

import Randomness
import TestSupport
import Testing
import Waiting

@Suite("Back-off", .timeLimit(.patience))
struct BackoffTests {
    @Test func bounds() {
        let backoff = Backoff(base: .seconds(1), cap: .seconds(60))
        let bounds = [-1, 0, 1, 2, 3, 6, 7, 8, 1000, Int.max].map { backoff.bound(attempt: $0) }
        #expect(bounds == [1, 1, 1, 2, 4, 32, 60, 60, 60, 60].map { .seconds($0) })
        #expect(Backoff(base: .seconds(Int64.max), cap: .seconds(5)).bound(attempt: 9) == .seconds(5))
        #expect(Backoff(base: .zero, cap: .seconds(5)).bound(attempt: 9) == .zero)
        #expect(Backoff(base: .seconds(-1), cap: .seconds(-5)).bound(attempt: 9) == .zero)
    }

    @Test func isFullyJittered() {
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
}
