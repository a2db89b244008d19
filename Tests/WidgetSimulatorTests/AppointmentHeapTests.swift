// SPDX-License-Identifier: Apache-2.0

import Randomness
import Testing
import WidgetModel

@testable import WidgetSimulator

struct AppointmentHeapTests {
    /// Pushes and takes at random, at a time that moves on as in a simulation, and compares with a sorted list.
    @Test(arguments: 0..<50 as Range<UInt64>) func itGivesTheEarliestAndOfThoseTheFirstOwner(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var heap = AppointmentHeap()
        var expected: [(time: Int64, owner: Int32)] = []
        var now: Int64 = 1_000_000
        // Few times, so that many are equal; or many.
        let spread: Int64 = seed.isMultiple(of: 2) ? 8 : 1 << 36
        for step in 0..<2_000 {
            // Some are overdue, as those of a request of now, and few at the ends of the range.
            for _ in 0..<Int.random(in: 0...3, using: &random) {
                var time = now + Int64.random(in: -2...spread, using: &random)
                if step.isMultiple(of: 500) { time = Bool.random(using: &random) ? .min : .max }
                let owner = Int32.random(in: 0..<100, using: &random)
                heap.push(Timestamp(microseconds: time), owner)
                expected.append((time, owner))
            }
            expected.sort { ($0.time, $0.owner) < ($1.time, $1.owner) }
            #expect(heap.nextTime?.microseconds == expected.first?.time)
            if step.isMultiple(of: 3) { now += Int64.random(in: 0...spread, using: &random) }
            let limit = Int.random(in: 0...4, using: &random)
            for _ in 0..<limit {
                let entry = heap.take(through: Timestamp(microseconds: now))
                let first = expected.first.flatMap { $0.time <= now ? $0 : nil }
                #expect(entry?.time.microseconds == first?.time && entry?.owner == first?.owner)
                if first != nil { expected.removeFirst() }
            }
        }
        var rest: [Int64] = []
        while let entry = heap.take(through: .distantFuture) { rest.append(entry.time.microseconds) }
        #expect(rest == expected.map(\.time) && heap.nextTime == nil)
    }
}
