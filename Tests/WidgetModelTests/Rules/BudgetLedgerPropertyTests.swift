// SPDX-License-Identifier: Apache-2.0

import Randomness
import TestSupport
import Testing

@testable import WidgetModel

@Suite("Properties of the ledger", .tags(.rules, .property), .timeLimit(.patience))
struct BudgetLedgerPropertyTests {
    private static let start = time("2020-06-22T10:00:00Z")

    /// A request for a reload under a daily budget.
    struct Request: Hashable, Sendable {
        var time: Timestamp
        var budget: Int
    }

    /// Returns the granted requests of a series in order of time.
    static func granted(_ requests: [Request]) -> [Request] {
        var ledger = BudgetLedger()
        return requests.filter { request in
            guard ledger.tokens(of: request.budget, at: request.time) > 0 else { return false }
            ledger.spend(of: request.budget, at: request.time)
            return true
        }
    }

    /// Whether more requests were granted within 24 hours than the largest of their budgets.
    static func isBroken(_ requests: [Request]) -> Bool {
        let granted = granted(requests)
        var first = 0
        for last in granted.indices {
            while granted[last].time - granted[first].time >= .days(1) { first += 1 }
            let greatest = granted[first...last].map(\.budget).max() ?? 0
            if last - first + 1 > greatest { return true }
        }
        return false
    }

    /// Removes requests while the series still fails.
    static func shrunk(_ requests: [Request]) -> [Request] {
        var requests = requests
        var length = requests.count
        while length > 0 {
            var index = 0
            while index + length <= requests.count {
                var fewer = requests
                fewer.removeSubrange(index..<(index + length))
                if isBroken(fewer) { requests = fewer } else { index += length }
            }
            length /= 2
        }
        return requests
    }

    static func check(_ requests: [Request], _ name: String) {
        guard isBroken(requests) else { return }
        let least = shrunk(requests).map { "\($0.time.microseconds - start.microseconds) µs of \($0.budget)" }
        Issue.record("\(name): \(least.joined(separator: ", "))")
    }

    @Test("Never more than N reloads in any 24 hours, for every pattern of six steps at the borders", arguments: 1...4)
    func exhaustive(budget: Int) {
        let pace = BudgetLedger.pace(of: budget)
        let steps: [Duration] = [
            .zero, .minutes(10), pace - .microseconds(1), pace, .days(1) - .microseconds(1), .days(1),
        ]
        var patterns = 1
        for _ in 0..<6 { patterns *= steps.count }
        for pattern in 0..<patterns {
            var rest = pattern
            var now = Self.start - .microseconds(1)
            var requests: [Request] = []
            for _ in 0..<6 {
                now = now + steps[rest % steps.count]
                rest /= steps.count
                // Each requester repeats its request.
                requests += [Request(time: now, budget: budget), Request(time: now, budget: budget)]
            }
            if Self.isBroken(requests) { return Self.check(requests, "pattern \(pattern)") }
        }
    }

    /// An adversary that knows the ledger. It requests at the first token, as late as possible so that many requests
    /// fall into a window, at the borders of earlier grants, or at random times.
    static func adversary(
        steps: Int, using random: inout SeededGenerator, budget: (inout SeededGenerator) -> Int
    ) -> [Request] {
        var ledger = BudgetLedger()
        var now = start + .microseconds(Int64.random(in: 0..<600_000_000, using: &random))
        var granted: [Timestamp] = []
        return (0..<steps).map { _ in
            let budget = budget(&random)
            let next: Timestamp
            switch Int.random(in: 0..<10, using: &random) {
            case 0...4: next = ledger.available(of: budget, from: now)
            case 5: next = now
            case 6: next = now + .microseconds(Int64.random(in: 0..<86_400_000_000, using: &random))
            case 7: next = now + BudgetLedger.pace(of: budget) - .microseconds(Int64.random(in: -1...1, using: &random))
            case 8:
                let border = granted.suffix(100).randomElement(using: &random) ?? now
                next = border + .days(1) + .microseconds(Int64.random(in: -1...1, using: &random))
            default: next = now + .minutes(Int.random(in: 0..<20, using: &random))
            }
            now = max(now, next)
            if ledger.tokens(of: budget, at: now) > 0 {
                ledger.spend(of: budget, at: now)
                granted.append(now)
            }
            return Request(time: now, budget: budget)
        }
    }

    @Test("Never more than N reloads in any 24 hours, for random requests", arguments: 1...100)
    func adversaries(budget: Int) {
        var random = SeededGenerator(seed: UInt64(budget))
        for round in 0..<3 {
            let requests = Self.adversary(steps: min(400, 20 + 6 * budget), using: &random) { _ in budget }
            Self.check(requests, "round \(round)")
        }
    }

    @Test("With a changing budget, never more reloads than its maximum within the 24 hours", arguments: 1...20)
    func changingBudgets(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let greatest = Int.random(in: 2...100, using: &random)
        let requests = Self.adversary(steps: 400, using: &random) { Int.random(in: 1...greatest, using: &$0) }
        Self.check(requests, "seed \(seed)")
    }

    @Test("The check finds one reload too many and shrinks the example")
    func checkCanFail() {
        // The budgets are claimed to be smaller than when they were spent.
        var requests = (0..<9).map { Request(time: Self.start + .hours($0), budget: 100) }
        #expect(!Self.isBroken(requests))
        #expect(mostInADay(requests.map(\.time)) == 9)
        requests[4].budget = 0
        #expect(!Self.isBroken(requests), "at 0 the paced token was spent an hour ago")
        #expect(mostInADay([Self.start, Self.start + .days(1) - .microseconds(1)]) == 2)
        #expect(mostInADay([Self.start, Self.start + .days(1)]) == 1)
    }

    /// Returns a ledger after random reloads, and the time after the last of them.
    private func ledger(
        of budget: Int, using random: inout SeededGenerator, from start: Timestamp = Self.start
    ) -> (ledger: BudgetLedger, now: Timestamp) {
        var ledger = BudgetLedger()
        var now = start + .microseconds(Int64.random(in: 0..<600_000_000, using: &random))
        for _ in 0..<Int.random(in: 0...60, using: &random) {
            now = now + .seconds(Int.random(in: 0..<3000, using: &random))
            if ledger.tokens(of: budget, at: now) > 0 { ledger.spend(of: budget, at: now) }
        }
        return (ledger, now)
    }

    @Test("available(from:) is the earliest time with a token, compared with trying every minute", arguments: 1...12)
    func availableIsTheEarliest(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        for _ in 0..<12 {
            let budget = Int.random(in: 1...100, using: &random)
            let (ledger, now) = ledger(of: budget, using: &random)
            let asked = Int.random(in: 1...100, using: &random)
            let from = now + .seconds(Int.random(in: -3600...7200, using: &random))
            let available = ledger.available(of: asked, from: from)
            guard let minute = (0...1460).first(where: { ledger.tokens(of: asked, at: from + .minutes($0)) > 0 }) else {
                Issue.record("no token within a day")
                return
            }
            #expect(available <= from + .minutes(minute) && available > from + .minutes(minute - 1))
            #expect(available >= from)
            #expect(ledger.tokens(of: asked, at: available) > 0)
            #expect(available == from || ledger.tokens(of: asked, at: available - .microseconds(1)) == 0)
            let tokens = ledger.tokens(of: asked, at: from)
            guard let next = ledger.nextToken(of: asked, after: from) else {
                #expect(tokens == BudgetLedger.atWill(of: asked) + 1)
                continue
            }
            #expect(ledger.tokens(of: asked, at: next) > tokens)
            #expect(ledger.tokens(of: asked, at: next - .microseconds(1)) == tokens)
        }
    }

    @Test("Without spending the number of tokens never falls, and is full after a day and ten minutes")
    func tokensComeBack() {
        var random = SeededGenerator(seed: 3)
        for _ in 0..<50 {
            let budget = Int.random(in: 1...100, using: &random)
            let (ledger, now) = ledger(of: budget, using: &random)
            var tokens = 0
            for hour in 0...24 {
                let later = ledger.tokens(of: budget, at: now + .hours(hour))
                #expect(later >= tokens)
                tokens = later
            }
            #expect(
                ledger.tokens(of: budget, at: now + .days(1) + .minutes(10)) == BudgetLedger.atWill(of: budget) + 1)
            #expect(ledger.nextToken(of: budget, after: now + .days(1) + .minutes(10)) == nil)
        }
    }

    @Test("The stored form is read back, and changed bytes are refused or the form of another ledger")
    func stored() {
        var random = SeededGenerator(seed: 4)
        for round in 0..<300 {
            let budget = Int.random(in: 1...(round % 3 == 0 ? 1000 : 100), using: &random)
            let years = Int64.random(in: -200_000...200_000, using: &random)
            let (ledger, _) = ledger(
                of: budget, using: &random,
                from: round % 2 == 0 ? Self.start : Timestamp(microseconds: years * 31_557_600_000_000))
            #expect(BudgetLedger(stored: ledger.stored) == ledger)
            guard var bytes = ledger.stored else { continue }
            for _ in 0..<20 {
                switch Int.random(in: 0..<4, using: &random) {
                case 0: bytes.removeLast(Int.random(in: 0...bytes.count, using: &random))
                case 1: bytes.append(UInt8.random(in: 0...255, using: &random))
                default:
                    guard let index = bytes.indices.randomElement(using: &random) else { break }
                    bytes[index] = UInt8.random(in: 0...255, using: &random)
                }
                if let read = BudgetLedger(stored: bytes) { #expect(read.stored == bytes) }
            }
        }
    }

    @Test("With steps back of up to two hours, never more than N reloads in any 22 hours", arguments: 1...20)
    func clockGoesBack(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let budget = Int.random(in: 1...30, using: &random)
        var ledger = BudgetLedger()
        var now = Self.start
        var granted: [Timestamp] = []
        for _ in 0..<400 {
            now = now + .seconds(Int.random(in: 0...4000, using: &random))
            let clock = now - .seconds(Int.random(in: 0...7200, using: &random))
            #expect(ledger.available(of: budget, from: clock) >= clock)
            guard ledger.tokens(of: budget, at: clock) > 0 else { continue }
            ledger.spend(of: budget, at: clock)
            granted.append(now)
            #expect(BudgetLedger(stored: ledger.stored) == ledger)
        }
        #expect(most(of: granted, within: .hours(22)) <= budget)
    }

    @Test("No time causes a trap")
    func extremes() {
        let times: [Timestamp] = [
            .distantPast, Timestamp(microseconds: .min + 1), Timestamp(microseconds: -1), Timestamp(microseconds: 0),
            Self.start, Timestamp(microseconds: .max - 1), .distantFuture,
        ]
        for first in times {
            for second in times {
                for third in times {
                    var ledger = BudgetLedger()
                    for time in [first, first, second, third] { ledger.spend(of: 5, at: time) }
                    for time in times {
                        #expect(ledger.available(of: 5, from: time) >= time)
                        #expect(ledger.tokens(of: 5, at: time) >= 0)
                    }
                    _ = BudgetLedger(stored: ledger.stored)
                }
            }
        }
    }
}
