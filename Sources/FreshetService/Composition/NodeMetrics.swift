import Logging
import Metrics
import PostgresClient
import ReloadIngest
import ReloadWorkers
import Synchronization
import Tracing
package import WidgetAPI
import WidgetDelivery
import WidgetModel
import WidgetStore

/// The one place where a process begins to listen to swift-metrics.
package enum Observation {
    /// - Returns: the registry of the metrics; nil if nothing would serve them.
    package static func begin(for settings: Settings) -> PrometheusRegistry? {
        InstrumentationSystem.bootstrap(TraceContextPropagator())
        guard settings.health.port != nil || settings.console.enabled else { return nil }
        // Six decisions of each kind are the most series of a metric.
        let registry = PrometheusRegistry(maximumSeries: max(2_000, settings.metrics.kinds * 8))
        MetricsSystem.bootstrap(registry)
        return registry
    }
}

/// The metrics of a node. Counts of its parts are handed to swift-metrics at every scrape, from memory; figures of the
/// database come from ``StoreSampler``.
final class NodeMetrics: Sendable {
    /// Most providers that are named once their breaker has been open.
    private static let maximumProviders = 100

    let sampler: StoreSampler
    private let registry: PrometheusRegistry
    private let wiring: FreshetNode.Wiring
    private let ingest: IngestService?
    private let kinds: KindLabels
    private let bridge = MetricBridge()
    /// Providers whose breaker has been open since the process started. Locked during a scrape: totals must not go
    /// back.
    private let providers = Mutex<Set<ProviderKey>>([])

    init(registry: PrometheusRegistry, wiring: FreshetNode.Wiring, ingest: IngestService?) {
        kinds = KindLabels(directory: wiring.directory, limit: wiring.settings.metrics.kinds)
        sampler = StoreSampler(wiring: wiring, ingest: ingest, kinds: kinds, bridge: bridge)
        self.registry = registry
        self.wiring = wiring
        self.ingest = ingest
        let role = wiring.settings.role.rawValue
        bridge.replace(MetricCatalogue.buildInfo, [([("version", FreshetNode.version), ("role", role)], 1)])
    }

    /// The page of a scrape.
    var page: String {
        providers.withLock { providers in
            collectPool()
            bridge.set(MetricCatalogue.unreadableKinds, Double(wiring.directory.directory().unreadable.count))
            if let ingest { collect(ingest) }
            if let workers = wiring.workerStatistics { collect(workers.snapshot, &providers) }
            if let delivery = wiring.deliveryStatistics { collect(delivery.snapshot) }
        }
        return registry.text
    }

    private func collectPool() {
        let statistics = wiring.pool.statistics
        let connections = [
            ("idle", statistics.idle), ("lent", statistics.lent), ("connecting", statistics.connecting),
            ("maximum", wiring.pool.configuration.maximumConnections),
        ]
        bridge.replace(MetricCatalogue.poolConnections, connections.map { ([("state", $0)], Double($1)) })
        bridge.set(MetricCatalogue.poolWaiting, Double(statistics.waiting))
        bridge.count(MetricCatalogue.poolWaits, statistics.waits.count)
        bridge.count(MetricCatalogue.poolTimeouts, statistics.waits.timeouts)
        bridge.count(MetricCatalogue.poolWaitSeconds, statistics.waits.time / .seconds(1))
    }

    private func collect(_ ingest: IngestService) {
        let counts = ingest.statistics.snapshot
        for (definition, total) in [
            (MetricCatalogue.ingestBatches, counts.batches), (MetricCatalogue.ingestMarked, counts.marked),
            (MetricCatalogue.ingestRetries, counts.retries), (MetricCatalogue.ingestFenced, counts.fencedPartitions),
            (MetricCatalogue.ingestOutOfRange, counts.outOfRange), (MetricCatalogue.ingestLost, counts.lostToRetention),
            (MetricCatalogue.ingestRestarts, counts.restarts),
        ] {
            bridge.count(definition, total)
        }
        bridge.set(MetricCatalogue.ingestPartitions, Double(counts.assignedPartitions))
        bridge.set(MetricCatalogue.ingestBlocked, counts.blockedBy == nil ? 0 : 1)
        bridge.set(MetricCatalogue.ingestHalted, Double(ingest.halts.count))
        bridge.set(MetricCatalogue.deadLetterQuotaUse, ingest.quotaUse)
        bridge.set(MetricCatalogue.ingestStanding, Double(ingest.status.standingPartitions))
    }

    private func collect(_ delivery: DeliveryStatistics.Snapshot) {
        bridge.count(MetricCatalogue.deliveryMarked, delivery.marked)
        bridge.count(MetricCatalogue.deliverySpared, delivery.spared)
        bridge.count(MetricCatalogue.deliveryDatabaseErrors, delivery.databaseErrors)
        bridge.count(MetricCatalogue.deliverySeconds, delivery.latencySum)
        for (app, pushes) in delivery.pushes {
            for effect in PushEffect.all {
                bridge.count(
                    MetricCatalogue.deliveryPushes, pushes[effect] ?? 0, [("app", app), ("effect", effect.name)])
            }
        }
        for (outcome, devices) in [
            ("accepted", delivery.webhookDevices), ("failed", delivery.webhookFailures),
            ("stuck", delivery.webhookStuck),
        ] {
            for (app, count) in devices {
                bridge.count(MetricCatalogue.deliveryWebhookDevices, count, [("app", app), ("outcome", outcome)])
            }
        }
    }

    private func collect(_ workers: WorkerStatistics.Snapshot, _ providers: inout Set<ProviderKey>) {
        for (definition, total) in [
            (MetricCatalogue.claims, workers.claims), (MetricCatalogue.claimed, workers.claimed),
            (MetricCatalogue.stored, workers.stored), (MetricCatalogue.published, workers.published),
            (MetricCatalogue.unpublished, workers.unpublished), (MetricCatalogue.gateTimelines, workers.unchanged),
            (MetricCatalogue.fenced, workers.fenced), (MetricCatalogue.collected, workers.collected),
            (MetricCatalogue.swept, workers.swept), (MetricCatalogue.auditAppointed, workers.auditAppointed),
            (MetricCatalogue.stacksPlanned, workers.stacksPlanned),
            (MetricCatalogue.stacksPublished, workers.stacksPublished),
            (MetricCatalogue.stacksUnreadable, workers.stacksUnreadable),
            (MetricCatalogue.unreadableTimelines, workers.unreadable),
            (MetricCatalogue.databaseErrors, workers.databaseErrors),
            (MetricCatalogue.breakersOpened, workers.breakersOpened),
            (MetricCatalogue.limitsShrunk, workers.limitsShrunk),
            (MetricCatalogue.retriesRefused, workers.retriesRefused), (MetricCatalogue.poisonous, workers.poisonous),
        ] {
            bridge.count(definition, total)
        }
        for reason in ProviderFailure.Reason.allCases {
            let failures = workers.failed[reason, default: 0]
            bridge.count(MetricCatalogue.providerErrors, failures, [("reason", reason.rawValue)])
        }
        collect(workers.kinds)
        for breaker in workers.openBreakers where providers.count < Self.maximumProviders { providers.insert(breaker) }
        bridge.set(MetricCatalogue.breakersOpen, Double(workers.openBreakers.count))
        bridge.replace(
            MetricCatalogue.breakerState,
            providers.map { breaker in
                ([("app", breaker.app), ("provider", breaker.url)], workers.openBreakers.contains(breaker) ? 1 : 0)
            })
    }

    private func collect(_ counted: [Int32: KindCounters]) {
        for (labels, counters) in kinds.series(counted.map { ($0.key, [], $0.value) }, combining: +) {
            for (decision, count) in [
                ("reloaded", counters.reloaded), ("unchanged", counters.unchanged), ("failed", counters.failed),
                ("deferred", counters.deferred), ("slept", counters.slept), ("released", counters.released),
            ] {
                bridge.count(MetricCatalogue.decisions, count, labels + [("decision", decision)])
            }
        }
        let sum = counted.values.reduce(KindCounters(), +)
        bridge.count(MetricCatalogue.gateMessages, sum.messagesSpared)
        bridge.count(MetricCatalogue.gateBytes, sum.bytesSpared)
        bridge.count(MetricCatalogue.storedBytes, sum.bytesStored)
    }
}
