import TestSupport
import Testing
import WidgetModel

/// `widget-rules.md` E, row by row.
@Suite("Relevance as a step function of time")
struct RelevanceCurveTests {
    /// The day of the bank's purchases: nothing at 8:15, then groceries, the soup place, the cinema.
    private static let day = [("08:15", 0.0), ("09:41", 52.6), ("12:30", 16.29), ("18:52", 14.0)]

    private func time(_ clock: String) -> Timestamp { Timestamp(rfc3339: "2026-06-22T\(clock):00Z") ?? .distantPast }

    private func curve(_ duration: Int, _ score: (Double) -> Double) -> RelevanceCurve {
        RelevanceCurve(
            Self.day.map {
                RelevanceCurve.Point(date: time($0.0), score: score($0.1), duration: .seconds(duration))
            })
    }

    private func expect(_ curve: RelevanceCurve, _ scores: [(String, Double?)], _ location: SourceLocation) {
        for (clock, score) in scores {
            #expect(curve.score(at: time(clock)) == score, "at \(clock)", sourceLocation: location)
        }
    }

    @Test("E: scheme 1, over $50 → 1, else 0.1, for as long as the entry")
    func firstScheme() {
        expect(
            curve(0) { $0 > 50 ? 1 : 0.1 },
            [("08:14", nil), ("08:15", 0.1), ("09:41", 1), ("12:29", 1), ("12:30", 0.1), ("23:59", 0.1)],
            #_sourceLocation)
    }

    @Test("E: scheme 2, the amount as score: 8:15 → 0, 9:41 → 52.6, 1800 s each")
    func secondScheme() {
        expect(
            curve(1_800) { $0 },
            [
                ("08:15", 0), ("09:40", 0), ("09:41", 52.6), ("10:10", 52.6), ("10:11", 0), ("12:30", 16.29),
                ("13:00", 0),
            ],
            #_sourceLocation)
    }

    @Test("E: scheme 3 rises to 50 at 9:41 and stays with a duration of 0; with 1800 s it is 0 from 10:11")
    func thirdScheme() {
        func score(_ amount: Double) -> Double { amount == 0 ? 0 : amount > 50 ? 50 : 1 }
        expect(
            curve(0, score), [("08:15", 0), ("09:41", 50), ("10:11", 50), ("12:29", 50), ("12:30", 1), ("18:52", 1)],
            #_sourceLocation)
        expect(
            curve(1_800, score),
            [("09:41", 50), ("10:10", 50), ("10:11", 0), ("12:30", 1), ("13:00", 0), ("18:52", 1), ("19:22", 0)],
            #_sourceLocation)
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
        #expect(game.nextChange(after: time("19:10")) == time("21:00"))
        #expect(game.nextChange(after: time("21:00")) == nil)
    }

    @Test("E: the next entry with relevance ends the one before; of equal dates the last one counts")
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

    @Test("The steps of a range begin with the score that holds at its start")
    func range() {
        let curve = curve(0) { $0 }
        let steps = curve.steps(in: time("09:00")..<time("12:30"))
        #expect(steps.map(\.from) == [time("09:00"), time("09:41")])
        #expect(steps.map(\.score) == [0, 52.6])
        #expect(curve.steps(in: time("06:00")..<time("07:00")).isEmpty)
        #expect(RelevanceCurve([]).steps(in: time("06:00")..<time("23:00")).isEmpty)
    }

    @Test("A timeline without relevance has no steps; a duration longer than any timeline is no error")
    func extremes() throws {
        let none = try RelevanceCurve(
            timeline: Array(#"{"entries":[{"content":1,"date":"2026-06-22T19:00:00Z"}]}"#.utf8))
        #expect(none.steps.isEmpty && none.score(at: time("20:00")) == nil)
        let entry = #"{"content":1,"date":"2026-06-22T19:00:00Z","relevance":{"duration":1e300,"score":1e308}}"#
        let long = try RelevanceCurve(timeline: Array(#"{"entries":[\#(entry)]}"#.utf8))
        #expect(long.score(at: time("23:00")) == 1e308)
    }
}
