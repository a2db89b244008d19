// SPDX-License-Identifier: Apache-2.0

import Foundation
import Logging
import Metrics
import PostgresClient
import ReloadIngest
import ReloadWorkers
import Synchronization
import Tracing
import Waiting
import WidgetAPI
package import WidgetModel
import WidgetStore

extension MetricRegistry {
    /// The registry of a program, which libraries count in too. Called once in a process.
    package static func bootstrap(for settings: Settings) -> MetricRegistry {
        let metrics = MetricRegistry(kinds: settings.metricsKinds)
        MetricsSystem.bootstrap(metrics)
        InstrumentationSystem.bootstrap(TraceContextPropagator())
        return metrics
    }
}

// Gauges that are not counted where something happens: at a scrape those of this process's memory, and at an interval
// those of the database, with ingest's lag.
//
// Each reading of the database is bounded: rows are counted up to a limit, and ages are sampled. After a failed reading
// the previous figures remain, with their time.

extension FreshetNode {
    /// Largest number of rows that are counted over all kinds and lanes.
    private static let countedRows = 50_000
    /// Largest number of rows that are counted for one sort of waiting work.
    private static let waitingRows = 10_000
    /// Number of rows whose ages are sampled.
    private static let sampledRows = 20_000

    // MARK: Memory

    /// Sets the gauges of this process's memory.
    func readMemory(_ ingest: IngestService?) {
        let statistics = pool.statistics
        for (state, count) in [
            ("idle", statistics.idle), ("lent", statistics.lent), ("connecting", statistics.connecting),
            ("maximum", pool.configuration.maximumConnections),
        ] { metrics.poolConnections(state).set(count) }
        metrics.poolWaiting.set(statistics.waiting)
        metrics.poolWaits.raise(to: Int64(statistics.waits))
        metrics.poolTimeouts.raise(to: Int64(statistics.timeouts))
        metrics.poolWaitSeconds.raise(to: statistics.waitingTime / .seconds(1))
        metrics.unreadableKinds.set(directory.directory().unreadable.count)
        guard let ingest else { return }
        metrics.ingestBlocked.set(ingest.status.blockedBy == nil ? 0 : 1)
        metrics.ingestHalted.set(ingest.halts.count)
        metrics.deadLetterQuotaUse.set(ingest.quotaUse)
        metrics.ingestStanding.set(ingest.status.stalledPartitions)
    }

    // MARK: Database

    private typealias Sample = (name: String, read: @Sendable () async throws -> Void)

    /// Returns the service that reads the database for the metrics.
    func sampler(_ ingest: IngestService?) -> BackgroundService {
        func sample(_ name: String, _ read: @escaping @Sendable () async throws -> Void) -> Sample { (name, read) }
        let samples = [
            sample("queues", readQueues), sample("ages", readAges), sample("waiting", readWaiting),
            sample("tables", readTables), sample("snapshots", readSnapshots), sample("delivery", readDelivery),
            sample("lag") { await ingest?.sampleLag() },
        ]
        metrics.samples.begin(samples.map(\.name), ["done", "failed"])
        return BackgroundService("sampler") { [self] in
            var failing: Set<String> = []
            while true {
                await PostgresPool.inBackground { await read(samples, failing: &failing) }
                // Processes that start together read at different times.
                try await Task.sleep(for: settings.metricsInterval.jittered)
            }
        }
    }

    /// Reads one sample after the other, each independently.
    ///
    /// - Parameter failing: names of the samples whose last reading has failed.
    private func read(_ samples: [Sample], failing: inout Set<String>) async {
        for (name, read) in samples {
            let begun = ContinuousClock.now
            do {
                try await read()
                metrics.samples(name, "done").increment()
                metrics.sampleSeconds(name).set(begun.duration(to: .now) / .seconds(1))
                metrics.sampleTime(name).set(Date().timeIntervalSince1970.rounded())
                failing.remove(name)
            } catch {
                guard !Task.isCancelled else { return }
                metrics.samples(name, "failed").increment()
                // Logged once per outage, not at every interval.
                if failing.insert(name).inserted {
                    logger.warning("cannot read for the metrics", metadata: ["sample": "\(name)", "error": "\(error)"])
                }
            }
        }
    }

    private func readSnapshots() async throws {
        guard let oldest = try await pool.query(.oldestSnapshot()).first else { return }
        metrics.xminAge.set(Double(oldest.transactions))
        metrics.xminSeconds.set(oldest.seconds)
    }

    private func readQueues() async throws {
        // The directory supplies the names.
        let known = try await directory.directory(maximumAge: .seconds(60))
        let limit = max(100, Self.countedRows / max(1, known.kinds.count * ReloadLane.allCases.count))
        let rows = try await pool.query(.queueDepths(limit: limit, overdueAfter: settings.metricsOverdueAfter))
        for lane in ReloadLane.allCases {
            let rows = rows.filter { $0.queue.lane == lane }
            metrics.readyLists(lane.name).set(rows.reduce(0) { $0 + $1.lists })
            metrics.due(lane.name).set(rows.reduce(0) { $0 + $1.due })
            metrics.overdue(lane.name).set(rows.reduce(0) { $0 + $1.overdue })
            metrics.oldestOverdue(lane.name).set(rows.map(\.oldest).max() ?? 0)
        }
        set(metrics.kindOldestDue, rows.map { ($0.queue.kindID, [], $0.oldest) }, known)
    }

    private func readAges() async throws {
        let known = try await directory.directory(maximumAge: .seconds(60))
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
        let known = try await directory.directory(maximumAge: .seconds(60))
        let objectives = FreshnessObjectives(general: settings.delivery.objective, kinds: known.kinds.values)
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
