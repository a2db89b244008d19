import Metrics
import PostgresClient
import ReloadIngest
import ReloadWorkers
import Synchronization
import WidgetModel
import WidgetStore

/// Hands what the parts of this process have counted on to swift-metrics: at every scrape, from memory.
final class NodeMetrics: Sendable {
    private let pool: PostgresPool
    private let ingest: IngestService?
    private let workers: WorkerStatistics?
    private let poolMetrics: PoolMetrics
    private let ingestMetrics: IngestTotals?
    private let workerMetrics: WorkerTotals?
    /// One at a time: totals are followed, not added.
    private let isCollecting = Mutex(())

    init(
        pool: PostgresPool, ingest: IngestService?, workers: WorkerStatistics?, kinds: KindLabels, role: ProcessRole
    ) {
        self.pool = pool
        self.ingest = ingest
        self.workers = workers
        poolMetrics = PoolMetrics()
        ingestMetrics = ingest.map { _ in IngestTotals() }
        workerMetrics = workers.map { _ in WorkerTotals(kinds: kinds) }
        Meter(
            label: MetricCatalogue.buildInfo.name,
            dimensions: [("version", FreshetNode.version), ("role", role.rawValue)]
        ).set(1)
    }

    func collect() {
        isCollecting.withLock { _ in
            poolMetrics.follow(pool.statistics, maximum: pool.configuration.maximumConnections)
            if let ingest {
                ingestMetrics?.follow(
                    ingest.statistics.snapshot, halted: ingest.halts.count, quotaUse: ingest.quotaUse,
                    standing: ingest.status.standingPartitions)
            }
            if let workers { workerMetrics?.follow(workers.snapshot) }
        }
    }
}

private struct PoolMetrics {
    private static func state(_ name: String) -> Meter {
        Meter(label: MetricCatalogue.poolConnections.name, dimensions: [("state", name)])
    }

    private let idle = PoolMetrics.state("idle")
    private let lent = PoolMetrics.state("lent")
    private let connecting = PoolMetrics.state("connecting")
    private let maximum = PoolMetrics.state("maximum")
    private let waiting = Meter(label: MetricCatalogue.poolWaiting.name)
    private let waits = FollowingCounter(MetricCatalogue.poolWaits)
    private let timeouts = FollowingCounter(MetricCatalogue.poolTimeouts)
    private let waitSeconds = FloatingPointCounter(label: MetricCatalogue.poolWaitSeconds.name)
    private let waited = WaitedTime()

    private final class WaitedTime: Sendable {
        let last = Mutex(Duration.zero)
    }

    func follow(_ statistics: PostgresPool.Statistics, maximum most: Int) {
        idle.set(statistics.idle)
        lent.set(statistics.lent)
        connecting.set(statistics.connecting)
        maximum.set(most)
        waiting.set(statistics.waiting)
        waits.follow(statistics.waits.count)
        timeouts.follow(statistics.waits.timeouts)
        let more = waited.last.withLock { last in
            defer { last = statistics.waits.time }
            return statistics.waits.time - last
        }
        waitSeconds.increment(by: more / .seconds(1))
    }
}

private struct IngestTotals {
    private let batches = FollowingCounter(MetricCatalogue.ingestBatches)
    private let marked = FollowingCounter(MetricCatalogue.ingestMarked)
    private let retries = FollowingCounter(MetricCatalogue.ingestRetries)
    private let fenced = FollowingCounter(MetricCatalogue.ingestFenced)
    private let outOfRange = FollowingCounter(MetricCatalogue.ingestOutOfRange)
    private let lost = FollowingCounter(MetricCatalogue.ingestLost)
    private let restarts = FollowingCounter(MetricCatalogue.ingestRestarts)
    private let partitions = Meter(label: MetricCatalogue.ingestPartitions.name)
    private let blocked = Meter(label: MetricCatalogue.ingestBlocked.name)
    private let halted = Meter(label: MetricCatalogue.ingestHalted.name)
    private let quotaUse = Meter(label: MetricCatalogue.deadLetterQuotaUse.name)
    private let standing = Meter(label: MetricCatalogue.ingestStanding.name)

    func follow(_ ingest: IngestStatistics.Snapshot, halted topics: Int, quotaUse use: Double, standing count: Int) {
        batches.follow(ingest.batches)
        marked.follow(ingest.marked)
        retries.follow(ingest.retries)
        fenced.follow(ingest.fencedPartitions)
        outOfRange.follow(ingest.outOfRange)
        lost.follow(ingest.lostToRetention)
        restarts.follow(ingest.restarts)
        partitions.set(ingest.assignedPartitions)
        blocked.set(ingest.blockedBy == nil ? 0 : 1)
        halted.set(topics)
        quotaUse.set(use)
        standing.set(count)
    }
}

private struct WorkerTotals {
    /// Most providers that are named when they are left alone.
    private static let maximumProviders = 100
    private typealias Path = any KeyPath<WorkerStatistics.Snapshot, Int> & Sendable

    private let kinds: KindTotals
    private let totals: [(counter: FollowingCounter, total: Path)]
    private let decisions = FollowingCounters(MetricCatalogue.decisions)
    private let errors = FollowingCounters(MetricCatalogue.providerErrors)
    private let gateMessages = FollowingCounter(MetricCatalogue.gateMessages)
    private let gateBytes = FollowingCounter(MetricCatalogue.gateBytes)
    private let storedBytes = FollowingCounter(MetricCatalogue.storedBytes)
    private let breakersOpen = Meter(label: MetricCatalogue.breakersOpen.name)
    private let breakers = GaugeSet(MetricCatalogue.breakerState)
    private let named = Named()

    private final class Named: Sendable {
        /// Those that have been left alone since the process started.
        let providers = Mutex<Set<OpenBreaker>>([])
    }

    init(kinds: KindLabels) {
        self.kinds = KindTotals(kinds)
        let paths: [(MetricDefinition, Path)] = [
            (MetricCatalogue.claims, \.claims), (MetricCatalogue.claimed, \.claimed),
            (MetricCatalogue.stored, \.stored), (MetricCatalogue.published, \.published),
            (MetricCatalogue.unpublished, \.unpublished), (MetricCatalogue.gateTimelines, \.unchanged),
            (MetricCatalogue.fenced, \.fenced), (MetricCatalogue.collected, \.collected),
            (MetricCatalogue.swept, \.swept), (MetricCatalogue.auditAppointed, \.auditAppointed),
            (MetricCatalogue.databaseErrors, \.databaseErrors),
            (MetricCatalogue.breakersOpened, \.breakersOpened), (MetricCatalogue.limitsShrunk, \.limitsShrunk),
            (MetricCatalogue.retriesRefused, \.retriesRefused), (MetricCatalogue.poisonous, \.poisonous),
        ]
        totals = paths.map { (FollowingCounter($0), $1) }
    }

    func follow(_ workers: WorkerStatistics.Snapshot) {
        for (counter, total) in totals { counter.follow(workers[keyPath: total]) }
        for reason in ProviderFailure.Reason.allCases {
            errors.follow(workers.failed[reason, default: 0], [("reason", reason.rawValue)])
        }
        follow(workers.kinds)
        breakersOpen.set(workers.openBreakers.count)
        follow(workers.openBreakers)
    }

    private func follow(_ counted: [Int32: KindCounters]) {
        var sum = KindCounters()
        for counters in counted.values { sum = sum + counters }
        for (labels, counters) in kinds.follow(counted) { follow(counters, labels) }
        gateMessages.follow(sum.messagesSpared)
        gateBytes.follow(sum.bytesSpared)
        storedBytes.follow(sum.bytesStored)
    }

    private func follow(_ counters: KindCounters, _ labels: [(String, String)]) {
        for (decision, count) in [
            ("reloaded", counters.reloaded), ("unchanged", counters.unchanged), ("failed", counters.failed),
            ("deferred", counters.deferred), ("slept", counters.slept), ("released", counters.released),
        ] {
            decisions.follow(count, labels + [("decision", decision)])
        }
    }

    private func follow(_ open: Set<OpenBreaker>) {
        let named = named.providers.withLock { providers in
            for breaker in open where providers.count < Self.maximumProviders { providers.insert(breaker) }
            return providers
        }
        breakers.replace(
            named.map { breaker in
                ([("app", breaker.app), ("provider", breaker.url)], open.contains(breaker) ? 1 : 0)
            })
    }
}
