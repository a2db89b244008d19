// SPDX-License-Identifier: Apache-2.0

import JSON
import WidgetModel
import WidgetStore

// MARK: Verdict

/// A provider of the app that fails.
struct FailingProvider: Sendable {
    let url: String
    /// Whether requests wait until the provider is tried again.
    let isOpen: Bool
    /// The latest error, in words, and its time.
    let message: String?
    let failedAt: Timestamp?
    var probeAt: Timestamp?
}

extension ConsoleVisit {
    /// Failing providers of the app: those with open breakers, and others with a latest failure.
    private func failingProviders(_ outages: [ProviderOutage]) -> [FailingProvider] {
        let open = outages.map { outage in
            FailingProvider(
                url: outage.provider, isOpen: true, message: outage.message, failedAt: outage.since,
                probeAt: outage.probeAt)
        }
        let others = state.processes.failures(of: app).filter { failure in
            !outages.contains { Text.equal($0.provider, failure.provider) }
        }
        return open
            + others.map {
                FailingProvider(url: $0.provider, isOpen: false, message: $0.message, failedAt: $0.at)
            }
    }

    /// A line of the verdict.
    private typealias Line = (style: String, text: String, link: String)

    /// Values of the template for the verdict: everything that is wrong with the app's widgets, worst first.
    private func verdict(
        _ charts: [AlertChart], _ outages: [ProviderOutage], _ kinds: [RegisteredKind], _ states: WidgetStates,
        _ oldest: (kind: String, since: Timestamp)?
    ) -> [String: Any] {
        var lines = notReady
        // While the app is paused, nothing else is the reason for what its widgets show.
        lines += appPause(kinds, states)
        lines += failingProviders(outages).map(Self.line)
        lines += Self.overdue(states, oldest)
        lines += charts.enumerated().compactMap { index, chart in
            guard chart.state == .firing, let alert = chart.alert else { return nil }
            let widgets = alert.state.map { Self.link("/widgets", [("state", $0.rawValue)]) }
            return ("bad", "The alert \(alert.name) fires: \(chart.title)", widgets ?? "#chart-\(index)")
        }
        lines += Self.pauses(of: kinds, states)
        lines += [
            (WidgetState.failing, "Failed at the last fetch: %@"), (.stale, "Stale, with a reload to come: %@"),
        ].compactMap { Self.line($0, states, $1) }
        return [
            "headline": lines.first?.text ?? Self.calm(states),
            "style": lines.first?.style ?? (states.isTruncated ? "" : "good"), "link": lines.first?.link ?? "",
            "lines": lines.dropFirst().map {
                ["style": $0.style, "text": ConsolePage.value(.string($0.text)), "link": $0.link] as [String: Any]
            },
            "isTruncated": states.isTruncated, "examined": ConsolePage.grouped("\(WidgetState.examined)"),
        ]
    }

    /// The headline when nothing is wrong, as far as was looked at.
    static func calm(_ states: WidgetStates) -> String {
        states.isTruncated
            ? "Nothing is wrong with the first \(ConsolePage.grouped("\(WidgetState.examined)")) widgets"
            : "Every widget is up to date"
    }

    private var notReady: [Line] {
        func line(slow: Bool, _ words: String) -> Line? {
            var names: [String] = []
            for (_, obstacle) in state.obstacles where obstacle.isSlow == slow && !names.contains(obstacle.name) {
                names.append(obstacle.name)
            }
            guard !names.isEmpty else { return nil }
            return (slow ? "warn" : "bad", "\(words): \(names.joined(separator: ", "))", "#banner")
        }
        return [line(slow: false, "Not ready"), line(slow: true, "Slow")].compactMap(\.self)
    }

    /// The pause of the app, with who paused it and why.
    private func appPause(_ kinds: [RegisteredKind], _ states: WidgetStates) -> [Line] {
        guard let pause = kinds.lazy.compactMap(\.appPause).first else { return [] }
        return [Self.line("The app \(app)", pause, states.count(of: .paused), kind: nil)]
    }

    private static func pauses(of kinds: [RegisteredKind], _ states: WidgetStates) -> [Line] {
        kinds.compactMap { kind in
            let name = kind.definition.name
            return kind.pause.map { line("The kind \(name)", $0, states.byKind[name]?[.paused] ?? 0, kind: name) }
        }
    }

    private static func line(_ name: String, _ pause: OperatorAction, _ count: Int, kind: String?) -> Line {
        let widgets = "\(ConsolePage.grouped("\(count)")) widget\(count == 1 ? " waits" : "s wait")"
        return (
            "warn",
            "\(name) is paused by \(pause.operatorName) since \(pause.at.wholeSeconds): \(widgets)\(pause.reasonWords)",
            link("/widgets", [("kind", kind), ("state", WidgetState.paused.rawValue)])
        )
    }

    private static func line(_ provider: FailingProvider) -> Line {
        let time = provider.failedAt.map { " at \($0.wholeSeconds)" } ?? ""
        let error = provider.message.map { ": \($0)" } ?? ""
        let next = provider.probeAt.flatMap { $0 > .now() ? ", the next one at \($0.wholeSeconds)" : nil } ?? ""
        let pause = provider.isOpen ? "; it gets no requests until a probe succeeds\(next)" : ""
        return (
            "bad", "The provider \(provider.url) failed\(time)\(error)\(pause)",
            link("/widgets", [("state", WidgetState.failing.rawValue)])
        )
    }

    /// Overdue widgets, or the oldest overdue list of a kind of which no widget is counted.
    private static func overdue(_ states: WidgetStates, _ oldest: (kind: String, since: Timestamp)?) -> [Line] {
        let now = Timestamp.now()
        let late = oldest.flatMap { now - $0.since > WidgetState.overdueAfter ? $0 : nil }
        let age = late.map { ", the oldest for \((now - $0.since).words)" } ?? ""
        if let line = line(.overdue, states, "Overdue: %@\(age)") { return [line] }
        guard let late else { return [] }
        let link = link("/widgets", [("kind", late.kind), ("state", WidgetState.overdue.rawValue)])
        return [("bad", "Overdue: timelines of \(late.kind)\(age)", link)]
    }

    /// A line on the widgets in a state; nil without any.
    ///
    /// - Parameter text: has `%@` in place of their number.
    private static func line(_ state: WidgetState, _ states: WidgetStates, _ text: String) -> Line? {
        let count = states.count(of: state)
        guard count > 0 else { return nil }
        let widgets = "\(ConsolePage.grouped("\(count)")) widget\(count == 1 ? "" : "s")"
        return (
            state.style, text.replacing("%@", with: widgets), link("/widgets", [("state", state.rawValue)])
        )
    }
}

// MARK: - Overview

extension ConsoleVisit {
    func overview() async throws -> ConsolePage {
        guard !state.isWithoutDatabase else {
            let verdict = verdict([], [], [], WidgetStates(), nil)
            return page("overview", title: "Overview", verdict.merging(["isUnread": true]) { $1 })
        }
        // At the same time: this page is read when the database is slow.
        async let readCounts = run("countDeadLetters") { try await $0.deadLetterCounts(for: $1) }.map(\.count)
        async let readStatistics = run("consoleStatistics") { try await $0.statistics(days: 1, for: $1) }
        async let readKinds = run("listKinds") { try await $0.kinds(for: $1) }.map(\.kind)
        async let readOutages = run("consoleOutages") { try await $0.outages(for: $1) }
        async let readStates = widgetStates(WidgetFilter(app: app))
        async let readOldest = run("consoleStates") { try await $0.store.query(.oldestDue(app: $1.app)).first }
        let counts = try await readCounts
        let waiting = counts.reduce(0, +)
        let isCapped = counts.contains { $0 >= Routes.countLimit }
        let statistics = try await readStatistics
        let delivery = statistics.report.delivery.kinds.map { name, totals in
            let kind = statistics.kinds.first { $0.definition.name == name }?.definition
            return Self.json(of: name, totals, objective: kind?.freshnessObjective ?? console.objective)
        }
        let (kinds, outages) = try await (readKinds, readOutages)
        let charts = charts
        let figures: [String: Any] = [
            "charts": charts.enumerated().filter { $1.hasFigures }.map {
                ["title": $1.title, "id": "chart-\($0)", "html": chart($1)] as [String: Any]
            },
            "unknown": charts.filter { !$0.hasFigures }.map(\.title).joined(separator: ", "),
            "waiting": (isCapped ? "at least " : "") + ConsolePage.words(Double(waiting)),
            "hasWaiting": waiting > 0, "kinds": "\(kinds.count)",
            "paused": "\(kinds.count { $0.isPaused })",
            "breakers": "\(outages.count)",
            "hasOpen": !outages.isEmpty,
            "delivery": JSONValue.array(delivery), "hasDelivery": !delivery.isEmpty,
            "today": JSONValue.array(
                statistics.report.kinds.map { $0.total.json.adding("kind", .string($0.name)) }),
        ]
        let verdict = verdict(charts, outages, kinds, try await readStates, try await readOldest)
        let view = figures.merging(verdict) { $1 }
        var page = page("overview", title: "Overview", view)
        page.live = "\(Console.base)/live"
        return page
    }

    /// Freshness of a kind with its objective in milliseconds, and the latencies as percentages of it.
    private static func json(of kind: String, _ totals: DeliveryTotals, objective: Duration) -> JSONValue {
        var json = DeliveryReport.json(of: kind, totals).adding("objective", .count(objective.wholeMilliseconds))
        for (name, quantile) in [("p50", 0.5), ("p99", 0.99)] where objective > .zero {
            guard let latency = DeliveryTotals.quantile(quantile, of: totals.latencies) else { continue }
            json = json.adding("\(name)Share", .string("\(ConsolePage.words(100 * (latency / objective))) %"))
        }
        return json
    }

    // MARK: Doctor

    /// The findings of the doctor, after those of the processes' readiness.
    func doctor() async throws -> ConsolePage {
        let found = try await run("consoleFindings") { _, caller in
            await console.configuration.findings(caller.app)
        }
        let unready = state.obstacles.map { process, obstacle -> JSONValue in
            [
                "check": .string(obstacle.name), "severity": obstacle.isSlow ? "warning" : "problem",
                "message": .string("\(process): \(obstacle.reason)"), "advice": .null,
            ]
        }
        let marked = (unready + found).map { finding -> JSONValue in
            let severity = finding["severity"]?.stringValue ?? ""
            let style = ["ok": "good", "warning": "warn", "problem": "bad"][severity] ?? "soft"
            return finding.adding("style", .string(style))
                .adding("word", .string(severity == "skipped" ? "not checked" : severity))
        }
        func findings(_ severity: String) -> [JSONValue] { marked.filter { $0["severity"] == .string(severity) } }
        let (problems, warnings) = (findings("problem"), findings("warning"))
        func count(_ findings: [JSONValue], _ name: String) -> String {
            "\(findings.count) \(name)\(findings.count == 1 ? "" : "s")"
        }
        let skipped = findings("skipped").count
        let summary =
            "\(count(problems, "problem")), \(count(warnings, "warning")), \(findings("ok").count) ok"
            + (skipped > 0 ? ", \(skipped) not checked" : "")
        return page(
            "doctor", title: "Doctor",
            [
                "findings": JSONValue.array(marked), "isEmpty": found.isEmpty, "summary": summary,
                "style": problems.isEmpty ? warnings.isEmpty ? "good" : "warn" : "bad",
                "urgent": JSONValue.array(Array((problems + warnings).prefix(3))),
                "alerts": console.configuration.runbook.map { runbook in
                    ConsoleAlert.allCases.map { ["name": $0.name, "link": $0.link(runbook)] }
                } ?? [],
                "hasAlerts": console.configuration.runbook != nil,
            ])
    }
}
