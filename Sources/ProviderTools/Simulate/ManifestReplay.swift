// SPDX-License-Identifier: Apache-2.0

import Charts
import FreshetService
import JSON
import WidgetAPI
import WidgetModel
import WidgetSimulator

extension SimulateCommand {
    /// As many days as a simulation without a replay may have.
    private static let longestSpan = Duration.seconds(366 * 86_400)

    /// Compares manifests over the events of a time span.
    func replay(_ manifest: [Manifest]) async throws {
        let from = from ?? Timestamp.now().midnight - .seconds(86_400)
        let to = to ?? from + .seconds(86_400)
        guard to > from, to - from <= Self.longestSpan else {
            throw CommandFailure(.usage, "--to \(to): expected a time up to 366 days after --from, \(from)")
        }
        let span = from..<to
        var options = SimulationOptions(from: from, end: span.upperBound)
        options.seed = seed
        options.warmUpDays = warmUp
        var events: [TimedEvent]
        let real: RealHistory?
        if let path = self.events {
            (events, real) = try await readEvents(ofFile: path, in: span)
        } else {
            let settings = try output.settings.load(requiring: ["kafka.bootstrapServers"]).settings
            events = try await readEvents(settings, in: options.begin..<span.upperBound)
            real = try await RealHistory(settings, in: span)
        }
        try requireEvents(events, in: span)
        options.publications = real?.publications ?? [:]
        options.realFetches = real?.fetches ?? [:]
        events = arrangedEvents(events, at: options.begin)
        let apps = manifest.map(\.definition)
        let plans = [("baseline", apps)] + (try changes.alternatives(of: apps))
        var reports: [(name: String, report: SimulationReport)] = []
        for (name, apps) in plans {
            let report = try await withSource(manifest, SimulationProgress(options, name: name)) { source in
                var source = source
                if var synthetic = source as? SyntheticSource, let real, refresh == nil {
                    // Intervals that were not given are those of real publications.
                    synthetic.refreshOfKinds = real.refresh
                    source = synthetic
                }
                return try await simulationReport(apps, events: events, options: options, source: source)
            }
            reports.append((name, report))
        }
        try write(reports)
        output.print(Self.json(reports, real), or: Self.text(reports, real))
        Self.warn(ofIdle: reports, apps)
    }

    /// Prints on standard error which alternatives reload nothing otherwise than the baseline, with the likely reason.
    private static func warn(ofIdle reports: [(name: String, report: SimulationReport)], _ apps: [AppDefinition]) {
        guard let baseline = reports.first?.report else { return }
        let lifted = apps.filter(\.developerMode).map(\.name)
        for (name, report) in reports.dropFirst() where report.hasSameReloads(as: baseline) {
            Terminal.complain(
                "warning: \(name) changes nothing: "
                    + (lifted.isEmpty
                        ? "no reload of these events reaches the limit"
                        : "developerMode lifts budgets and spacing of \(lifted.joined(separator: ", ")), and no other "
                            + "reload reaches the limit"))
        }
    }

    // MARK: Reports beside one another

    private static func json(
        _ reports: [(name: String, report: SimulationReport)], _ real: RealHistory?
    ) -> JSONValue {
        let kinds = reports.first?.report.kinds ?? []
        return [
            "runs": .array(reports.map { ["name": .string($0.name), "report": $0.report.json] }),
            "real": real.map { real in .array(kinds.map { real.json($0) }) } ?? .null,
        ]
    }

    private static func text(
        _ reports: [(name: String, report: SimulationReport)], _ real: RealHistory?
    ) -> String {
        guard let first = reports.first?.report else { return "" }
        var lines = [
            "\(Figure.counted(first.events, "event")) from \(first.options.from.rfc3339), \(Figure.counted(first.widgets, "widget"))",
            "",
        ]
        for (index, kind) in first.kinds.enumerated() {
            let kinds = reports.map { $0.report.kinds[index] }
            guard kinds.contains(where: { $0.timelines > 0 || $0.fetches.contains { $0 > 0 } }) else { continue }
            lines.append(kind.title)
            lines += table(kinds, of: kind, real, names: reports.map(\.name))
            lines.append("")
        }
        lines.append("providers")
        let rows = first.providers.indices.flatMap { index -> [[String]] in
            let loads = reports.map { $0.report.providers[index] }
            guard loads.contains(where: { $0.requests > 0 }) else { return [] }
            let name = "\(first.providers[index].app) \(first.providers[index].url)"
            return [
                ["\(name) requests"] + loads.map { "\($0.requests)" },
                ["\(name) timelines"] + loads.map { "\($0.timelines)" },
                ["\(name) most requests in a minute"] + loads.map { "\($0.peakMinuteRequests)" },
            ]
        }
        lines += TextTable(header: [""] + reports.map(\.name), rows: rows).lines
        if let gaps = real?.gaps, !gaps.isEmpty { lines += [""] + gaps.map { "unknown: \($0)" } }
        return lines.joined(separator: "\n")
    }

    private static func table(
        _ kinds: [KindTally], of kind: KindTally, _ real: RealHistory?, names: [String]
    ) -> [String] {
        func row(_ title: String, _ really: String? = nil, _ cell: (KindTally) -> String) -> [String] {
            [title] + kinds.map(cell) + (real == nil ? [] : [really ?? "unknown"])
        }
        func sum(_ counts: [Int]) -> String { "\(counts.reduce(0, +))" }
        func spans(_ seconds: Int?...) -> String { seconds.map(AgeHistogram.span).joined(separator: ", ") }
        let rows = [
            row("timelines") { "\($0.timelines)" },
            row("fetches", real?.count(.reloaded, .unchanged, of: kind)?.description) { sum($0.fetches) },
            row("publications", real?.publications(of: kind)?.description) { "\($0.reloaded)" },
            row("failed", real?.count(.failed, of: kind)?.description) { sum($0.failures) },
            row("budgeted a day") { Figure.digits($0.budgetedADay) },
            row("deferred", real?.count(.deferred, of: kind)?.description) { sum($0.deferrals) },
            row("wait p50, p95") { spans($0.waits.p50, $0.waits.p95) },
            row("age seen p50, p95, p99", real?.ages(of: kind).map { spans($0.p50, $0.p95, $0.p99) }) {
                spans($0.ages.p50, $0.ages.p95, $0.ages.p99)
            },
            row("stale for p50, p95, p99") { spans($0.staleness.p50, $0.staleness.p95, $0.staleness.p99) },
            row("published p50, p95 before", real?.publicationAges(of: kind).map { spans($0.p50, $0.p95) }) {
                spans($0.publicationAges.p50, $0.publicationAges.p95)
            },
        ]
        let header = [""] + names + (real == nil ? [] : ["really"])
        return TextTable(header: header, rows: rows).lines
    }
}

extension Timestamp {
    /// The latest midnight in UTC.
    var midnight: Timestamp { Timestamp(microseconds: microseconds - microseconds % 86_400_000_000) }
}

extension SimulationReport {
    /// Whether each kind was reloaded as often, and as late, as in another run over the same events.
    fileprivate func hasSameReloads(as other: SimulationReport) -> Bool {
        kinds.count == other.kinds.count
            && zip(kinds, other.kinds).allSatisfy { one, other in
                one.timelines == other.timelines && one.fetches == other.fetches && one.reloaded == other.reloaded
                    && one.failures == other.failures && one.deferrals == other.deferrals
                    && one.waits.p95 == other.waits.p95 && one.ages.p95 == other.ages.p95
            }
    }

    /// Text for the terminal.
    ///
    /// - Parameter seconds: duration of the run in real time.
    func text(seconds: Double) -> String {
        let widgetDays = Double(widgets * (options.days + options.warmUpDays))
        var lines = [
            "\(Figure.counted(options.days, "day")) from \(options.from.rfc3339): \(options.people) people, "
                + "\(Figure.counted(widgets, "widget")), \(Figure.counted(timelines, "timeline")), "
                + "\(Figure.counted(events, "event")); \(Figure.digits(widgetDays / max(seconds, 0.001))) "
                + "widget-days a second"
        ]
        if unknownEvents > 0 {
            lines.append("\(Figure.counted(unknownEvents, "event")) for unknown apps or kinds")
        }
        lines.append("")
        lines += kindLines
        lines.append("")
        lines += providerLines
        if stacks > 0 { lines += ["", stackLine] }
        return lines.joined(separator: "\n")
    }

    /// True if the report has kinds of several apps, which are then shown with the app's name.
    private var hasApps: Bool { Set(kinds.map(\.app)).count > 1 }

    private var kindLines: [String] {
        let span = AgeHistogram.span
        let rows = kinds.map { kind in
            [
                hasApps ? kind.title : kind.name, "\(kind.timelines)", Figure.digits(kind.reloadsADay),
                kind.budget.map {
                    "\(Figure.digits(kind.budgetedADay)) of \($0.range.lowerBound) to \($0.range.upperBound)"
                } ?? "-",
                "\(kind.busiestDay)", Self.counts(KindTally.named(kind.deferrals)),
                "\(span(kind.waits.p50)), \(span(kind.waits.p95))",
                "\(span(kind.ages.p50)), \(span(kind.ages.p95)), \(span(kind.ages.p99))",
                kind.views > 0 ? "\(Figure.digits(100 * Double(kind.staleViews) / Double(kind.views))) %" : "-",
                Self.counts(KindTally.named(kind.failures)),
            ]
        }
        return TextTable(
            header: [
                "KIND", "TIMELINES", "RELOADS/DAY", "BUDGETED", "BUSIEST DAY", "DEFERRED", "WAIT P50, P95",
                "AGE P50, P95, P99", "STALE VIEWS", "FAILED",
            ], rows: rows
        ).lines
    }

    private var providerLines: [String] {
        providers.flatMap { provider in
            let peak = provider.timelinesByHour.max() ?? 0
            return [
                "\(hasApps ? "\(provider.app) " : "")\(provider.url): \(Figure.counted(provider.timelines, "timeline")) in "
                    + "\(Figure.counted(provider.requests, "request")); at most "
                    + "\(Figure.counted(peak, "timeline")) in the hour of \(time(ofHour: provider.peakHour)), "
                    + "\(Figure.counted(provider.peakMinuteRequests, "request")) in a minute"
            ] + hours(of: provider)
        }
    }

    /// Returns a chart of the mean number of timelines in each hour of the day; empty for a run of less than a day or
    /// without timelines.
    private func hours(of provider: ProviderTally) -> [String] {
        var sums = [Int](repeating: 0, count: 24)
        for (hour, timelines) in provider.timelinesByHour.enumerated() { sums[hour % 24] += timelines }
        guard let most = sums.max(), most > 0, provider.timelinesByHour.count >= 24 else { return [] }
        return ["  mean timelines by hour of the day, UTC"]
            + sums.enumerated().map { hour, sum in
                let name = String(time(ofHour: hour).dropFirst(11).prefix(5))
                let mean = "\(sum / max(1, options.days))"
                return "  \(name)  " + String(repeating: " ", count: max(0, 7 - mean.count)) + mean + "  "
                    + Chart.bar(sum, of: most, columns: 50)
            }
    }

    private var stackLine: String {
        let turns = rotations.isEmpty ? "no rotations" : "rotations by \(Self.counts(rotations))"
        let share = Figure.digits(100 * Double(found) / Double(max(1, wanted)))
        return "\(Figure.counted(stacks, "stack")): \(turns), "
            + "\(Figure.counted(suggestions, "suggestion")); a wanted widget was on top in \(share) % of "
            + "\(Figure.grouped(wanted)) cases"
    }

    private static func counts(_ counts: [String: Int]) -> String {
        counts.isEmpty
            ? "-" : counts.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", ")
    }
}
