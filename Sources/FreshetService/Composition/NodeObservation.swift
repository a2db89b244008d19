import Logging
import Metrics
import PostgresClient
import ReloadIngest
import ReloadWorkers
import Tracing
package import WidgetAPI
import WidgetStore

/// The metrics of a node: their page, and the services that keep them up to date.
struct NodeObservation: Sendable {
    let page: MetricsPage
    let sampler: StoreSampler

    init(
        registry: PrometheusRegistry, settings: MetricsSettings, roles: ProcessRole, pool: PostgresPool,
        directory: DirectoryCache, ingest: IngestService?, workers: WorkerStatistics?, logger: Logger
    ) {
        let kinds = KindLabels(directory: directory, limit: settings.kinds)
        let metrics = NodeMetrics(pool: pool, ingest: ingest, workers: workers, kinds: kinds, role: roles)
        page = MetricsPage(registry) { metrics.collect() }
        sampler = StoreSampler(
            settings: settings, pool: pool, ingest: ingest, kinds: kinds, directory: directory, logger: logger)
    }
}

/// The one place where a process begins to listen to swift-metrics.
package enum Observation {
    /// - Returns: what keeps the metrics; nil when nothing would serve them.
    package static func begin(for settings: Settings) -> PrometheusRegistry? {
        InstrumentationSystem.bootstrap(TraceContextPropagator())
        guard settings.health.port != nil else { return nil }
        // Six decisions of each kind are the most series of a metric.
        let registry = PrometheusRegistry(maximumSeries: max(2_000, settings.metrics.kinds * 8))
        MetricsSystem.bootstrap(registry)
        return registry
    }
}
