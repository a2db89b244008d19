// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import FreshetService
import JSON
import WidgetModel

struct CapacityCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "capacity",
        abstract: "Resources that a number of widgets needs.",
        discussion: """
            Computes a plan from the measured cost of each step (deploy/capacity.md): rates in the busiest minute, cores, \
            memory, disk, WAL, partitions and processes.

            Examples:
              freshet capacity --widgets 10000000
              freshet capacity --widgets 1000000 --reloads 40 --provider-latency 500 --json
            """)

    @Option(help: "Widgets on people's home screens.", transform: OptionText.number(1...1e10))
    var widgets = 1e7

    @Option(help: "Timelines per widget; less than 1 where kinds are shared.", transform: OptionText.number(1e-6...1))
    var timelinesPerWidget = 0.8

    @Option(help: "Events per widget and day.", transform: OptionText.number(0...10_000))
    var events = 12.0

    @Option(help: "Reloads per timeline and day.", transform: OptionText.number(0.001...10_000))
    var reloads = 20.0

    @Option(help: "Ratio of the peak minute to the daily average.", transform: OptionText.number(1...100))
    var peak = 3.0

    @Option(help: "Share of reloads whose content has changed, from 0 to 1.", transform: OptionText.number(0...1))
    var changed = 0.7

    @Option(help: "Bytes of a timeline.", transform: OptionText.number(1...262_144))
    var contentBytes = 650.0

    @Option(help: "Milliseconds that a provider takes for a request.", transform: OptionText.number(0.001...60_000))
    var providerLatency = 200.0

    @Option(help: "Timelines in a request.", transform: OptionText.number(1...10_000))
    var batch = 100.0

    @Option(
        help: "Seconds within which a reload of everything is to be done.", transform: OptionText.number(1...604_800))
    var everything = 3_600.0

    @Flag(help: "Print JSON.")
    var json = false

    func run() async throws {
        if json {
            var object = JSONObject()
            for figure in figures { object[figure.name] = .rounded(figure.value) }
            return Terminal.print(.object(object))
        }
        let rows = figures.map { figure in
            [figure.title, figure.name.contains("Bytes") ? Figure.bytes(figure.value) : Figure.digits(figure.value)]
        }
        TextTable("RESOURCE", "AMOUNT", rows: rows).printed()
    }

    // Measured costs of the steps of a reload (deploy/capacity.md): milliseconds of a core per timeline, and bytes.

    private static let databaseMark = 0.027
    private static let databaseClaim = 0.013
    private static let databaseStore = 0.015
    private static let ingestEvent = 0.004
    private static let ingestMark = 0.001
    private static let workers = 0.029
    /// WAL of a reload whose content is unchanged, with a full history of decisions, and of storing 650 bytes of changed
    /// content.
    private static let wal = 1_160.0
    private static let walOfContent = 570.0
    /// Disk of a widget's row and of a timeline's without its content, indexes included.
    private static let widgetBytes = 310.0
    private static let timelineBytes = 820.0
    /// Ratio of a page to the rows that it is filled with (fillfactor 60).
    private static let freeSpace = 1.6

    /// Share of a core that is planned for: beyond it queues grow fast.
    static let utilisation = 0.6
    /// Limits of one PostgreSQL: cores, bytes of WAL a second, bytes of memory.
    static let databaseCores = 32.0
    static let databaseWal = 150_000_000.0
    static let databaseMemory = 512_000_000_000.0
    static let replicaCores = 2.0

    var timelines: Double { widgets * timelinesPerWidget }
    /// Reloads a second, averaged over a day.
    var averageReloads: Double { timelines * reloads / 86_400 }
    /// Reloads a second in the busiest minute, beside a reload of everything.
    var peakReloads: Double { averageReloads * peak + timelines / everything }
    var peakEvents: Double { widgets * events / 86_400 * peak }

    var databaseCores: Double {
        let cost = Self.databaseMark + Self.databaseClaim + Self.databaseStore
        return peakReloads * cost / 1_000 / Self.utilisation
    }
    var walPerReload: Double {
        Self.wal + changed * (Self.walOfContent + max(0, contentBytes - 650))
    }
    var peakWal: Double { peakReloads * walPerReload }
    var averageWal: Double { averageReloads * walPerReload }
    var timelineTableBytes: Double {
        timelines * (Self.timelineBytes + contentBytes) * Self.freeSpace
    }
    var storedBytes: Double { widgets * Self.widgetBytes + timelineTableBytes }
    /// Memory for the rows of a day's reloads, a quarter of the total as shared buffers.
    var databaseMemory: Double { max(8_000_000_000, timelineTableBytes * min(1, reloads)) }

    /// PostgreSQL servers, each of an installation for an equal part of the apps. One app needs one server.
    var databases: Int {
        let parts = max(
            databaseCores / Self.databaseCores, peakWal / Self.databaseWal, databaseMemory / Self.databaseMemory)
        return max(1, Int(parts.rounded(.up)))
    }

    var ingestCores: Double {
        (peakEvents * Self.ingestEvent + peakReloads * Self.ingestMark) / 1_000 / Self.utilisation
    }
    var workerCores: Double { peakReloads * Self.workers / 1_000 / Self.utilisation }

    /// Processes of two cores; at least two, so that one can be replaced.
    var ingestReplicas: Int { max(2, Int((ingestCores / Self.replicaCores).rounded(.up))) }
    var workerReplicas: Int { max(2, Int((workerCores / Self.replicaCores).rounded(.up))) }

    /// Partitions of each input topic: four per process, so that they are shared evenly and processes can double.
    var partitions: Int {
        var partitions = 12
        while partitions < ingestReplicas * 4 { partitions *= 2 }
        return partitions
    }

    var providerRequests: Double { peakReloads / batch }
    /// Requests under way at a time (Little's law).
    var providerConcurrency: Int {
        max(1, Int((providerRequests * providerLatency / 1_000 / Self.utilisation).rounded(.up)))
    }

    /// The plan: names of members in JSON, titles, and values.
    var figures: [(name: String, title: String, value: Double)] {
        [
            ("widgets", "widgets", widgets), ("timelines", "timelines", timelines),
            ("averageReloadsPerSecond", "reloads/s on average", averageReloads),
            ("peakReloadsPerSecond", "reloads/s at the peak, with a reload of everything", peakReloads),
            ("peakEventsPerSecond", "events/s at the peak", peakEvents),
            ("partitions", "partitions of each input topic", Double(partitions)),
            ("ingestReplicas", "replicas of ingest, of 2 cores", Double(ingestReplicas)),
            ("workerReplicas", "replicas of workers, of 2 cores", Double(workerReplicas)),
            ("databases", "PostgreSQL servers, each for a part of the apps", Double(databases)),
            ("databaseCores", "PostgreSQL: cores in all", databaseCores),
            ("databaseMemoryBytes", "PostgreSQL: memory in all", databaseMemory),
            ("storedBytes", "PostgreSQL: disk in all", storedBytes),
            ("peakWalBytesPerSecond", "PostgreSQL: WAL per second at the peak", peakWal),
            ("walBytesPerDay", "PostgreSQL: WAL per day", averageWal * 86_400),
            ("providerRequestsPerSecond", "requests/s to providers at the peak", providerRequests),
            ("providerConcurrency", "requests to providers at a time", Double(providerConcurrency)),
        ]
    }
}
