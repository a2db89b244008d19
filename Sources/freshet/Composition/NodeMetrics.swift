import ReloadIngest
import ReloadWorkers
import WidgetAPI

/// What `/metrics` on the health port tells: what the parts of this process have counted since its start.
enum NodeMetrics {
    static func page(ingest: IngestService?, workers: WorkerStatistics?) -> MetricsPage {
        MetricsPage {
            (ingest.map { of($0.statistics.snapshot, isHalted: $0.halt != nil) } ?? [])
                + (workers.map { of($0.snapshot) } ?? [])
        }
    }

    static func of(_ ingest: IngestStatistics.Snapshot, isHalted: Bool) -> [MetricsPage.Metric] {
        [
            .init("ingest_events", "Events that were accepted, in committed batches.", ingest.events),
            .init("ingest_batches", "Batches that were committed.", ingest.batches),
            .init("ingest_dead_letters", "Events that became dead letters.", ingest.deadLetters),
            .init("ingest_diverted", "Events of diverted apps, kept for replay.", ingest.diverted),
            .init("ingest_retries", "Transactions that were tried again.", ingest.retries),
            .init(
                "ingest_fenced_partitions", "Partitions dropped because another process has taken them.",
                ingest.fencedPartitions),
            .init(
                "ingest_offsets_out_of_range", "Times that the log did not have the next offset of a partition.",
                ingest.outOfRange),
            .init(
                "ingest_lost_to_retention", "Events that retention removed before they were read.",
                ingest.lostToRetention),
            .init(
                "ingest_consumer_restarts", "Kafka consumers that failed for good and were replaced.", ingest.restarts),
            .init(
                "ingest_assigned_partitions", .gauge, "Partitions that are assigned to this process.",
                ingest.assignedPartitions),
            .init(
                "ingest_blocked", .gauge, "1 while the database does not take the batch at hand.",
                ingest.blockedBy == nil ? 0 : 1),
            .init("ingest_halted", .gauge, "1 while ingest waits for an operator.", isHalted ? 1 : 0),
        ]
    }

    static func of(_ workers: WorkerStatistics.Snapshot) -> [MetricsPage.Metric] {
        [
            .init("workers_claimed", "Timelines that were claimed.", workers.claimed),
            .init("workers_provider_requests", "Requests to providers.", workers.requests),
            .init("workers_requested_timelines", "Timelines that those asked for.", workers.requestedTimelines),
            .init("workers_stored", "Timelines that were stored.", workers.stored),
            .init("workers_published", "Timelines that were published.", workers.published),
            .init("workers_failed", "Timelines that failed.", workers.failed.values.reduce(0, +)),
            .init("workers_fenced", "Timelines whose claim had gone.", workers.fenced),
            .init("workers_database_errors", "Statements that failed and were tried again.", workers.databaseErrors),
            .init("workers_breakers_open", .gauge, "Providers whose circuit breaker is open.", workers.breakersOpen),
            .init("workers_breakers_opened", "Times that a circuit breaker opened.", workers.breakersOpened),
            .init("workers_limits_shrunk", "Times that a provider's concurrency was halved.", workers.limitsShrunk),
            .init("workers_retries_refused", "Retries that the budget made wait.", workers.retriesRefused),
            .init("workers_poisonous", "Timelines that spoilt a whole batch.", workers.poisonous),
        ]
    }
}
