// SPDX-License-Identifier: Apache-2.0

import Charts
import JSON
import TestSupport
import Testing
import WidgetModel

@testable import FreshetService
@testable import freshet_load

/// Common parts of all reports: their JSON, and a soak's evaluation of its samples.
@Suite(.timeLimit(.patience))
struct LoadReportTests {
    private static func result() -> LoadResult {
        var result = LoadResult(scenario: "latency")
        result.events = 10
        result.wallSeconds = 2
        result.timelines = 9
        result.latency = LatencySummary(samples: 9, p50: 1.5, p90: 2, p99: 3, p999: 4, max: 4.25)
        return result
    }

    @Test("Full and empty reports satisfy the schema")
    func schema() throws {
        let schema = try SchemaCheck.schema("load-report.json")
        #expect(schema["$schema"] == "https://json-schema.org/draft/2020-12/schema")
        #expect(SchemaCheck.problems(of: LoadResult(scenario: "ingest").json, by: schema) == [])
        var full = Self.result()
        full.charts = LoadPageTests.charts
        full.extras = [("losses", [LoadLoss: Int]().json), ("service", "here")]
        #expect(SchemaCheck.problems(of: full.json, by: schema) == [])
        #expect(full.json["samples"]?.arrayValue?.count == 900 && full.json["spans"]?.arrayValue?.count == 1)
        for example in try #require(schema["examples"]?.arrayValue) {
            #expect(SchemaCheck.problems(of: example, by: schema) == [])
        }
    }

    @Test("The schema refuses reports with missing or invalid members")
    func refused() throws {
        let schema = try SchemaCheck.schema("load-report.json")
        let report = try #require(Self.result().json.objectValue)
        for key in try #require(schema["required"]?.arrayValue).compactMap(\.stringValue) {
            var broken = report
            broken[key] = nil
            #expect(SchemaCheck.problems(of: .object(broken), by: schema) == ["/\(key) is missing"])
            broken[key] = .array([])
            #expect(SchemaCheck.problems(of: .object(broken), by: schema) != [], "\(key)")
        }
        var broken = report
        broken["latencyMilliseconds"] = ["p50": 1]
        #expect(SchemaCheck.problems(of: .object(broken), by: schema) != [])
        broken = report
        broken["samples"] = [["seconds": 1, "unheardOf": 2]]
        #expect(SchemaCheck.problems(of: .object(broken), by: schema) != [])
    }

    @Test("A soak compares its first and last parts, and the time with a transaction held open")
    func trends() throws {
        let samples = (1...900).map { second -> LoadSample in
            let isHeld = (301..<600).contains(second)
            return LoadSample(
                seconds: Double(second),
                [
                    .timelinesPerSecond: isHeld ? 800 : 1_000, .residentBytes: second > 600 ? 102 : 100,
                    .deadTuples: isHeld || second < 650 && second >= 600 ? 9_000 : 1_000,
                    // The size that returns last determines the result.
                    .stateTableBytes: (301..<700).contains(second) ? 2e9 : 8e7,
                    .stateIndexBytes: (301..<750).contains(second) ? 2e8 : 3e7,
                ])
        }
        let charts = LoadCharts(samples: samples, spans: [Chart.Span(label: "held", from: 300, to: 599.5)])
        let members = Dictionary(uniqueKeysWithValues: charts.trends.map { ($0.key, $0.value) })
        #expect(members["whileHeld"]?["ratio"]?.numberValue?.double == 0.8)
        #expect(members["whileHeld"]?["secondsUntilDeadTuplesAreBack"]?.numberValue?.double == 50.5)
        #expect(members["whileHeld"]?["secondsUntilSizesAreBack"]?.numberValue?.double == 150.5)
        #expect(members["trends"]?["partSeconds"] == 300)
        #expect(members["trends"]?["residentBytes"]?["ratio"].map { $0.numberValue?.double ?? 0 > 1.018 } == true)
        #expect(members["trends"]?["p99"]?["ratio"] == .null)
        #expect(members["largest"]?["deadTuples"] == 9_000)
        #expect(LoadCharts().trends.isEmpty)
    }

    @Test("A drain's chart shows the progress between samples")
    func drain() {
        let start = ContinuousClock.now
        var recorder = DrainRecorder(goal: 1_000)
        recorder.record(applied: 0, fetched: 100, at: start)
        #expect(recorder.samples.isEmpty)
        recorder.record(applied: 500, fetched: 300, at: start + .milliseconds(500))
        recorder.record(applied: 1_000, fetched: 400, at: start + .seconds(1))
        #expect(recorder.samples.map { $0.values[.eventsPerSecond] } == [1_000, 1_000])
        #expect(recorder.samples.map { $0.values[.timelinesPerSecond] } == [400, 200])
    }

    @Test("Durations on the command line are parsed")
    func durations() {
        #expect(LoadDuration(argument: "30")?.length == .seconds(30))
        #expect(LoadDuration(argument: "30m")?.length == .seconds(1_800))
        #expect(LoadDuration(argument: "2h")?.length == .seconds(7_200))
        for text in ["", "-1", "1.5", "5x"] { #expect(LoadDuration(argument: text) == nil, "\(text)") }
    }
}
