// SPDX-License-Identifier: Apache-2.0

import FreshetService
import JSON
import WidgetModel
import WidgetStore

/// Result of a load scenario: the members that all scenarios have (`schemas/`), and its own.
struct LoadResult: Sendable, Equatable {
    var scenario: String
    /// Number of published events.
    var events = 0
    /// Number of timelines that the events were for.
    var distinctTimelines = 0
    /// Time from the first readable event to the last stored timeline.
    var wallSeconds = 0.0
    var eventsPerSecond: Double { wallSeconds > 0 ? Double(events) / wallSeconds : 0 }
    /// Number of stored and published timelines; nil if the scenario renders none.
    var timelines: Int?
    var timelinesPerSecond: Double? { timelines.map { wallSeconds > 0 ? Double($0) / wallSeconds : 0 } }
    /// Counts of the provider itself; nil if it has none.
    var providerRequests: Int?
    var providerTimelines: Int?
    var walBytes: Int?
    var serviceCPUSeconds: Double?
    var databaseCPUSeconds: Double?
    /// Peak memory of the service.
    var peakResidentBytes: Int?
    /// Nil if none was measured.
    var latency: LatencySummary?
    /// Number of requested reloads that were not done; the command fails unless it is 0.
    var lost = 0
    /// Number of timelines that are behind a generation at the end.
    var stale = 0
    /// Number of timelines whose last message on the output topic equals the stored content; if the scenario publishes
    /// nothing, number of timelines with the expected state.
    var verified = 0
    /// Samples for the charts of a page; without samples, the JSON has no such members.
    var charts = LoadCharts()
    /// Further members of the scenario.
    var extras: [(key: String, value: JSONValue)] = []

    static func == (left: LoadResult, right: LoadResult) -> Bool { left.json == right.json }

    var json: JSONValue {
        var members: [(String, JSONValue)] = [
            ("scenario", .string(scenario)), ("events", .integer(events)),
            ("distinctTimelines", .integer(distinctTimelines)), ("wallSeconds", .rounded(wallSeconds)),
            ("eventsPerSecond", .rounded(eventsPerSecond)), ("timelinesPerSecond", .rounded(timelinesPerSecond)),
            ("providerRequests", .integer(providerRequests)), ("providerTimelines", .integer(providerTimelines)),
            ("walBytes", .integer(walBytes)), ("serviceCPUSeconds", .rounded(serviceCPUSeconds)),
            ("databaseCPUSeconds", .rounded(databaseCPUSeconds)), ("peakResidentBytes", .integer(peakResidentBytes)),
            ("latencyMilliseconds", latency?.percentiles ?? .null), ("lost", .integer(lost)),
            ("stale", .integer(stale)),
            ("verified", .integer(verified)),
        ]
        members += extras.map { ($0.key, $0.value) } + charts.members.map { ($0.key, $0.value) }
        return .object(JSONObject(members.map { (key: $0.0, value: $0.1) }))
    }

    func printed(asJSON: Bool) {
        if asJSON { Terminal.print(json) } else { for line in lines { Terminal.print(line) } }
    }

    /// For people: a line for each member that is known, the scenario's own last.
    var lines: [String] {
        func line(_ name: String, _ text: String?) -> String? {
            text.map { name.padded(to: 24) + $0 }
        }
        let cpu = [("service", serviceCPUSeconds), ("PostgreSQL", databaseCPUSeconds)]
            .compactMap { part in part.1.map { "\(Figure.digits($0)) s \(part.0)" } }
        var lines = [
            line("events", "\(events) for \(distinctTimelines) timelines, lost \(lost), stale \(stale)"),
            line("verified", verified > 0 || timelines != nil ? "\(verified) timelines" : nil),
            line("wall time", "\(Figure.digits(wallSeconds)) s, \(Int(eventsPerSecond)) events/s"),
            line("timelines", timelinesPerSecond.map { "\(timelines ?? 0), \(Int($0))/s" }),
            line(
                "provider",
                providerRequests.map { "\($0) requests for \(providerTimelines ?? 0) timelines" }),
            line("CPU", cpu.isEmpty ? nil : cpu.joined(separator: ", ")),
            line("WAL", walBytes.map { Figure.digits(Double($0) / 1e6) + " MB" }),
            line("peak memory", peakResidentBytes.map { Figure.digits(Double($0) / 1e6) + " MB" }),
        ].compactMap { $0 }
        if let latency {
            lines.append(
                "latency".padded(to: 24)
                    + "p50 \(Figure.digits(latency.p50)), p90 \(Figure.digits(latency.p90)), p99 \(Figure.digits(latency.p99)), "
                    + "p99.9 \(Figure.digits(latency.p999)), max \(Figure.digits(latency.max)) ms")
        }
        lines += extras.map { $0.key.padded(to: 24) + String(decoding: $0.value.encoded, as: UTF8.self) }
        return lines
    }
}

extension String {
    func padded(to width: Int) -> String {
        self + String(repeating: " ", count: max(1, width - count))
    }
}

extension JSONValue {
    /// A number; null when there is none.
    static func integer(_ value: Int?) -> JSONValue { value.map { .number(JSONNumber($0)) } ?? .null }
}

/// A sort of requested reloads that were not done, as PostgreSQL and Kafka tell.
enum LoadLoss: String, Sendable, CaseIterable {
    /// Events that Kafka did not acknowledge.
    case unacknowledged
    /// Events that are before no consumer position.
    case unapplied
    /// Events that no timeline has counted.
    case uncounted
    /// Events, or targeted timelines, without a timeline that was stored for them.
    case unserved
    /// Timelines that are behind a generation.
    case stale
    /// Timelines whose last message is not of the stored content.
    case unpublished
    /// Targeted timelines beyond the number that the provider has counted.
    case unfetched
    case deadLetters
}

/// Numbers of reloads that were not done; a negative number is none.
extension [LoadLoss: Int] {
    /// - Parameters:
    ///   - published: number of acknowledged events, each for one timeline.
    ///   - before: the store before the first of them.
    ///   - after: the store when everything was quiet.
    init(published: Int, before: Overview, after: Overview) {
        self = [
            .uncounted: published - Int(after.requested - before.requested), .stale: Int(after.stale),
            .deadLetters: Int(after.deadLetters),
        ]
    }

    var total: Int { values.reduce(0) { $0 + Swift.max(0, $1) } }

    var json: JSONValue {
        .object(
            JSONObject(
                LoadLoss.allCases.map {
                    (key: $0.rawValue, value: .count(Swift.max(0, self[$0] ?? 0)))
                }))
    }
}
