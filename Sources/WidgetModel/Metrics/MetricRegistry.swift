// SPDX-License-Identifier: Apache-2.0

package import Metrics
import Synchronization

/// The metrics of a process: one line here, and one line where it is counted, as in `metrics.claims.increment()`.
///
/// A process has one registry, which is passed on as a value; a test has its own. `/metrics`, the console and tests
/// read it. As the factory of swift-metrics it also has the metrics of libraries.
package final class MetricRegistry: Sendable {
    /// The metrics for those who do not count but need names and definitions: tests compare alerts and dashboards with
    /// them.
    package static let catalogue = MetricRegistry()

    /// Media type of ``page``.
    package static let pageType = "text/plain; version=0.0.4; charset=utf-8"

    // MARK: The process

    package let buildInfo = gauge(
        "freshet_build_info", by: ["version", "role"],
        help: "Always 1; the labels have version and role of the process.")
    package let poolConnections = gauge(
        "freshet_pool_connections", by: ["state"],
        help: "Connections to PostgreSQL by state: idle, lent, connecting, and the maximum.")
    package let poolWaiting = gauge("freshet_pool_waiting", help: "Callers that wait for a connection now.")
    package let poolWaits = counter("freshet_pool_waits_total", help: "Callers that had to wait for a connection.")
    package let poolWaitSeconds = seconds(
        "freshet_pool_wait_seconds_total", help: "Sum of the time that callers waited for a connection.")
    package let poolTimeouts = counter(
        "freshet_pool_timeouts_total", help: "Callers that gave up waiting for a connection.")
    package let unreadableKinds = gauge(
        "freshet_unreadable_kinds",
        help: "Kinds whose stored definition this process cannot read. Only they stand still; events that need it wait."
    )
    package let samples = counter(
        "freshet_samples_total", by: ["sample", "outcome"],
        help: "Readings of the database and of Kafka for these metrics: done, failed.")
    package let sampleSeconds = gauge(
        "freshet_sample_duration_seconds", by: ["sample"], help: "Duration of the latest reading.")
    package let sampleTime = gauge(
        "freshet_sample_timestamp_seconds", by: ["sample"], help: "Time of the latest reading, in seconds since 1970.")
    package let droppedSeries = counter(
        "freshet_metrics_dropped_series_total", help: "Series that were dropped because their metric has too many.")

    // MARK: API

    package let apiWaiting = gauge(
        "freshet_api_waiting", by: ["sort"],
        help: "Waiting requests: poll (for a timeline or an outcome) and stream (open streams).")
    package let apiRefusals = counter(
        "freshet_api_refusals_total", by: ["quota"],
        help: "Requests beyond a quota: requests, events, reloads, connections or dead-letters.")

    // MARK: Ingest

    package let ingestEvents = counter(
        "freshet_ingest_events_total", by: ["type", "outcome"],
        help: "Events of committed batches: applied, dead_letter, diverted (held for their app) or dropped.")
    package let ingestDeadLetters = counter(
        "freshet_ingest_dead_letters_total", by: ["cause"], help: "Events that became dead letters.")
    package let ingestIgnored = counter(
        "freshet_ingest_ignored_events_total", by: ["type", "reason"],
        help: "Applied lifecycle events without effect: outdated, or of an unknown, removed or foreign widget.")
    package let ingestBatches = counter("freshet_ingest_batches_total", help: "Transactions that applied events.")
    package let ingestBatchEvents = sizes("freshet_ingest_batch_events", help: "Events in a transaction.")
    package let ingestApplySeconds = times(
        "freshet_ingest_apply_seconds", help: "Duration of a transaction, including COMMIT.")
    package let ingestEventAge = times(
        "freshet_ingest_event_age_seconds",
        help: "Age of the oldest event of a batch when it was applied, by the time of its message.")
    package let ingestMarked = counter(
        "freshet_ingest_marked_timelines_total", help: "Timelines that targeted requests marked.")
    package let ingestLag = gauge(
        "freshet_ingest_lag_messages", by: ["topic"],
        help: "Messages between the last one fetched and the end of the log, in assigned partitions.")
    package let ingestOldest = gauge(
        "freshet_ingest_oldest_unapplied_seconds", by: ["topic"],
        help: "Age of the oldest received event that is not applied, in assigned partitions; 0 for none.")
    package let ingestRetries = counter("freshet_ingest_retries_total", help: "Repeated transactions.")
    package let ingestFenced = counter(
        "freshet_ingest_fenced_partitions_total", help: "Partitions dropped because another process has taken them.")
    package let ingestOutOfRange = counter(
        "freshet_ingest_offsets_out_of_range_total", help: "Partitions whose next offset was not in the log.")
    package let ingestLost = counter(
        "freshet_ingest_lost_to_retention_total", help: "Events that retention removed before they were read.")
    package let ingestRestarts = counter(
        "freshet_ingest_consumer_restarts_total", help: "Kafka consumers that failed and were replaced.")
    package let ingestPartitions = gauge(
        "freshet_ingest_assigned_partitions", help: "Partitions that are assigned to this process.")
    package let ingestBlocked = gauge(
        "freshet_ingest_blocked", help: "1 while the database does not take the current batch.")
    package let ingestHalted = gauge(
        "freshet_ingest_halted", help: "Topics that are not applied until an operator resumes them.")
    package let deadLetterQuotaUse = gauge(
        "freshet_dead_letter_quota_use_ratio",
        help: "Largest used share of a quota of dead letters, over apps and topics.")
    package let ingestStanding = gauge(
        "freshet_ingest_standing_partitions",
        help: "Partitions that are not read until an operator sets their position.")

    // MARK: Workers

    package let claims = counter("freshet_workers_claims_total", help: "Claims that leased at least one work list.")
    package let claimed = counter("freshet_workers_claimed_timelines_total", help: "Claimed timelines.")
    package let decisions = counter(
        "freshet_workers_decisions_total", by: ["app", "kind", "decision"],
        help: "Claimed timelines by outcome: reloaded, unchanged, failed, deferred, slept, released.")
    package let deferrals = counter(
        "freshet_workers_deferrals_total", by: ["rule"], help: "Deferred reloads by rule: budget, spacing or dormant.")
    package let reloadLatency = times(
        "freshet_reload_latency_seconds", by: ["reason"],
        help: "Time from a request, or from when the rules allow it, until the content is stored or unchanged.")
    package let fenced = counter(
        "freshet_workers_fenced_timelines_total",
        help: "Discarded results: their list was leased to another worker, or a newer result was stored.")
    package let published = counter(
        "freshet_workers_published_timelines_total", help: "Timelines that Kafka acknowledged.")
    package let unpublished = counter(
        "freshet_workers_unpublished_timelines_total", help: "Messages that Kafka did not acknowledge.")
    package let stored = counter("freshet_workers_stored_timelines_total", help: "Timelines whose content was stored.")
    package let collected = counter(
        "freshet_workers_collected_timelines_total", help: "Deleted timelines that no widget showed.")
    package let swept = counter(
        "freshet_workers_swept_timelines_total", help: "Timelines that the sweeper listed or marked.")
    package let auditAppointed = counter(
        "freshet_audit_appointed_total",
        help: "Timelines with work but without a work list, which the audit appointed. Above 0: a defect.")
    package let databaseErrors = counter(
        "freshet_workers_database_errors_total", help: "Statements that failed and were repeated.")
    package let stacksPlanned = counter("freshet_stacks_planned_total", help: "Planned schedules of stacks.")
    package let stacksPublished = counter(
        "freshet_stacks_published_total",
        help: "Schedules that Kafka acknowledged, or whose suggestions were placed or removed.")
    package let unreadableTimelines = counter(
        "freshet_unreadable_timelines_total",
        help: "Claimed timelines that were given back, since this process does not know their family.")
    package let stacksUnreadable = counter(
        "freshet_stacks_unreadable_total",
        help: "Attempts to plan a stack of a person whose stored state cannot be read.")

    // MARK: Delivery

    package let deliveryMarked = counter(
        "freshet_delivery_marked_total", help: "Devices that were marked for a change of their widgets.")
    package let deliveryPushes = counter(
        "freshet_delivery_pushes_total", by: ["app", "effect"],
        help: "Pushes by app and effect; unanswered: the service was not reached; unusable: no key, token or URL.")
    package let deliverySeconds = seconds(
        "freshet_delivery_seconds_total", help: "Sum of the time from the first change to the acceptance of its push.")
    package let deliverySpared = counter(
        "freshet_delivery_spared_total", help: "Devices that fetched the changes before they were notified.")
    package let deliveryWebhookDevices = counter(
        "freshet_delivery_webhook_devices_total", by: ["app", "outcome"],
        help:
            "Devices in webhook requests by app: accepted, failed, and stuck: those of failed that had failed ten times before."
    )
    package let deliveryDatabaseErrors = counter(
        "freshet_delivery_database_errors_total", help: "Statements that failed and were repeated.")
    package let devices = gauge(
        "freshet_devices", by: ["state"],
        help: "Devices: registered, waiting for a notification, and notified a day ago without a fetch since.")
    package let webhooks = gauge(
        "freshet_delivery_webhooks", by: ["state"], help: "Webhooks that fail, and those that are disabled.")
    package let deliveryChanges = gauge(
        "freshet_delivery_changes", by: ["app", "kind", "window"],
        help: "Timelines that became stale on a registered device within the window, longer ago than the objective.")
    package let deliveryFetched = gauge(
        "freshet_delivery_fetched", by: ["app", "kind", "window"],
        help: "Timelines that became stale on a registered device within the window and were fetched.")
    package let deliveryMissed = gauge(
        "freshet_delivery_missed", by: ["app", "kind", "window"],
        help: "Those of freshet_delivery_changes that were fetched later than the objective, or not at all.")
    package let deliveryLag = gauge(
        "freshet_delivery_lag_seconds", by: ["stage"],
        help: "Age of the oldest change whose devices are not marked (mark), and of the longest due list (send).")

    // MARK: Gate

    package let gateTimelines = counter(
        "freshet_gate_spared_timelines_total",
        help: "Fetched timelines without a visible change, which were neither written nor published.")
    package let gateMessages = counter(
        "freshet_gate_spared_messages_total", help: "Messages that were not published because nothing visible changed.")
    package let gateBytes = counter(
        "freshet_gate_spared_bytes_total", help: "Content that was not written because nothing visible changed.")
    package let storedBytes = counter("freshet_gate_stored_bytes_total", help: "Written content.")

    // MARK: Providers

    package let providerRequests = counter(
        "freshet_provider_requests_total", by: ["outcome"],
        help: "Requests for timelines: answered, or the reason of the failure.")
    package let providerQuestions = counter(
        "freshet_provider_questions_total", by: ["endpoint", "outcome"],
        help: "Requests for options and defaults of configurations: answered, or the reason of the failure.")
    package let providerSeconds = times("freshet_provider_request_seconds", help: "Duration of a request.")
    package let providerBatch = sizes("freshet_provider_batch_timelines", help: "Timelines in a request.")
    package let providerErrors = counter(
        "freshet_provider_failed_timelines_total", by: ["reason"], help: "Timelines that were not received, by reason.")
    package let breakersOpen = gauge("freshet_provider_breakers_open", help: "Providers with an open circuit breaker.")
    package let breakerState = gauge(
        "freshet_provider_breaker_open", by: ["app", "provider"],
        help: "1 for a provider with an open circuit breaker; 0 after it closes.")
    package let breakersOpened = counter(
        "freshet_provider_breakers_opened_total", help: "Circuit breakers that opened.")
    package let limitsShrunk = counter(
        "freshet_provider_limits_shrunk_total", help: "Reductions of a provider's concurrency.")
    package let retriesRefused = counter(
        "freshet_provider_retries_refused_total", help: "Timelines whose retry the retry budget delayed.")
    package let poisonous = counter(
        "freshet_provider_poisonous_timelines_total", help: "Timelines that made a whole batch fail.")

    // MARK: Database

    package let readyLists = gauge(
        "freshet_work_lists_ready", by: ["lane"],
        help: "Ready work lists without those of paused kinds; counted up to a bound in each kind.")
    package let due = gauge(
        "freshet_timelines_due", by: ["lane"],
        help: "Timelines in ready work lists without those of paused kinds; counted up to the same bound.")
    package let overdue = gauge(
        "freshet_timelines_overdue", by: ["lane"],
        help: "Timelines in work lists that are ready for longer than metrics.overdueAfter; counted up to a bound.")
    package let oldestOverdue = gauge(
        "freshet_timelines_oldest_due_seconds", by: ["lane"],
        help: "Time since the oldest ready work list became ready; 0 for none.")
    package let kindOldestDue = gauge(
        "freshet_kind_oldest_due_seconds", by: ["app", "kind"],
        help: "Time since the oldest list of a kind became ready; beyond a bound of kinds, the largest as other.")
    package let timelineAge = gauge(
        "freshet_timeline_age_seconds", by: ["app", "kind", "percentile"],
        help: "Age of rendered timelines, at the 50th and 99th percentile of a sample.")
    package let deadLettersWaiting = gauge(
        "freshet_dead_letters_waiting", by: ["cause"],
        help: "Dead letters that are neither replayed nor discarded; counted up to a bound.")
    package let divertedApps = gauge("freshet_apps_diverted", help: "Apps whose events wait in the database.")
    package let sweepsWaiting = gauge(
        "freshet_sweeps_waiting", help: "Requests that the sweeper has not finished; counted up to a bound.")
    package let deadTuples = gauge(
        "freshet_postgres_dead_tuples", by: ["table"], help: "Dead row versions, as PostgreSQL estimates them.")
    package let liveTuples = gauge(
        "freshet_postgres_live_tuples", by: ["table"], help: "Rows, as PostgreSQL estimates them.")
    package let tableBytes = gauge(
        "freshet_postgres_table_bytes", by: ["table"], help: "Size of a table with its indexes.")
    package let xminAge = gauge(
        "freshet_postgres_oldest_xmin_transactions",
        help: "Age of the oldest snapshot that row versions are kept for, in transactions.")
    package let xminSeconds = gauge(
        "freshet_postgres_oldest_transaction_seconds", help: "Age of the oldest transaction that this role can see.")

    // MARK: Other state

    /// Most kinds with series of their own.
    private let kindLimit: Int
    private let kinds = Mutex<Set<[String]>>([])
    /// Metrics of libraries by name.
    private let foreign = Mutex<[String: any AnyMetric]>([:])
    /// Number of series of libraries that were refused.
    private let refused = Atomic(0)

    /// - Parameter kinds: most kinds with series of their own.
    package init(kinds: Int = 100) {
        kindLimit = kinds
    }

    /// The metrics of the catalogue.
    package var all: [any AnyMetric] { Mirror(reflecting: self).children.compactMap { $0.value as? any AnyMetric } }

    /// Exposes the counts without labels whose names begin so, at 0. A component calls it at its start, so that first
    /// increments count as increases, and processes of other roles do not show them.
    package func begin(_ prefixes: String...) {
        for metric in all where prefixes.contains(where: { metric.definition.name.hasPrefix($0) }) {
            let definition = metric.definition
            if definition.labels.isEmpty, definition.instrument != .gauge { _ = metric.series([]) }
        }
    }

    /// Values of the labels `app` and `kind`. The first kinds that are seen have their own, up to the limit; all others
    /// share `other`.
    package func labels(app: String, kind: String) -> [String] {
        kinds.withLock { known in
            let own = [app, kind]
            guard !known.contains(own) else { return own }
            guard known.count < kindLimit else { return ["other", "other"] }
            known.insert(own)
            return own
        }
    }

    /// The page in Prometheus' text format, in the order of the names.
    package var page: String {
        let shown = all + foreign.withLock { Array($0.values) }
        droppedSeries.raise(to: Int64(shown.reduce(refused.load(ordering: .relaxed)) { $0 + $1.dropped }))
        var text = ""
        for metric in shown.sorted(by: { $0.definition.name < $1.definition.name }) { metric.write(to: &text) }
        return text
    }
}

// MARK: - Libraries

extension MetricRegistry: MetricsFactory {
    /// The series of a library's metric. It is not shown if the name has a metric of another type or with other labels.
    private func series<Series: MetricSeries>(
        _ label: String, _ instrument: MetricDefinition.Instrument, _ dimensions: [(String, String)],
        _ make: @escaping @Sendable () -> Series
    ) -> Series {
        let name = MetricDefinition.metricName(label)
        let dimensions = dimensions.sorted { $0.0 < $1.0 }
        let (labels, values) = (dimensions.map { MetricDefinition.labelName($0.0) }, dimensions.map(\.1))
        let metric = foreign.withLock { foreign -> (any AnyMetric)? in
            if let known = foreign[name] { return known }
            guard !all.contains(where: { $0.definition.name == name }), foreign.count < 1_000 else { return nil }
            let new = Metric(MetricDefinition(name, instrument, labels: labels, label), make) { $0 }
            foreign[name] = new
            return new
        }
        if let metric, metric.definition.labels == labels, metric.definition.instrument == instrument,
            let series = metric.series(values) as? Series
        {
            return series
        }
        refused.add(1, ordering: .relaxed)
        return make()
    }

    package func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        series(label, .counter, dimensions) { CounterSeries() }
    }

    package func makeFloatingPointCounter(
        label: String, dimensions: [(String, String)]
    ) -> any FloatingPointCounterHandler {
        series(label, .counter, dimensions) { CounterSeries() }
    }

    package func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        series(label, .gauge, dimensions) { GaugeSeries() }
    }

    package func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
        guard aggregate else { return series(label, .gauge, dimensions) { GaugeSeries() } }
        return series(label, .histogram(MetricDefinition.sizes), dimensions) { HistogramSeries(MetricDefinition.sizes) }
    }

    package func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        series(label, .histogram(MetricDefinition.seconds), dimensions) { HistogramSeries(MetricDefinition.seconds) }
    }

    // Series stay for the life of the process, so that totals do not go back.
    package func destroyCounter(_ handler: any CounterHandler) {}
    package func destroyFloatingPointCounter(_ handler: any FloatingPointCounterHandler) {}
    package func destroyMeter(_ handler: any MeterHandler) {}
    package func destroyRecorder(_ handler: any RecorderHandler) {}
    package func destroyTimer(_ handler: any TimerHandler) {}
}

// MARK: - Instruments

extension Metric where Instrument == Counter {
    package func increment(by amount: Int = 1) { self().increment(by: amount) }

    /// Brings the count to a total that is counted elsewhere; a smaller one has no effect.
    package func raise(to total: Int64) { (series([]) as? CounterSeries)?.raise(to: total) }
}

extension Metric where Instrument == FloatingPointCounter {
    package func increment(by amount: Double) { self().increment(by: amount) }

    /// Brings the sum to a total that is counted elsewhere; a smaller one has no effect.
    package func raise(to total: Double) { (series([]) as? CounterSeries)?.raise(to: total) }
}

extension Metric where Instrument == Meter {
    package func set(_ value: Double) { self().set(value) }
    package func set(_ value: some BinaryInteger) { self().set(Double(value)) }

    /// Sets the gauges with these values of the labels, and removes all others.
    package func replace(_ values: [[String]: Double]) {
        for (labels, value) in values { self(labels).set(value) }
        keep { values[$0] != nil }
    }
}

extension Metric where Instrument == Timer {
    package func record(_ duration: Duration) { self().record(duration: duration) }
}

extension Metric where Instrument == Recorder {
    package func record(_ value: Int) { self().record(value) }
}

private func counter(_ name: String, by labels: [String] = [], help: String) -> Metric<Counter> {
    Metric(MetricDefinition(name, .counter, labels: labels, help), CounterSeries.init) {
        Counter(label: name, dimensions: [], handler: $0, factory: NOOPMetricsHandler.instance)
    }
}

/// A counter of seconds.
private func seconds(_ name: String, help: String) -> Metric<FloatingPointCounter> {
    Metric(MetricDefinition(name, .counter, help), CounterSeries.init) {
        FloatingPointCounter(label: name, dimensions: [], handler: $0, factory: NOOPMetricsHandler.instance)
    }
}

private func gauge(_ name: String, by labels: [String] = [], help: String) -> Metric<Meter> {
    Metric(MetricDefinition(name, .gauge, labels: labels, help), GaugeSeries.init) {
        Meter(label: name, dimensions: [], handler: $0, factory: NOOPMetricsHandler.instance)
    }
}

/// A histogram of times.
private func times(_ name: String, by labels: [String] = [], help: String) -> Metric<Timer> {
    let bounds = MetricDefinition.seconds
    return Metric(
        MetricDefinition(name, .histogram(bounds), labels: labels, help), { HistogramSeries(bounds) },
        { Timer(label: name, dimensions: [], handler: $0, factory: NOOPMetricsHandler.instance) })
}

/// A histogram of batch sizes.
private func sizes(_ name: String, help: String) -> Metric<Recorder> {
    let bounds = MetricDefinition.sizes
    return Metric(
        MetricDefinition(name, .histogram(bounds), help), { HistogramSeries(bounds) },
        { Recorder(label: name, dimensions: [], aggregate: true, handler: $0, factory: NOOPMetricsHandler.instance) })
}
