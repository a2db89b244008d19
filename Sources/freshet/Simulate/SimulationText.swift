import FreshetService
import WidgetModel
import WidgetRepresentation
import WidgetSimulator

/// Text of a simulation's report for the terminal.
struct SimulationText {
    let report: SimulationReport
    /// Duration of the run in seconds of real time.
    let seconds: Double

    var text: String {
        let days = Double(report.widgets * (report.days + report.warmUpDays))
        var lines = [
            "\(NumberText.counted(report.days, "day")) from \(report.from): \(report.people) people, "
                + "\(NumberText.counted(report.widgets, "widget")), \(NumberText.counted(report.timelines, "timeline")), "
                + "\(NumberText.counted(report.events, "event")); \(Figure.digits(days / max(seconds, 0.001))) "
                + "widget-days a second"
        ]
        if report.unknownEvents > 0 {
            lines.append("\(NumberText.counted(report.unknownEvents, "event")) for unknown apps or kinds")
        }
        lines.append("")
        lines += kinds
        lines.append("")
        lines += providers
        if report.stacks.stacks > 0 { lines += ["", stacks] }
        return lines.joined(separator: "\n")
    }

    /// True if the report has kinds of several apps, which are then shown with the app's name.
    private var hasApps: Bool { Set(report.kinds.map(\.app)).count > 1 }

    private var kinds: [String] {
        let span = SimulationPage.span
        let rows = report.kinds.map { kind in
            [
                hasApps ? kind.title : kind.name, "\(kind.timelines)", Figure.digits(kind.reloadsADay),
                kind.budget.map { "\(Figure.digits(kind.budgetedADay)) of \($0.least) to \($0.greatest)" } ?? "-",
                "\(kind.busiestDay)", Self.counts(kind.deferrals), "\(span(kind.waits.p50)), \(span(kind.waits.p95))",
                "\(span(kind.ages.p50)), \(span(kind.ages.p95)), \(span(kind.ages.p99))",
                kind.views > 0 ? "\(Figure.digits(100 * Double(kind.staleViews) / Double(kind.views))) %" : "-",
                Self.counts(kind.failed),
            ]
        }
        return TextTable(
            header: [
                "KIND", "TIMELINES", "RELOADS/DAY", "BUDGETED", "BUSIEST DAY", "DEFERRED", "WAIT P50, P95",
                "AGE P50, P95, P99", "STALE VIEWS", "FAILED",
            ], rows: rows
        ).lines
    }

    private var providers: [String] {
        report.providers.flatMap { provider in
            let peak = provider.timelinesByHour.max() ?? 0
            return [
                "\(hasApps ? "\(provider.app) " : "")\(provider.url): \(NumberText.counted(provider.timelines, "timeline")) in "
                    + "\(NumberText.counted(provider.requests, "request")); at most "
                    + "\(NumberText.counted(peak, "timeline")) in the hour of \(report.time(ofHour: provider.peakHour)), "
                    + "\(NumberText.counted(provider.peakMinuteRequests, "request")) in a minute"
            ] + hours(of: provider)
        }
    }

    /// Returns a chart of the mean number of timelines in each hour of the day; empty for a run of less than a day or
    /// without timelines.
    private func hours(of provider: SimulationReport.Provider) -> [String] {
        var sums = [Int](repeating: 0, count: 24)
        for (hour, timelines) in provider.timelinesByHour.enumerated() { sums[hour % 24] += timelines }
        guard let most = sums.max(), most > 0, provider.timelinesByHour.count >= 24 else { return [] }
        return ["  mean timelines by hour of the day, UTC"]
            + sums.enumerated().map { hour, sum in
                let name = String(report.time(ofHour: hour).dropFirst(11).prefix(5))
                let mean = "\(sum / max(1, report.days))"
                return "  \(name)  " + String(repeating: " ", count: max(0, 7 - mean.count)) + mean + "  "
                    + Forecast.bar(sum, of: most, columns: 50)
            }
    }

    private var stacks: String {
        let stacks = report.stacks
        let rotations = stacks.rotations.isEmpty ? "no rotations" : "rotations by \(Self.counts(stacks.rotations))"
        let share = Figure.digits(100 * Double(stacks.found) / Double(max(1, stacks.wanted)))
        return "\(NumberText.counted(stacks.stacks, "stack")): \(rotations), "
            + "\(NumberText.counted(stacks.suggestions, "suggestion")); a wanted widget was on top in \(share) % of "
            + "\(NumberText.grouped(stacks.wanted)) cases"
    }

    private static func counts(_ counts: [String: Int]) -> String {
        counts.isEmpty
            ? "-" : counts.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", ")
    }
}
