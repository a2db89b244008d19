import WidgetModel

/// What a load scenario found out: the members that all scenarios have (`schemas/`), and some of its own.
struct LoadResult: Sendable, Equatable {
    /// Percentiles in milliseconds.
    struct Latency: Sendable, Equatable {
        var p50: Double
        var p90: Double
        var p99: Double
        var p999: Double
        var max: Double

        var json: JSONValue {
            [
                "p50": .rounded(p50), "p90": .rounded(p90), "p99": .rounded(p99), "p999": .rounded(p999),
                "max": .rounded(max),
            ]
        }
    }

    var scenario: String
    /// Events that were published.
    var events = 0
    /// Timelines that they were for.
    var distinctTimelines = 0
    /// From the first event that could be read to the last timeline that was stored.
    var wallSeconds = 0.0
    var eventsPerSecond: Double { wallSeconds > 0 ? Double(events) / wallSeconds : 0 }
    /// Timelines stored and published; nil where the scenario renders none.
    var timelines: Int?
    var timelinesPerSecond: Double? { timelines.map { wallSeconds > 0 ? Double($0) / wallSeconds : 0 } }
    /// As the provider itself counts them; nil where it does not tell.
    var providerRequests: Int?
    var providerTimelines: Int?
    var walBytes: Int?
    var serviceCPUSeconds: Double?
    var databaseCPUSeconds: Double?
    /// Of the service.
    var peakResidentBytes: Int?
    var latency: Latency?
    /// What was asked for and not done; anything but 0 makes the command fail.
    var lost = 0
    /// Timelines that are behind a generation at the end.
    var stale = 0
    /// Timelines whose last message on the output topic is what PostgreSQL has stored; where nothing is published, those that
    /// are there as they should be.
    var verified = 0
    /// For the charts of a page, and members of the JSON where there are any.
    var charts = LoadCharts()
    /// Members of the scenario's own.
    var extras: [(key: String, value: JSONValue)] = []

    init(scenario: String) {
        self.scenario = scenario
    }

    static func == (left: LoadResult, right: LoadResult) -> Bool { left.json == right.json }

    var json: JSONValue {
        func number(_ value: Int?) -> JSONValue { value.map { .number(JSONNumber($0)) } ?? .null }
        var members: [(String, JSONValue)] = [
            ("scenario", .string(scenario)), ("events", number(events)),
            ("distinctTimelines", number(distinctTimelines)), ("wallSeconds", .rounded(wallSeconds)),
            ("eventsPerSecond", .rounded(eventsPerSecond)), ("timelinesPerSecond", .rounded(timelinesPerSecond)),
            ("providerRequests", number(providerRequests)), ("providerTimelines", number(providerTimelines)),
            ("walBytes", number(walBytes)), ("serviceCPUSeconds", .rounded(serviceCPUSeconds)),
            ("databaseCPUSeconds", .rounded(databaseCPUSeconds)), ("peakResidentBytes", number(peakResidentBytes)),
            ("latencyMilliseconds", latency?.json ?? .null), ("lost", number(lost)), ("stale", number(stale)),
            ("verified", number(verified)),
        ]
        members += extras.map { ($0.key, $0.value) } + charts.members.map { ($0.key, $0.value) }
        return .object(JSONObject(members.map { JSONObject.Member(key: $0.0, value: $0.1) }))
    }

    /// For people: a line for each member that is known, the scenario's own last.
    var lines: [String] {
        func line(_ name: String, _ text: String?) -> String? {
            text.map { name.padded(to: 24) + $0 }
        }
        func decimal(_ value: Double) -> String { DemoScreen.decimal(value) }
        let cpu = [("service", serviceCPUSeconds), ("PostgreSQL", databaseCPUSeconds)]
            .compactMap { part in part.1.map { "\(decimal($0)) s \(part.0)" } }
        var lines = [
            line("events", "\(events) for \(distinctTimelines) timelines, lost \(lost), stale \(stale)"),
            line("verified", verified > 0 || timelines != nil ? "\(verified) timelines" : nil),
            line("wall time", "\(decimal(wallSeconds)) s, \(Int(eventsPerSecond)) events/s"),
            line("timelines", timelinesPerSecond.map { "\(timelines ?? 0), \(Int($0))/s" }),
            line(
                "provider",
                providerRequests.map { "\($0) requests for \(providerTimelines ?? 0) timelines" }),
            line("CPU", cpu.isEmpty ? nil : cpu.joined(separator: ", ")),
            line("WAL", walBytes.map { decimal(Double($0) / 1e6) + " MB" }),
            line("peak memory", peakResidentBytes.map { decimal(Double($0) / 1e6) + " MB" }),
        ].compactMap { $0 }
        if let latency {
            lines.append(
                "latency".padded(to: 24)
                    + "p50 \(decimal(latency.p50)), p90 \(decimal(latency.p90)), p99 \(decimal(latency.p99)), "
                    + "p99.9 \(decimal(latency.p999)), max \(decimal(latency.max)) ms")
        }
        lines += extras.map { $0.key.padded(to: 24) + String(decoding: $0.value.encoded, as: UTF8.self) }
        return lines
    }
}

extension LoadResult: LoadReport {}

extension String {
    fileprivate func padded(to width: Int) -> String {
        self + String(repeating: " ", count: max(1, width - count))
    }
}
