// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import WidgetModel

@Suite(.tags(.rules), .timeLimit(.patience))
struct BudgetLedgerTests {
    /// The start of a ten-minute slot, where the ledger loses the most.
    private let start = time("2020-06-22T10:00:00Z")

    @Test(
        "Two fifths of the budget are unrestricted, the others paced",
        arguments: [
            (1, 0, 86_400), (2, 0, 43_200), (3, 1, 43_200), (5, 2, 28_800), (8, 3, 17_280), (40, 16, 3600),
            (70, 28, 2057),
            (100, 40, 1440), (0, 0, 86_400), (-5, 0, 86_400),
        ])
    func shares(budget: Int, atWill: Int, pace: Int) {
        #expect(BudgetLedger.atWill(of: budget) == atWill)
        #expect(BudgetLedger.pace(of: budget).components.seconds == Int64(pace))
    }

    @Test("The pace is in whole microseconds and never allows one reload too many")
    func paceIsWhole() {
        for budget in 1...1000 {
            let pace = BudgetLedger.pace(of: budget)
            let shares = budget - BudgetLedger.atWill(of: budget)
            #expect(pace == .microseconds(pace.wholeMicroseconds))
            #expect(pace * shares >= .days(1) && (pace - .microseconds(1)) * shares < .days(1))
        }
    }

    @Test("Budgets of any size work")
    func extremeBudgets() {
        #expect(BudgetLedger.atWill(of: .max) == .max / 5 * 2)
        #expect(BudgetLedger.pace(of: .max) == .microseconds(1))
        #expect(BudgetLedger.pace(of: .min) == .days(1))
    }

    /// A ledger whose tokens were all spent at the start.
    private func spentAtStart() -> BudgetLedger {
        var ledger = BudgetLedger()
        for _ in 0..<4 { ledger.spend(of: 8, at: start) }
        return ledger
    }

    @Test("A day of eight tokens starts with three burst tokens and the first paced one")
    func startOfDay() {
        var ledger = BudgetLedger()
        #expect(ledger.tokens(of: 8, at: start) == 4)
        #expect((0..<4).map { _ in ledger.spend(of: 8, at: start) } == [.paced, .token, .token, .token])
        #expect(ledger.tokens(of: 8, at: start) == 0)
        #expect(ledger.available(of: 8, from: start) == start + .seconds(17_280))
    }

    @Test("Each fifth of a day of eight tokens gives a paced token; spent ones return after a day")
    func restOfDay() {
        var ledger = spentAtStart()
        for share in 1...4 {
            let time = start + .seconds(17_280 * share)
            #expect(ledger.tokens(of: 8, at: time - .microseconds(1)) == 0)
            #expect(ledger.spend(of: 8, at: time) == .paced)
        }
        // The fifth token returns after exactly a day; the others when their ten-minute slots have passed, too.
        #expect(ledger.available(of: 8, from: start + .hours(20)) == start + .days(1))
        #expect(ledger.tokens(of: 8, at: start + .days(1)) == 1)
        #expect(ledger.tokens(of: 8, at: start + .days(1) + .minutes(10)) == 4)
        #expect(ledger.lastPaced == start + .seconds(69_120))
    }

    @Test("After a reduction of the budget no token is available until it is balanced, after an increase at once")
    func changes() {
        var ledger = BudgetLedger()
        for _ in 0..<29 { ledger.spend(of: 70, at: start) }
        #expect(ledger.available(of: 70, from: start) == start + BudgetLedger.pace(of: 70))
        #expect(ledger.available(of: 8, from: start) == start + BudgetLedger.pace(of: 8))
        #expect(ledger.available(of: 1, from: start) == start + .days(1))
        #expect(ledger.tokens(of: 100, at: start) == 12)
        #expect(ledger.available(of: 100, from: start) == start)
    }

    @Test(
        "Under constant pressure no wait exceeds spacing and pace, and at most one reload a day is lost",
        arguments: [1, 2, 3, 5, 8, 13, 21, 40, 55, 70, 85, 100], [Duration.zero, .minutes(5)])
    func constantPressure(budget: Int, spacing: Duration) {
        let rules = ReloadRules.test(spacing: spacing, budget: .always(budget))
        let longest = max(spacing, BudgetLedger.pace(of: budget))
        var state = ReloadState(need: .budgeted)
        var reloads: [Timestamp] = []
        var now = start
        let end = start + .days(30)
        while now < end {
            switch rules.plan(state, at: now) {
            case .fetch(_, let ledger):
                if let last = reloads.last, now - last > longest {
                    Issue.record("\(now - last) after the previous reload at \(last)")
                    return
                }
                reloads.append(now)
                state.ledger = ledger
                state.renderedAt = now
            case .wait(let time, _):
                guard time > now else {
                    Issue.record("waits until the present time")
                    return
                }
                now = time
            case .sleep, .collect, .nothing:
                Issue.record("must not sleep")
                return
            }
            if spacing == .zero, reloads.count > 101 * 30 { break }
        }
        #expect(mostInADay(reloads) <= budget)
        #expect(reloads.count >= (budget - 1) * 30, "\(Double(reloads.count) / 30) a day")
        #expect(state.ledger.stored?.count ?? 0 <= 10 + 2 * BudgetLedger.atWill(of: budget))
    }

    @Test("A burst does not delay paced tokens")
    func burst() {
        var ledger = BudgetLedger()
        let pace = BudgetLedger.pace(of: 40)
        var rules: [ReloadRule] = []
        for minute in stride(from: 0, through: 60, by: 5) {
            rules.append(ledger.spend(of: 40, at: start + .minutes(minute)))
        }
        #expect(pace == .hours(1))
        #expect(rules == [.paced] + Array(repeating: .token, count: 11) + [.paced])
        #expect(ledger.tokens(of: 40, at: start + .hours(1)) == 5)
    }

    @Test("The ledger of an often-viewed widget fits its bound in the row")
    func size() {
        var ledger = BudgetLedger()
        #expect(ledger.stored == nil)
        ledger.spend(of: 70, at: start)
        #expect(ledger.stored?.count == 9)
        var minute = 0
        while ledger.spent(at: start) < 28 {
            minute += 5
            ledger.spend(of: 70, at: start + .minutes(minute))
        }
        #expect(minute == 160)
        #expect(ledger.stored?.count == 10 + 2 * 17)
    }

    /// Appends bytes to the version and the time.
    @Test(
        "Bytes that are not a stored ledger are refused",
        arguments: [
            [0], [0, 0], [145, 0, 1], [3, 1, 1], [0, 0, 0], [0, 145, 1], [0, 255, 1], [0, 0, 0x80], [0, 0, 0x80, 0],
            [0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 1], [0, 3, 1, 3, 1], [0, 3, 1, 2, 1], [0, 3, 1, 4], [255, 0, 1],
        ] as [[UInt8]])
    func garbage(rest: [UInt8]) {
        #expect(BudgetLedger(stored: [1, 0, 0, 0, 0, 0, 0, 0, 5] + rest) == nil)
    }

    @Test(
        "A ledger in another form or without a time is refused",
        arguments: [
            [], [1], [1, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0, 5], [2, 0, 0, 0, 0, 0, 0, 0, 5],
            [1, 0x7F, 255, 255, 255, 255, 255, 255, 255], [1, 0x80, 0, 0, 0, 0, 0, 0, 0],
        ] as [[UInt8]])
    func otherForms(bytes: [UInt8]) {
        #expect(BudgetLedger(stored: bytes) == nil)
    }

    @Test("The stored form of a ledger does not change")
    func storedForm() {
        let time = Timestamp(microseconds: 0x0102_0304_0506_0708)
        var ledger = BudgetLedger()
        for _ in 0..<200 { ledger.spend(of: 1000, at: time) }
        #expect(ledger.stored == [1, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0xC7, 1])
        // A paced token, which moves the time, and a burst token ten minutes later.
        ledger.spend(of: 1000, at: time + .minutes(10))
        #expect(ledger.stored?.suffix(4) == [0, 1, 0xC7, 1])
        ledger.spend(of: 5, at: time + .minutes(20))
        #expect(ledger.stored?.suffix(6) == [1, 0, 1, 2, 0xC7, 1])
        #expect(BudgetLedger(stored: nil) == BudgetLedger())
    }
}
