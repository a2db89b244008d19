// SPDX-License-Identifier: Apache-2.0

import Randomness
import TestSupport
import Testing

@testable import WidgetModel

/// DESIGN.md, E: scores compare only within all entries ever provided for a widget.
@Suite("History of scores", .timeLimit(.patience))
struct RelevanceHistoryTests {
    private static let start = Timestamp(microseconds: 1_780_000_000_000_000)

    /// A day of purchases: one score each hour from `day` on.
    private func day(_ day: Int, _ scores: [Double]) -> RelevanceCurve {
        RelevanceCurve(
            scores.enumerated().map { hour, score in
                RelevanceCurve.Point(date: Self.start + .seconds(day * 86_400 + hour * 3_600 + 1), score: score)
            })
    }

    private func history(_ days: [[Double]]) -> RelevanceHistory {
        var history = RelevanceHistory()
        for (number, scores) in days.enumerated() {
            history.absorb(day(number, scores), until: Self.start + .seconds((number + 1) * 86_400))
        }
        return history
    }

    private static let amounts: [Double] = [0, 12.5, 16.29, 0, 52.6, 4, 8, 0, 31]

    @Test("E: the rank does not depend on the scale", arguments: [0.001, 1, 1e9])
    func scale(_ scale: Double) {
        let one = history(Array(repeating: Self.amounts, count: 4))
        let scaled = history(Array(repeating: Self.amounts.map { $0 * scale }, count: 4))
        for amount in Self.amounts + [20, 100] {
            let none = RelevanceCurve([])
            #expect(abs(one.rank(of: amount, with: none) - scaled.rank(of: amount * scale, with: none)) < 1e-6)
        }
    }

    @Test("E: a higher score is likelier, 0 and below are not relevant, and the day's maximum is near 1")
    func ranks() {
        let ranks = RelevanceRanks(history(Array(repeating: Self.amounts, count: 4)), with: RelevanceCurve([]))
        let ascending = [4, 8, 12.5, 16.29, 31, 52.6].map(ranks.rank(of:))
        #expect(ascending == ascending.sorted() && Set(ascending).count == 6)
        #expect(ranks.rank(of: 0) == 0 && ranks.rank(of: -3) == 0)
        #expect(ranks.rank(of: 52.6) > 0.9)
        // Entries without a purchase say nothing about the scale.
        #expect(ranks.rank(of: 4) < 0.2)
    }

    @Test("E: a widget that comes to a timeline stored before keeps what has been relevant since")
    func comesLater() {
        var record = RelevanceRecord()
        record.replace(with: RelevanceCurve([.init(date: Self.start, score: 9)]), at: Self.start)
        record.replace(with: RelevanceCurve([]), at: Self.start - .seconds(3_600))
        #expect(record.curve.relevance(at: Self.start + .seconds(3_600))?.score == 9)
        // The timeline's own relevance comes before.
        let own = RelevanceCurve.Point(date: Self.start - .seconds(7_200), score: 3)
        record.replace(with: RelevanceCurve([own]), at: Self.start - .seconds(3_600))
        #expect(record.curve.relevance(at: Self.start + .seconds(3_600))?.score == 3)
        #expect(RelevanceRanks(record.history, with: record.curve).rank(of: 3) == 0.25)
    }

    @Test("Entries that repeat a score are no changes; a meeting that follows another one is a new relevance")
    func changes() {
        let minutes = (0..<1_440).map { RelevanceCurve.Point(date: Self.start + .seconds(60 * $0), score: 1) }
        #expect(RelevanceCurve(minutes).changes == [Self.start])
        let meetings = (0..<3).map {
            RelevanceCurve.Point(date: Self.start + .seconds(3_600 * $0), score: 1, duration: .seconds(3_600))
        }
        let curve = RelevanceCurve(meetings)
        #expect(curve.changes == Set((0...3).map { Self.start + .seconds(3_600 * $0) }))
        #expect(curve.relevance(at: Self.start + .seconds(3_700))?.since == meetings[1].date)
    }

    @Test("Without a history a positive score ranks in the middle")
    func unknown() {
        #expect(RelevanceHistory().rank(of: 5, with: RelevanceCurve([])) == 0.5)
        #expect(RelevanceHistory().rank(of: 5, with: day(0, [5])) == 0.5)
    }

    @Test("A provider that changes its scale gets meaningful ranks again within days")
    func newScale() {
        let old = Array(repeating: Self.amounts.map { $0 * 1_000 }, count: 20)
        let ranks = (1...7).map { days in
            history(old + Array(repeating: Self.amounts, count: days)).rank(of: 52.6, with: RelevanceCurve([]))
        }
        #expect(ranks[0] < 0.75 && ranks[4] > 0.8, "\(ranks)")
        #expect(ranks == ranks.sorted())
    }

    @Test("An entry that is sent again with each reload counts once")
    func again() {
        let curve = day(0, Self.amounts)
        var (once, often) = (RelevanceHistory(), RelevanceHistory())
        once.absorb(curve, until: Self.start + .seconds(86_400))
        for minute in 1...1_440 { often.absorb(curve, until: Self.start + .seconds(minute * 60)) }
        for amount in Self.amounts {
            let none = RelevanceCurve([])
            #expect(abs(once.rank(of: amount, with: none) - often.rank(of: amount, with: none)) < 0.001)
        }
    }

    @Test("A purchase that arrives with a reload counts although its entry is older than the store")
    func replaced() {
        var history = RelevanceHistory()
        let before = day(0, [0, 0, 0])
        let purchase = RelevanceCurve([.init(date: Self.start + .seconds(5_000), score: 52.6)])
        history.replace(before, with: purchase, at: Self.start + .seconds(5_010))
        #expect(history.centroids.map(\.score) == [52.6])
        #expect(history.centroids[0].weight == 1)
    }

    @Test("The stored form has at most 256 bytes and is read back unchanged; other bytes are refused")
    func bytes() throws {
        var random = SeededGenerator(seed: 7)
        let days = (0..<30).map { _ in (0..<24).map { _ in Double.random(in: -10...1_000, using: &random) } }
        let history = history(days)
        let bytes = history.encoded
        #expect(bytes.count <= 256 && bytes.count > 200)
        #expect(RelevanceHistory(encoded: bytes) == history)
        #expect(RelevanceHistory(encoded: []) == nil)
        #expect(RelevanceHistory(encoded: Array(bytes.dropLast())) == nil)
        #expect(RelevanceHistory(encoded: [9] + bytes.dropFirst()) == nil)
    }

    @Test("The summary approximates the quantiles of its scores")
    func quantiles() {
        var random = SeededGenerator(seed: 3)
        // Scores over five orders of magnitude.
        let days = (0..<12).map { _ in
            (0..<24).map { _ in
                (0..<5).reduce(1.0) { product, _ in product * Double.random(in: 1...10, using: &random) }
            }
        }
        let recent = days.suffix(6).flatMap { $0 }.sorted()
        let ranks = RelevanceRanks(history(days), with: RelevanceCurve([]))
        for part in [0.1, 0.25, 0.5, 0.75, 0.9] {
            let score = recent[Int(part * Double(recent.count))]
            #expect(abs(ranks.rank(of: score) - part) < 0.15, "\(part): \(ranks.rank(of: score))")
        }
    }
}

extension RelevanceHistory {
    func rank(of score: Double, with curve: RelevanceCurve) -> Double {
        RelevanceRanks(self, with: curve).rank(of: score)
    }
}
