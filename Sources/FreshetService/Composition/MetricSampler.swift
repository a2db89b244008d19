import Foundation
import Logging
import Metrics
import PostgresClient
import ReloadIngest
import ReloadWorkers
import Synchronization
import Tracing
import WidgetAPI
package import WidgetModel
import WidgetStore

extension MetricRegistry {
    /// The registry of a program, which libraries count in too. Called once in a process.
    package static func bootstrap(for settings: Settings) -> MetricRegistry {
        let metrics = MetricRegistry(kinds: settings.metrics.kinds)
        MetricsSystem.bootstrap(metrics)
        InstrumentationSystem.bootstrap(TraceContextPropagator())
        return metrics
    }
}

/// Sets the gauges that are not counted where something happens: at a scrape those of this process's memory, and at an
/// interval those of the database, with ingest's lag.
///
/// Each reading of the database is bounded: rows are counted up to a limit, and ages are sampled. After a failed reading
/// the previous figures remain, with their time.
final class MetricSampler: Sendable {
    /// Largest number of rows that are counted over all kinds and lanes.
    private static let countedRows = 50_000
    /// Largest number of rows that are counted for one sort of waiting work.
    private static let waitingRows = 10_000
    /// Number of rows whose ages are sampled.
    private static let sampledRows = 20_000

    private let wiring: FreshetNode.Wiring
    private let metrics: MetricRegistry
    private let pool: PostgresPool
    private let ingest: IngestService?
    private let failing = Mutex<Set<Sample>>([])

    /// Readings, each independent of the others.
    enum Sample: String, CaseIterable, Sendable {
        case queues, ages, waiting, tables, snapshots, delivery, lag
    }

    init(wiring: FreshetNode.Wiring, ingest: IngestService?) {
        self.wiring = wiring
        (metrics, pool) = (wiring.metrics, wiring.pool)
        self.ingest = ingest
        metrics.buildInfo(FreshetNode.version, wiring.settings.role.rawValue).set(1)
        metrics.samples.begin(Sample.allCases.map(\.rawValue), ["done", "failed"])
    }

    // MARK: Memory

    /// Sets the gauges of this process's memory.
    func readMemory() {
        let statistics = pool.statistics
        for (state, count) in [
            ("idle", statistics.idle), ("lent", statistics.lent), ("connecting", statistics.connecting),
            ("maximum", pool.configuration.maximumConnections),
        ] { metrics.poolConnections(state).set(count) }
        metrics.poolWaiting.set(statistics.waiting)
        metrics.poolWaits.raise(to: Int64(statistics.waits.count))
        metrics.poolTimeouts.raise(to: Int64(statistics.waits.timeouts))
        metrics.poolWaitSeconds.raise(to: statistics.waits.time / .seconds(1))
        metrics.unreadableKinds.set(wiring.directory.directory().unreadable.count)
        guard let ingest else { return }
        metrics.ingestBlocked.set(ingest.status.blockedBy == nil ? 0 : 1)
        metrics.ingestHalted.set(ingest.halts.count)
        metrics.deadLetterQuotaUse.set(ingest.quotaUse)
        metrics.ingestStanding.set(ingest.status.standingPartitions)
    }

    // MARK: Database

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
                metrics.samples(sample.rawValue, "done").increment()
                metrics.sampleSeconds(sample.rawValue).set(begun.duration(to: .now) / .seconds(1))
                metrics.sampleTime(sample.rawValue).set(Date().timeIntervalSince1970.rounded())
                failing.withLock { _ = $0.remove(sample) }
            } catch {
                guard !Task.isCancelled else { return }
                metrics.samples(sample.rawValue, "failed").increment()
                // Logged once per outage, not at every interval.
                if failing.withLock({ $0.insert(sample).inserted }) {
                    wiring.logger.warning(
                        "cannot read for the metrics",
                        metadata: ["sample": "\(sample.rawValue)", "error": "\(error)"])
                }
            }
        }
    }

    private func read(_ sample: Sample) async throws {
        switch sample {
        case .queues: try await readQueues()
        case .ages: try await readAges()
        case .waiting: try await readWaiting()
        case .tables: try await readTables()
        case .snapshots:
            if let oldest = try await pool.query(.oldestSnapshot()).first {
                metrics.xminAge.set(Double(oldest.transactions))
                metrics.xminSeconds.set(oldest.seconds)
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
        for lane in ReloadLane.allCases {
            let rows = rows.filter { $0.lane == lane }
            metrics.readyLists(lane.name).set(rows.reduce(0) { $0 + $1.lists })
            metrics.due(lane.name).set(rows.reduce(0) { $0 + $1.due })
            metrics.overdue(lane.name).set(rows.reduce(0) { $0 + $1.overdue })
            metrics.oldestOverdue(lane.name).set(rows.map(\.oldest).max() ?? 0)
        }
        set(metrics.kindOldestDue, rows.map { ($0.kindID, [], $0.oldest) }, known)
    }

    private func readAges() async throws {
        let known = try await wiring.directory.directory(maximumAge: .seconds(60))
        let estimate = try await pool.query(Statements.timelineEstimate()).first ?? 0
        let rows = try await pool.query(.timelineAges(rows: Self.sampledRows, of: estimate))
        set(
            metrics.timelineAge,
            rows.flatMap { [($0.kindID, ["50"], $0.median), ($0.kindID, ["99"], $0.late)] }, known)
    }

    /// Sets the gauges of kinds; of kinds that share the series `other`, the largest value.
    private func set(
        _ metric: Metric<Meter>, _ values: [(kindID: Int32, labels: [String], value: Double)], _ known: KindDirectory
    ) {
        let series = values.compactMap { id, labels, value in
            known.kinds[id].map { (metrics.labels(app: $0.app, kind: $0.definition.name) + labels, value) }
        }
        metric.replace(Dictionary(series, uniquingKeysWith: max))
    }

    private func readWaiting() async throws {
        let rows = try await pool.query(.waitingWork(limit: Self.waitingRows))
        func count(_ name: String) -> Double { Double(rows.first { $0.cause == name }?.count ?? 0) }
        for cause in DeadLetterCause.allCases { metrics.deadLettersWaiting(cause.rawValue).set(count(cause.rawValue)) }
        metrics.sweepsWaiting.set(count(WaitingWork.sweeps))
        metrics.divertedApps.set(count(WaitingWork.diversions))
    }

    private func readDelivery() async throws {
        if let totals = try await pool.query(.deviceTotals(silentFor: DeliveryReport.silence)).first {
            metrics.devices("registered").set(totals.devices)
            metrics.devices("waiting").set(totals.waiting)
            metrics.devices("silent").set(totals.silent)
        }
        if let lag = try await pool.query(.deliveryLag()).first {
            metrics.deliveryLag("mark").set(lag.changes)
            metrics.deliveryLag("send").set(lag.lists)
        }
        let failing = try await pool.query(.failingWebhooks())
        metrics.webhooks("failing").set(failing.count { $0.disabledAt == nil })
        metrics.webhooks("disabled").set(failing.count { $0.disabledAt != nil })
        let known = try await wiring.directory.directory(maximumAge: .seconds(60))
        let objectives = FreshnessObjectives(general: wiring.settings.delivery.objective, kinds: known.kinds.values)
        var rows: [(window: String, totals: DeliveryTotals)] = []
        for hours in [1, 6] {
            rows += try await pool.query(
                .deliveryTotals(of: known.kinds.values.map(\.id), hours: hours, objectives: objectives)
            ).map { ("\(hours)h", $0) }
        }
        for (metric, value) in [
            (metrics.deliveryChanges, \DeliveryTotals.due), (metrics.deliveryFetched, \.fetched),
            (metrics.deliveryMissed, \.missed),
        ] as [(Metric<Meter>, KeyPath<DeliveryTotals, Int64>)] {
            set(metric, rows.map { ($0.totals.kindID, [$0.window], Double($0.totals[keyPath: value])) }, known)
        }
    }

    private func readTables() async throws {
        let rows = try await pool.query(.tableSizes())
        for row in rows {
            metrics.deadTuples(row.table).set(row.dead)
            metrics.liveTuples(row.table).set(row.live)
            metrics.tableBytes(row.table).set(row.tableBytes + row.indexBytes)
        }
    }
}
