// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing
import WidgetModel

/// DESIGN.md, E, row by row.
@Suite("Relevance as a step function of time")
struct RelevanceCurveTests {
    /// The day of the bank's purchases: none at 8:04, $0 at 8:15, groceries at 9:41, the soup place at 18:52, then the
    /// cinema.
    private static let day: [(clock: String, amount: Double?)] = [
        ("08:04", nil), ("08:15", 0), ("09:41", 52.6), ("18:52", 16.29), ("20:40", 14),
    ]

    private func time(_ clock: String) -> Timestamp { Timestamp(rfc3339: "2026-06-22T\(clock):00Z") ?? .distantPast }

    /// Returns the day's curve in a scheme; an entry without a purchase has the score 0.
    private func curve(_ duration: Int, _ score: (Double) -> Double) -> RelevanceCurve {
        RelevanceCurve(
            Self.day.map {
                RelevanceCurve.Point(
                    date: time($0.clock), score: $0.amount.map(score) ?? 0, duration: .seconds(duration))
            })
    }

    private func expect(_ curve: RelevanceCurve, _ scores: [(String, Double?)], _ location: SourceLocation) {
        for (clock, score) in scores {
            #expect(curve.score(at: time(clock)) == score, "at \(clock)", sourceLocation: location)
        }
    }

    @Test("E: scheme 1, over $50 → 1, else 0.1: for as long as the entry, or for 1800 s", arguments: [0, 1_800])
    func firstScheme(_ duration: Int) {
        expect(
            curve(duration) { $0 > 50 ? 1 : 0.1 },
            [
                ("08:03", nil), ("08:04", 0), ("08:14", 0), ("08:15", 0.1), ("09:41", 1), ("10:10", 1), ("18:52", 0.1),
                ("20:40", 0.1),
            ],
            #_sourceLocation)
        let between: Double = duration == 0 ? 1 : 0
        expect(
            curve(duration) { $0 > 50 ? 1 : 0.1 },
            [
                ("09:40", duration == 0 ? 0.1 : 0), ("10:11", between), ("18:51", between),
                ("23:59", duration == 0 ? 0.1 : 0),
            ], #_sourceLocation)
    }

    @Test(
        "E: scheme 2, the amount as score: 8:15 → 0, 9:41 $52.60 → 52.6; with and without 1800 s",
        arguments: [0, 1_800])
    func secondScheme(_ duration: Int) {
        let isOpen = duration == 0
        expect(
            curve(duration) { $0 },
            [
                ("08:04", 0), ("08:15", 0), ("09:40", 0), ("09:41", 52.6), ("10:10", 52.6),
                ("10:11", isOpen ? 52.6 : 0),
                ("18:51", isOpen ? 52.6 : 0), ("18:52", 16.29), ("19:21", 16.29), ("19:22", isOpen ? 16.29 : 0),
                ("20:40", 14), ("21:10", isOpen ? 14 : 0),
            ], #_sourceLocation)
    }

    @Test("E: scheme 2: the shopping spree is the day's maximum, and ranks above all other purchases")
    func spree() {
        let points = (Self.day + [("14:20", 231.75)]).sorted { $0.clock < $1.clock }.map {
            RelevanceCurve.Point(date: time($0.clock), score: $0.amount ?? 0, duration: .seconds(1_800))
        }
        let curve = RelevanceCurve(points)
        #expect(curve.steps.max { $0.score < $1.score }?.from == time("14:20"))
        let ranks = RelevanceRanks(RelevanceHistory(), with: curve)
        #expect(Self.day.allSatisfy { ranks.rank(of: $0.amount ?? 0) < ranks.rank(of: 231.75) })
    }

    @Test("E: scheme 3: none → 0, over $50 → 50, else 1: 50 from 9:41 until 18:52; with 1800 s it is 0 from 10:11")
    func thirdScheme() {
        func score(_ amount: Double) -> Double { amount == 0 ? 0 : amount > 50 ? 50 : 1 }
        expect(
            curve(0, score),
            [("08:04", 0), ("08:15", 0), ("09:41", 50), ("10:11", 50), ("18:51", 50), ("18:52", 1), ("23:59", 1)],
            #_sourceLocation)
        expect(
            curve(1_800, score),
            [
                ("09:41", 50), ("10:10", 50), ("10:11", 0), ("18:51", 0), ("18:52", 1), ("19:22", 0), ("20:40", 1),
                ("21:10", 0),
            ], #_sourceLocation)
    }

    @Test("E: duration 0 lasts until the next entry that carries relevance; d until date + d, which is excluded")
    func durations() {
        let points = [("09:00", 3.0, 0), ("10:00", 5, 600)].map {
            RelevanceCurve.Point(date: time($0), score: $1, duration: .seconds($2))
        }
        let curve = RelevanceCurve(points)
        expect(curve, [("09:59", 3), ("10:00", 5)], #_sourceLocation)
        #expect(curve.score(at: time("10:10") - .microseconds(1)) == 5)
        #expect(curve.score(at: time("10:10")) == 0)
    }

    @Test("E: an entry without relevance changes nothing: a game's updates keep the score of its start")
    func missing() throws {
        let entries = """
            {"content":1,"date":"2026-06-22T19:00:00Z","relevance":{"duration":7200,"score":1}},\
            {"content":2,"date":"2026-06-22T19:30:00Z"},\
            {"content":3,"date":"2026-06-22T20:00:00Z","relevance":null}
            """
        let game = try RelevanceCurve(timeline: Array(#"{"entries":[\#(entries)],"policy":"never"}"#.utf8))
        expect(game, [("18:59", nil), ("19:00", 1), ("20:30", 1), ("20:59", 1), ("21:00", 0)], #_sourceLocation)
        #expect(game.steps.map(\.from) == [time("19:00"), time("21:00")])
    }

    @Test("E: the next entry with relevance ends the previous one; of equal dates the last one counts")
    func ends() {
        let points = [("09:00", 5.0, 36_000), ("10:00", 3, 0), ("10:00", 4, 600), ("11:00", -1, 0)].map {
            RelevanceCurve.Point(date: time($0), score: $1, duration: .seconds($2))
        }
        let curve = RelevanceCurve(points)
        expect(
            curve, [("09:59", 5), ("10:00", 4), ("10:09", 4), ("10:10", 0), ("10:59", 0), ("11:00", -1)],
            #_sourceLocation)
        #expect(curve.steps.map(\.score) == [5, 4, 0, -1])
    }

    @Test("The steps of a range begin with the score at its start")
    func range() {
        let curve = curve(0) { $0 }
        let steps = curve.steps(in: time("09:00")..<time("18:52"))
        #expect(steps.map(\.from) == [time("09:00"), time("09:41")])
        #expect(steps.map(\.score) == [0, 52.6])
        #expect(curve.steps(in: time("06:00")..<time("07:00")).isEmpty)
        #expect(RelevanceCurve([]).steps(in: time("06:00")..<time("23:00")).isEmpty)
    }

    @Test("A timeline without relevance has no steps; a duration may exceed the timeline")
    func extremes() throws {
        let none = try RelevanceCurve(
            timeline: Array(#"{"entries":[{"content":1,"date":"2026-06-22T19:00:00Z"}]}"#.utf8))
        #expect(none.steps.isEmpty && none.score(at: time("20:00")) == nil)
        let entry = #"{"content":1,"date":"2026-06-22T19:00:00Z","relevance":{"duration":1e300,"score":1e308}}"#
        let long = try RelevanceCurve(timeline: Array(#"{"entries":[\#(entry)]}"#.utf8))
        #expect(long.score(at: time("23:00")) == 1e308)
    }
}
