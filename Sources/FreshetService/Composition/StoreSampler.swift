import Foundation
import Logging
import Metrics
import PostgresClient
import ReloadIngest
import ReloadWorkers
import ServiceLifecycle
import Synchronization
import WidgetAPI
import WidgetModel
import WidgetStore

/// Reads the database's figures for the metrics and ingest's lag. It reads at an interval, never for a scrape.
///
/// Each reading is bounded: rows are counted up to a limit, and ages are sampled. After a failed reading the previous
/// figures remain, with their time.
final class StoreSampler: Sendable {
    /// Largest number of rows that are counted over all kinds and lanes.
    private static let countedRows = 50_000
    /// Largest number of rows that are counted for one sort of waiting work.
    private static let waitingRows = 10_000
    /// Number of rows whose ages are sampled.
    private static let sampledRows = 20_000

    private let wiring: FreshetNode.Wiring
    private let pool: PostgresPool
    private let ingest: IngestService?
    private let kinds: KindLabels
    private let bridge: MetricBridge
    private let failing = Mutex<Set<Sample>>([])

    /// Readings, each independent of the others.
    enum Sample: String, CaseIterable, Sendable {
        case queues, ages, waiting, tables, snapshots, delivery, lag
    }

    init(wiring: FreshetNode.Wiring, ingest: IngestService?, kinds: KindLabels, bridge: MetricBridge) {
        self.wiring = wiring
        pool = wiring.pool
        self.ingest = ingest
        self.kinds = kinds
        self.bridge = bridge
        for sample in Sample.allCases {
            for outcome in ["done", "failed"] { counter(sample, outcome).increment(by: 0) }
        }
    }

    var service: BackgroundService {
        BackgroundService("sampler") { [self] in
            while true {
                await PostgresPool.inBackground { await read() }
                // Processes that start together read at different times.
                try await Task.sleep(for: wiring.settings.metrics.interval * Double.random(in: 0.8...1.2))
            }
        }
    }

    private func read() async {
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
                // Logged once per outage, not at every interval.
                if failing.withLock({ $0.insert(sample).inserted }) {
                    wiring.logger.warning(
                        "cannot read for the metrics",
                        metadata: ["sample": "\(sample.rawValue)", "error": "\(error)"])
                }
            }
        }
    }

    private func counter(_ sample: Sample, _ outcome: String) -> Counter {
        Counter(label: MetricCatalogue.samples.name, dimensions: [("sample", sample.rawValue), ("outcome", outcome)])
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
                bridge.set(MetricCatalogue.xminAge, Double(oldest.transactions))
                bridge.set(MetricCatalogue.xminSeconds, oldest.seconds)
            }
        case .delivery: try await readDelivery()
        case .lag: await ingest?.sampleLag()
        }
    }

    private func readQueues() async throws {
        // The directory supplies the names.
        let known = try await wiring.directory.directory(maximumAge: .seconds(60))
        let limit = max(100, Self.countedRows / max(1, known.kinds.count * ReloadLane.allCases.count))
        let rows = try await pool.query(.queueDepths(limit: limit, overdueAfter: wiring.settings.metrics.overdueAfter))
        let lanes = ReloadLane.allCases.map { lane in (lane: lane, rows: rows.filter { $0.lane == lane }) }
        func byLane(_ value: ([QueueDepth]) -> Double) -> [(labels: MetricLabels, value: Double)] {
            lanes.map { ([("lane", $0.lane.name)], value($0.rows)) }
        }
        bridge.replace(MetricCatalogue.readyLists, byLane { Double($0.reduce(0) { $0 + $1.lists }) })
        bridge.replace(MetricCatalogue.due, byLane { Double($0.reduce(0) { $0 + $1.due }) })
        bridge.replace(MetricCatalogue.overdue, byLane { Double($0.reduce(0) { $0 + $1.overdue }) })
        bridge.replace(MetricCatalogue.oldestOverdue, byLane { $0.map(\.oldest).max() ?? 0 })
        bridge.replace(MetricCatalogue.kindOldestDue, byKind(rows.map { ($0.kindID, [], $0.oldest) }))
    }

    private func readAges() async throws {
        let estimate = try await pool.query(Statements.timelineEstimate()).first ?? 0
        let rows = try await pool.query(.timelineAges(rows: Self.sampledRows, of: estimate))
        bridge.replace(
            MetricCatalogue.timelineAge,
            byKind(
                rows.flatMap { row in
                    [(row.kindID, [("percentile", "50")], row.median), (row.kindID, [("percentile", "99")], row.late)]
                }))
    }

    /// The largest value of each series.
    private func byKind(
        _ values: [(kindID: Int32, labels: MetricLabels, value: Double)]
    ) -> [(labels: MetricLabels, value: Double)] {
        kinds.series(values, combining: max)
    }

    private func readWaiting() async throws {
        let rows = try await pool.query(.waitingWork(limit: Self.waitingRows))
        func count(_ name: String) -> Double { Double(rows.first { $0.cause == name }?.count ?? 0) }
        bridge.replace(
            MetricCatalogue.deadLettersWaiting,
            DeadLetterCause.allCases.map { ([("cause", $0.rawValue)], count($0.rawValue)) })
        bridge.set(MetricCatalogue.sweepsWaiting, count(WaitingWork.sweeps))
        bridge.set(MetricCatalogue.divertedApps, count(WaitingWork.diversions))
    }

    private func readDelivery() async throws {
        if let totals = try await pool.query(.deviceTotals(silentFor: DeliveryReport.silence)).first {
            bridge.replace(
                MetricCatalogue.devices,
                [
                    ([("state", "registered")], Double(totals.devices)),
                    ([("state", "waiting")], Double(totals.waiting)),
                    ([("state", "silent")], Double(totals.silent)),
                ])
        }
        if let lag = try await pool.query(.deliveryLag()).first {
            bridge.replace(
                MetricCatalogue.deliveryLag, [([("stage", "mark")], lag.changes), ([("stage", "send")], lag.lists)])
        }
        let failing = try await pool.query(.failingWebhooks())
        bridge.replace(
            MetricCatalogue.webhooks,
            [
                ([("state", "failing")], Double(failing.count { $0.disabledAt == nil })),
                ([("state", "disabled")], Double(failing.count { $0.disabledAt != nil })),
            ])
        let known = try await wiring.directory.directory(maximumAge: .seconds(60))
        let objectives = FreshnessObjectives(general: wiring.settings.delivery.objective, kinds: known.kinds.values)
        var rows: [(window: String, totals: DeliveryTotals)] = []
        for hours in [1, 6] {
            rows += try await pool.query(
                .deliveryTotals(of: known.kinds.values.map(\.id), hours: hours, objectives: objectives)
            ).map { ("\(hours)h", $0) }
        }
        for (definition, value) in [
            (MetricCatalogue.deliveryChanges, \DeliveryTotals.due), (MetricCatalogue.deliveryFetched, \.fetched),
            (MetricCatalogue.deliveryMissed, \.missed),
        ] as [(MetricDefinition, KeyPath<DeliveryTotals, Int64>)] {
            bridge.replace(
                definition,
                byKind(rows.map { ($0.totals.kindID, [("window", $0.window)], Double($0.totals[keyPath: value])) }))
        }
    }

    private func readTables() async throws {
        let rows = try await pool.query(.tableSizes())
        bridge.replace(MetricCatalogue.deadTuples, rows.map { ([("table", $0.table)], Double($0.dead)) })
        bridge.replace(MetricCatalogue.liveTuples, rows.map { ([("table", $0.table)], Double($0.live)) })
        bridge.replace(
            MetricCatalogue.tableBytes, rows.map { ([("table", $0.table)], Double($0.tableBytes + $0.indexBytes)) })
    }
}
