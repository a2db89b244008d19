import Foundation
import Logging
import Metrics
import PostgresClient
import ReloadIngest
import ReloadWorkers
import ServiceLifecycle
import Synchronization
import WidgetModel
import WidgetStore

/// Reads what only the database knows for the metrics, at an interval and never for a scrape; and ingest's lag with it.
///
/// Each reading has its bound: what is counted is counted up to a limit, and ages are of a sample. One that fails is
/// counted, and the figures stay as they were, with the time from which they are.
final class StoreSampler: Service, CustomStringConvertible {
    let description = "sampler"
    /// Most rows that are counted, over all kinds and lanes.
    private static let countedRows = 50_000
    /// Most that are counted of one sort of what waits.
    private static let waitingRows = 10_000
    /// Rows of which the ages are sampled.
    private static let sampledRows = 20_000

    private let settings: MetricsSettings
    private let pool: PostgresPool
    private let ingest: IngestService?
    private let kinds: KindLabels
    private let directory: DirectoryCache
    private let logger: Logger
    private let gauges = Gauges()
    private let failing = Mutex<Set<Sample>>([])

    /// What is read, each by itself.
    enum Sample: String, CaseIterable, Sendable {
        case queues, ages, waiting, tables, snapshots, lag
    }

    private struct Gauges: Sendable {
        let readyLists = GaugeSet(MetricCatalogue.readyLists)
        let due = GaugeSet(MetricCatalogue.due)
        let overdue = GaugeSet(MetricCatalogue.overdue)
        let oldest = GaugeSet(MetricCatalogue.oldestOverdue)
        let kindOldest = GaugeSet(MetricCatalogue.kindOldestDue)
        let ages = GaugeSet(MetricCatalogue.timelineAge)
        let letters = GaugeSet(MetricCatalogue.deadLettersWaiting)
        let diverted = GaugeSet(MetricCatalogue.divertedApps)
        let sweeps = GaugeSet(MetricCatalogue.sweepsWaiting)
        let dead = GaugeSet(MetricCatalogue.deadTuples)
        let live = GaugeSet(MetricCatalogue.liveTuples)
        let bytes = GaugeSet(MetricCatalogue.tableBytes)
        let xmin = GaugeSet(MetricCatalogue.xminAge)
        let transaction = GaugeSet(MetricCatalogue.xminSeconds)
    }

    init(
        settings: MetricsSettings, pool: PostgresPool, ingest: IngestService?, kinds: KindLabels,
        directory: DirectoryCache, logger: Logger
    ) {
        self.settings = settings
        self.pool = pool
        self.ingest = ingest
        self.kinds = kinds
        self.directory = directory
        self.logger = logger
        for sample in Sample.allCases {
            for outcome in ["done", "failed"] { counter(sample, outcome).increment(by: 0) }
        }
    }

    func run() async throws {
        do {
            try await cancelWhenGracefulShutdown { [self] in
                while true {
                    await read()
                    // Processes that were started together do not read together.
                    try await Task.sleep(for: settings.interval * Double.random(in: 0.8...1.2))
                }
            }
        } catch is CancellationError {
            return
        }
    }

    func read() async {
        for sample in Sample.allCases {
            let begun = ContinuousClock.now
            do {
                try await read(sample)
                counter(sample, "done").increment()
                set(MetricCatalogue.sampleSeconds, begun.duration(to: .now) / .seconds(1), sample)
                set(MetricCatalogue.sampleTime, Date().timeIntervalSince1970.rounded(), sample)
                failing.withLock { _ = $0.remove(sample) }
            } catch {
                guard !Task.isCancelled else { return }
                counter(sample, "failed").increment()
                // Once an outage, not at every interval.
                if failing.withLock({ $0.insert(sample).inserted }) {
                    logger.warning(
                        "cannot read for the metrics",
                        metadata: ["sample": "\(sample.rawValue)", "error": "\(error)"])
                }
            }
        }
    }

    private func counter(_ sample: Sample, _ outcome: String) -> Counter {
        Counter(
            label: MetricCatalogue.samples.name, dimensions: [("sample", sample.rawValue), ("outcome", outcome)])
    }

    private func set(_ definition: MetricDefinition, _ value: Double, _ sample: Sample) {
        Meter(label: definition.name, dimensions: [("sample", sample.rawValue)]).set(value)
    }

    private func read(_ sample: Sample) async throws {
        switch sample {
        case .queues: try await readQueues()
        case .ages: try await readAges()
        case .waiting: try await readWaiting()
        case .tables: try await readTables()
        case .snapshots:
            if let oldest = try await pool.query(.oldestSnapshot()).first {
                gauges.xmin.replace([([], Double(oldest.transactions))])
                gauges.transaction.replace([([], oldest.seconds)])
            }
        case .lag: await ingest?.sampleLag()
        }
    }

    private func readQueues() async throws {
        // For the names.
        let known = try await directory.directory(maximumAge: .seconds(60))
        let limit = max(100, Self.countedRows / max(1, known.kinds.count * ReloadLane.allCases.count))
        let rows = try await pool.query(.queueDepths(limit: limit, overdueAfter: settings.overdueAfter))
        let lanes = ReloadLane.allCases.map { lane in (lane: lane, rows: rows.filter { $0.lane == lane }) }
        func byLane(_ value: ([QueueDepth]) -> Double) -> [(labels: [(String, String)], value: Double)] {
            lanes.map { ([("lane", $0.lane.name)], value($0.rows)) }
        }
        gauges.readyLists.replace(byLane { Double($0.reduce(0) { $0 + $1.lists }) })
        gauges.due.replace(byLane { Double($0.reduce(0) { $0 + $1.due }) })
        gauges.overdue.replace(byLane { Double($0.reduce(0) { $0 + $1.overdue }) })
        gauges.oldest.replace(byLane { $0.map(\.oldest).max() ?? 0 })
        gauges.kindOldest.replace(byKind(rows.map { ($0.kindID, [], $0.oldest) }))
    }

    private func readAges() async throws {
        let estimate = try await pool.query(Statements.timelineEstimate()).first ?? 0
        let rows = try await pool.query(.timelineAges(rows: Self.sampledRows, of: estimate))
        gauges.ages.replace(
            byKind(
                rows.flatMap { row in
                    [(row.kindID, [("percentile", "50")], row.median), (row.kindID, [("percentile", "99")], row.late)]
                }))
    }

    /// The largest value of each kind; those without labels of their own are one.
    private func byKind(
        _ values: [(kindID: Int32, labels: [(String, String)], value: Double)]
    ) -> [(labels: [(String, String)], value: Double)] {
        var found: [String: (labels: [(String, String)], value: Double)] = [:]
        for (kindID, more, value) in values {
            let labels = kinds.labels(of: kindID) + more
            let key = labels.map(\.1).joined(separator: "\u{0}")
            found[key] = (labels, max(value, found[key]?.value ?? 0))
        }
        return Array(found.values)
    }

    private func readWaiting() async throws {
        let rows = try await pool.query(.waitingWork(limit: Self.waitingRows))
        func count(_ name: String) -> Double { Double(rows.first { $0.cause == name }?.count ?? 0) }
        gauges.letters.replace(
            DeadLetterCause.allCases.map { ([("cause", $0.rawValue)], count($0.rawValue)) })
        gauges.sweeps.replace([([], count(WaitingWork.sweeps))])
        gauges.diverted.replace([([], count(WaitingWork.diversions))])
    }

    private func readTables() async throws {
        let rows = try await pool.query(.tableSizes())
        gauges.dead.replace(rows.map { ([("table", $0.table)], Double($0.dead)) })
        gauges.live.replace(rows.map { ([("table", $0.table)], Double($0.live)) })
        gauges.bytes.replace(rows.map { ([("table", $0.table)], Double($0.tableBytes + $0.indexBytes)) })
    }
}
