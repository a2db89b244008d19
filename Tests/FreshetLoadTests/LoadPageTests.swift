// SPDX-License-Identifier: Apache-2.0

import Charts
import Foundation
import JSON
import TestSupport
import Testing
import WidgetModel

@testable import FreshetService
@testable import freshet_load

#if canImport(FoundationXML)
import FoundationXML
#endif

@Suite(.timeLimit(.patience))
struct LoadPageTests {
    static let charts = LoadCharts(
        samples: (1...900).map { second in
            let time = Double(second)
            return LoadSample(
                seconds: time,
                [
                    .eventsPerSecond: 1_000 + 50 * sin(time / 20), .timelinesPerSecond: 990 + 60 * cos(time / 15),
                    .p50: 2 + sin(time / 30), .p99: 8 + 3 * sin(time / 9), .max: second == 450 ? 350 : 14,
                    .stateTableBytes: 4e7 + time * 2e4, .stateIndexBytes: 3e7 + time * 1e4,
                    .deadTuples: 1e4 * (1 + sin(time / 40)), .liveTuples: 2e5, .walBytesPerSecond: 2.5e6,
                    .residentBytes: 9e7 + time * 1e3,
                ])
        },
        spans: [Chart.Span(label: "a transaction held open", from: 300, to: 600)])

    private static var page: String {
        var result = LoadResult(scenario: "latency <&>")
        (result.events, result.distinctTimelines, result.wallSeconds) = (900_000, 200_000, 900.5)
        (result.timelines, result.verified) = (898_789, 190_123)
        (result.providerRequests, result.providerTimelines) = (12_345, 890_000)
        (result.walBytes, result.peakResidentBytes) = (1_234_567_890, 98_765_432)
        (result.serviceCPUSeconds, result.databaseCPUSeconds) = (75.25, 120.5)
        result.latency = LatencySummary(samples: 9, p50: 2.1, p90: 5.2, p99: 9.8, p999: 150, max: 209)
        result.charts = charts
        return result.page(
            command: "freshet-load latency --rate 1000 '<script>'", time: Timestamp(microseconds: 1_767_225_600_000_000)
        )
    }

    @Test("The page is well-formed and self-contained, and states its subject")
    func page() throws {
        let text = Self.page
        let parser = XMLParser(data: Data(text.utf8))
        #expect(parser.parse(), "\(String(describing: parser.parserError)) in line \(parser.lineNumber)")
        for forbidden in ["http:", "https:", "url(", "@import", "src=", "<link", "href=", "<script"] {
            #expect(!text.contains(forbidden), "\(forbidden)")
        }
        #expect(text.contains("name=\"viewport\"") && text.contains("prefers-color-scheme: dark"))
        for shown in [
            "998", "9.8 ms", "1.23 GB", "98.8 MB", "190k", "&#39;&lt;script&gt;&#39;", "latency &lt;&amp;&gt;",
            "Throughput, a second", "Latency, ms", "timeline on disk",
            "a transaction held open", "Nothing lost, nothing stale.",
        ] {
            #expect(text.contains(shown), "\(shown)")
        }
        // Nine hundred samples are drawn as a few hundred points.
        #expect(text.utf8.count < 200_000)
        // For inspection.
        if let folder = ProcessInfo.processInfo.environment["FRESHET_TEST_PAGES"] {
            try LoadResult.write(text, to: "\(folder)/load.html")
        }
    }

    @Test("Losses come first, and unknown values are left out")
    func missing() {
        var result = LoadResult(scenario: "ingest")
        (result.events, result.lost, result.stale) = (10, 3, 1)
        let page = result.page(command: "", time: Timestamp(microseconds: 0))
        #expect(page.contains("Lost 3, stale 1.") && !page.contains("<svg") && !page.contains("provider requests"))
        #expect(XMLParser(data: Data(page.utf8)).parse())
        result.charts.samples = [LoadSample(seconds: 0, [.p99: 0, .eventsPerSecond: 0])]
        let drawn = result.page(command: "", time: Timestamp(microseconds: 0))
        #expect(XMLParser(data: Data(drawn.utf8)).parse() && !drawn.lowercased().contains("nan"))
    }

    @Test("A file is written completely or not at all")
    func written() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("freshet-page-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let file = folder.appendingPathComponent("report.html").path
        try "before".write(toFile: file, atomically: false, encoding: .utf8)
        try LoadResult.write(Self.page, to: file)
        #expect(try String(contentsOfFile: file, encoding: .utf8) == Self.page)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["report.html"])
        #expect(throws: CommandFailure.self) {
            try LoadResult.write(Self.page, to: "\(folder.path)/missing/report.html")
        }
    }

    @Test("Thinning keeps the worst latency and the mean of the other samples")
    func thinned() throws {
        let thinned = Self.charts.thinned(to: 100)
        #expect(thinned.count == 100)
        #expect(thinned.compactMap { $0.values[.max] }.max() == 350)
        #expect(thinned.allSatisfy { $0.values[.liveTuples] == 2e5 })
        #expect(thinned.last?.seconds == 900)
        #expect(Self.charts.thinned(to: 900) == Self.charts.samples)
    }

    @Test("Secrets in the command line are not shown")
    func command() {
        let arguments = [
            "/usr/bin/freshet-load", "latency", "--set", "postgres.url=postgresql://u:secret3@h/x",
            "--set=postgres.url=postgresql://u:secret4@h/x", "--set", "kafka.properties=sasl.password=secret5",
            "--rate", "1000", "--report", "a b.html",
        ]
        let text = ScenarioOptions.shownCommand(arguments)
        #expect(!text.contains("secret"))
        let settings = "--set postgres.url=… --set postgres.url=… --set kafka.properties=…"
        #expect(text == "freshet-load latency \(settings) --rate 1000 --report 'a b.html'")
    }
}

@Suite(.timeLimit(.patience))
struct LoadFigureTests {
    @Test("Axes have round numbers and include all values")
    func scales() {
        let linear = ChartScale.linear(upTo: 1_043)
        #expect(linear.ticks == [0, 500, 1_000, 1_500] && linear.place(750) == 0.5)
        let logarithmic = ChartScale.logarithmic(from: 0.4, upTo: 350)
        #expect(logarithmic.low == 0.1 && abs(logarithmic.high - 1_000) < 1e-6 && logarithmic.ticks.count == 5)
        #expect(abs(logarithmic.place(10) - 0.5) < 1e-9)
        #expect(ChartScale.linear(upTo: 0).ticks.count >= 2)
    }

    @Test("A legend has the names of lines and the limit, escaped, beside their keys")
    func legend() {
        let line = Chart.Series("<p50>", .line, points: [(0, 1), (1, nil), (2, 3)])
        var chart = Chart(label: "a", range: 0..<2, scale: .linear(upTo: 3), series: [line])
        chart.limit = 2
        let legend = chart.legend(limit: "allowed: 2 s") { _ in "3 s" }.text
        #expect(legend.components(separatedBy: "<li><svg class=\"key\"").count == 3 && !legend.contains("HTML("))
        #expect(legend.contains("&lt;p50&gt;: <strong>3 s</strong>") && legend.contains("allowed: 2 s</li>"))
        #expect(chart.svg.text.contains("class=\"limit\""))
    }

    @Test("A progress line fits the terminal and shows the remaining time")
    func progress() {
        let latency = LatencySummary(samples: 9, p50: 2.1, p99: 9.75)
        func line(width: Int) -> String {
            Terminal.line(
                "1k events/s", share: 0.43, rate: 1_000, secondsLeft: 17.2, latency: latency, width: width)
        }
        #expect(line(width: 100) == "1k events/s  43 %  1k/s  ETA 17 s  p50 2.1 ms  p99 9.75 ms")
        for width in 1...120 { #expect(line(width: width).count < max(width, 2)) }
        let open = Terminal.line("checking", share: nil, rate: 12_345, secondsLeft: nil, latency: nil, width: 80)
        #expect(open == "checking  12.3k/s")
    }
}
