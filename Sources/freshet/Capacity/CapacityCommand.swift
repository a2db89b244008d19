import ArgumentParser
import WidgetModel

struct CapacityCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "capacity",
        abstract: "How much of everything a number of widgets takes, and how long its queues would be.",
        discussion: """
            A plan from the measured cost of each step (deploy/capacity.md), and a simulation of its queues in the busiest \
            minute: batches come as a Poisson stream and go through ingest, PostgreSQL, workers and the provider. The \
            same seed gives the same answer.

            Examples:
              freshet capacity --widgets 10000000
              freshet capacity --widgets 1000000 --reloads 40 --provider-latency 500 --json
            """)

    @Option(help: "Widgets on people's home screens.")
    var widgets = 10_000_000

    @Option(help: "Timelines for each of them; less than 1 where kinds are shared.")
    var timelinesPerWidget = 0.8

    @Option(help: "Events a day for each widget.")
    var events = 12.0

    @Option(help: "Reloads a day of each timeline.")
    var reloads = 20.0

    @Option(help: "The busiest minute of a day, by its average.")
    var peak = 3.0

    @Option(help: "The share of reloads whose content has changed, from 0 to 1.")
    var changed = 0.7

    @Option(help: "Bytes of a timeline.")
    var contentBytes = 650.0

    @Option(help: "Milliseconds that a provider takes for a request.")
    var providerLatency = 200.0

    @Option(help: "Timelines in a request.")
    var batch = 100.0

    @Option(help: "Seconds within which a reload of everything is to be done.")
    var everything = 3_600.0

    @Option(help: "What the simulation follows from.")
    var seed: UInt64 = 1

    @Flag(help: "Print JSON.")
    var json = false

    func validate() throws {
        func check(_ option: String, _ value: Double, _ range: ClosedRange<Double>) throws {
            guard range.contains(value) else {
                throw ValidationError("\(option) \(value): expected \(range.lowerBound) to \(range.upperBound)")
            }
        }
        try LoadOptions.check("--widgets", widgets, in: 1...10_000_000_000)
        try check("--timelines-per-widget", timelinesPerWidget, 0.000_001...1)
        try check("--events", events, 0...10_000)
        try check("--reloads", reloads, 0.001...10_000)
        try check("--peak", peak, 1...100)
        try check("--changed", changed, 0...1)
        try check("--content-bytes", contentBytes, 1...262_144)
        try check("--provider-latency", providerLatency, 0.001...60_000)
        try check("--batch", batch, 1...10_000)
        try check("--everything", everything, 1...604_800)
    }

    func run() async throws {
        var demand = CapacityPlan.Demand(widgets: Double(widgets))
        demand.timelinesPerWidget = timelinesPerWidget
        demand.eventsPerWidget = events
        demand.reloadsPerTimeline = reloads
        demand.peak = peak
        demand.changed = changed
        demand.contentBytes = contentBytes
        demand.providerLatency = providerLatency / 1_000
        demand.batch = batch
        demand.everything = everything
        let report = CapacityReport(CapacityPlan(demand), seed: seed)
        if json { Terminal.print(report.json) } else { report.lines.forEach(Terminal.print) }
    }
}

/// A plan with what its queues do at the peak, and where they end.
struct CapacityReport: Sendable {
    let plan: CapacityPlan
    let outcome: QueueNetwork.Outcome
    /// At the rate at which the first of them is planned to be busy no more than it should be.
    let first: (name: String, headroom: Double)?

    private static let jobs = 100_000

    init(_ plan: CapacityPlan, seed: UInt64) {
        self.plan = plan
        let network = plan.network
        outcome = network.simulate(jobs: Self.jobs, seed: seed)
        first = network.limit.map { (network.stations[$0.station].name, $0.arrivals / network.arrivals) }
    }

    private func gigabytes(_ bytes: Double) -> String { ScaleText.number(bytes / 1e9) }

    var lines: [String] {
        var table = TextTable("station of one database's share", "servers", "busy %", "mean wait (ms)", "longest queue")
        for (station, load) in zip(plan.network.stations, outcome.loads) {
            table.add(
                load.name, "\(station.servers)", DemoScreen.decimal(load.utilisation * 100),
                ScaleText.number(load.meanWait * 1_000), "\(load.longestQueue)")
        }
        var lines = [
            "\(Int(plan.demand.widgets)) widgets, \(Int(plan.timelines)) timelines",
            "reloads/s: \(Int(plan.averageReloads)) on average, \(Int(plan.peakReloads)) at the peak beside a reload of "
                + "everything in \(Int(plan.demand.everything)) s; events/s at the peak: \(Int(plan.peakEvents))",
            "Kafka: \(plan.partitions) partitions of each input topic",
            "ingest: \(plan.ingestReplicas) replicas of 2 cores; workers: \(plan.workerReplicas) replicas of 2 cores",
            "PostgreSQL: \(plan.databases) of \(Int((plan.databaseCores / Double(plan.databases)).rounded(.up))) cores and "
                + "\(gigabytes(plan.databaseMemory / Double(plan.databases))) GB of memory; \(gigabytes(plan.storedBytes)) GB in "
                + "all, of which \(gigabytes(plan.hotBytes)) GB are hot; log \(ScaleText.number(plan.peakWal / 1e6)) MB/s at the "
                + "peak, \(gigabytes(plan.averageWal * 86_400)) GB a day",
            "providers: \(Int(plan.providerRequests.rounded(.up))) requests/s of \(Int(plan.demand.batch)) timelines, "
                + "\(plan.providerConcurrency) at a time",
            "a batch from its events to its end, at the peak: p50 \(ScaleText.number(outcome.p50 * 1_000)) ms, "
                + "p99 \(ScaleText.number(outcome.p99 * 1_000)) ms",
        ]
        if let first {
            lines.append(
                "full first: \(first.name), at \(ScaleText.number(first.headroom)) times the peak")
        }
        return lines + table.lines
    }

    var json: JSONValue {
        let stations: [JSONValue] = zip(plan.network.stations, outcome.loads).map { station, load in
            [
                "name": .string(load.name), "servers": .number(JSONNumber(station.servers)),
                "utilisation": .rounded(load.utilisation), "meanWaitMilliseconds": .rounded(load.meanWait * 1_000),
                "longestQueue": .number(JSONNumber(load.longestQueue)),
            ]
        }
        return [
            "widgets": .rounded(plan.demand.widgets), "timelines": .rounded(plan.timelines),
            "averageReloadsPerSecond": .rounded(plan.averageReloads),
            "peakReloadsPerSecond": .rounded(plan.peakReloads),
            "peakEventsPerSecond": .rounded(plan.peakEvents), "partitions": .number(JSONNumber(plan.partitions)),
            "ingestReplicas": .number(JSONNumber(plan.ingestReplicas)),
            "workerReplicas": .number(JSONNumber(plan.workerReplicas)),
            "databases": .number(JSONNumber(plan.databases)), "databaseCores": .rounded(plan.databaseCores),
            "databaseMemoryBytes": .rounded(plan.databaseMemory), "storedBytes": .rounded(plan.storedBytes),
            "hotBytes": .rounded(plan.hotBytes), "peakWalBytesPerSecond": .rounded(plan.peakWal),
            "walBytesPerDay": .rounded(plan.averageWal * 86_400),
            "providerRequestsPerSecond": .rounded(plan.providerRequests),
            "providerConcurrency": .number(JSONNumber(plan.providerConcurrency)),
            "firstFull": first.map { .string($0.name) } ?? .null, "headroom": .rounded(first?.headroom),
            "latencyMilliseconds": ["p50": .rounded(outcome.p50 * 1_000), "p99": .rounded(outcome.p99 * 1_000)],
            "stations": .array(stations),
        ]
    }
}
