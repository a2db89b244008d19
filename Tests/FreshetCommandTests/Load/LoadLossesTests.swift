import Testing
import WidgetModel
import WidgetStore

@testable import freshet

struct LoadLossesTests {
    private static func overview(
        stale: Int64 = 0, unpublished: Int64 = 0, requested: Int64, deadLetters: Int64 = 0
    ) -> Overview.Row {
        Overview.Row(
            widgets: 5, timelines: 5, due: 0, leased: 0, stale: stale, stored: 5, unpublished: unpublished,
            requested: requested, sweeps: 0, deadLetters: deadLetters, deadLettersToForward: 0)
    }

    /// Of ten events, each for one timeline, and one more that is for everyone.
    private static func losses(
        counts: ReloadLatency.Counts = ReloadLatency.Counts(sent: 10, served: 10), unapplied: Int = 0,
        after: Overview.Row = overview(requested: 15)
    ) -> LoadLosses {
        LoadLosses(counts: counts, unapplied: unapplied, before: overview(requested: 5), after: after)
    }

    @Test("nothing is lost when every event is acknowledged, applied, counted and served")
    func nothing() {
        #expect(Self.losses() == LoadLosses())
        #expect(Self.losses().total == 0 && Self.losses().lines.isEmpty)
    }

    @Test("whatever is missing is counted and named")
    func missing() {
        let cases: [(LoadLosses, String)] = [
            (Self.losses(unapplied: 3), "3 events are not applied"),
            (Self.losses(after: Self.overview(requested: 12)), "3 events are counted by no timeline"),
            (Self.losses(after: Self.overview(stale: 3, requested: 15)), "3 timelines are stale"),
            (
                Self.losses(after: Self.overview(unpublished: 3, requested: 15)),
                "3 timelines are stored but not published"
            ),
            (Self.losses(after: Self.overview(requested: 15, deadLetters: 3)), "3 events became dead letters"),
            (
                Self.losses(counts: ReloadLatency.Counts(sent: 10, served: 7)),
                "3 events had no timeline stored for them"
            ),
            (
                Self.losses(
                    counts: ReloadLatency.Counts(sent: 10, failed: 3, served: 7),
                    after: Self.overview(requested: 12)),
                "3 events were not acknowledged by Kafka"
            ),
        ]
        for (losses, line) in cases {
            #expect(losses.total == 3, "\(line)")
            #expect(losses.lines == ["  - \(line)"])
        }
    }
}
