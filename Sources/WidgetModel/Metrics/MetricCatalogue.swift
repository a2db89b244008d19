/// Every metric that a process of Freshet exposes: the one list of their names. Tests compare alerts and dashboards with
/// it.
///
/// `MetricCatalogue.claims` is the definition of ``MetricDefinitions/claims``.
@dynamicMemberLookup
package enum MetricCatalogue {
    private static let definitions = MetricDefinitions()

    package static let all = Mirror(reflecting: definitions).children.compactMap { $0.value as? MetricDefinition }

    package static let byName = Dictionary(uniqueKeysWithValues: all.map { ($0.name, $0) })

    package static subscript(dynamicMember path: KeyPath<MetricDefinitions, MetricDefinition>) -> MetricDefinition {
        definitions[keyPath: path]
    }
}

/// Definitions of the metrics, as members of ``MetricCatalogue``.
package struct MetricDefinitions: Sendable {
    // MARK: The process

    package let buildInfo = MetricDefinition(
        "freshet_build_info", .gauge, labels: ["version", "role"], "1, with the version and the role of the process.")
    package let poolConnections = MetricDefinition(
        "freshet_pool_connections", .gauge, labels: ["state"],
        "Connections of this process to PostgreSQL: idle, lent, connecting, and the maximum.")
    package let poolWaiting = MetricDefinition(
        "freshet_pool_waiting", .gauge, "Callers that wait for a connection now.")
    package let poolWaits = MetricDefinition(
        "freshet_pool_waits_total", .counter, "Callers that had to wait for a connection.")
    package let poolWaitSeconds = MetricDefinition(
        "freshet_pool_wait_seconds_total", .counter, "Time that callers waited for a connection, added up.")
    package let poolTimeouts = MetricDefinition(
        "freshet_pool_timeouts_total", .counter, "Callers that waited for a connection in vain.")
    package let samples = MetricDefinition(
        "freshet_samples_total", .counter, labels: ["sample", "outcome"],
        "Readings of the database and of Kafka for these metrics: done, failed.")
    package let sampleSeconds = MetricDefinition(
        "freshet_sample_duration_seconds", .gauge, labels: ["sample"], "How long the latest reading took.")
    package let sampleTime = MetricDefinition(
        "freshet_sample_timestamp_seconds", .gauge, labels: ["sample"],
        "When the latest reading was done, in seconds since 1970: what it says is from then.")
    package let droppedSeries = MetricDefinition(
        "freshet_metrics_dropped_series_total", .counter,
        "Series that were not made because their metric has too many already.")

    // MARK: API

    package let apiWaiting = MetricDefinition(
        "freshet_api_waiting", .gauge, labels: ["sort"],
        "Requests that wait: poll (until a timeline changes or an event is applied) and stream (open streams).")

    package let apiRefusals = MetricDefinition(
        "freshet_api_refusals_total", .counter, labels: ["quota"],
        "Requests beyond a quota: requests of a token, or events, reloads, connections or dead-letters of an app.")

    // MARK: Ingest

    package let ingestEvents = MetricDefinition(
        "freshet_ingest_events_total", .counter, labels: ["type", "outcome"],
        "Events of committed batches: applied, dead_letter, diverted (they wait for their app), or dropped (too many wait)."
    )
    package let ingestDeadLetters = MetricDefinition(
        "freshet_ingest_dead_letters_total", .counter, labels: ["cause"], "Events that became dead letters.")
    package let ingestIgnored = MetricDefinition(
        "freshet_ingest_ignored_events_total", .counter, labels: ["type", "reason"],
        "Applied lifecycle events without effect: outdated, or their widget is unknown, removed or another user's.")
    package let ingestBatches = MetricDefinition(
        "freshet_ingest_batches_total", .counter, "Transactions that applied events.")
    package let ingestBatchEvents = MetricDefinition(
        "freshet_ingest_batch_events", .histogram(MetricDefinition.sizes), "Events in a transaction.")
    package let ingestApplySeconds = MetricDefinition(
        "freshet_ingest_apply_seconds", .histogram(MetricDefinition.seconds),
        "Time that a transaction took, its COMMIT included.")
    package let ingestEventAge = MetricDefinition(
        "freshet_ingest_event_age_seconds", .histogram(MetricDefinition.seconds),
        "Age of the oldest event of a batch when it was applied, by the message's own time.")
    package let ingestMarked = MetricDefinition(
        "freshet_ingest_marked_timelines_total", .counter, "Timelines that targeted requests marked.")
    package let ingestLag = MetricDefinition(
        "freshet_ingest_lag_messages", .gauge, labels: ["topic"],
        "Messages behind the last one fetched, of the partitions of this process.")
    package let ingestOldest = MetricDefinition(
        "freshet_ingest_oldest_unapplied_seconds", .gauge, labels: ["topic"],
        "Age of the oldest event that was received and not applied, of the partitions of this process; 0: none.")
    package let ingestRetries = MetricDefinition(
        "freshet_ingest_retries_total", .counter, "Transactions that were tried again.")
    package let ingestFenced = MetricDefinition(
        "freshet_ingest_fenced_partitions_total", .counter,
        "Partitions dropped because another process has taken them.")
    package let ingestOutOfRange = MetricDefinition(
        "freshet_ingest_offsets_out_of_range_total", .counter,
        "Times that the log did not have the next offset of a partition.")
    package let ingestLost = MetricDefinition(
        "freshet_ingest_lost_to_retention_total", .counter, "Events that retention removed before they were read.")
    package let ingestRestarts = MetricDefinition(
        "freshet_ingest_consumer_restarts_total", .counter, "Kafka consumers that failed for good and were replaced.")
    package let ingestPartitions = MetricDefinition(
        "freshet_ingest_assigned_partitions", .gauge, "Partitions that are assigned to this process.")
    package let ingestBlocked = MetricDefinition(
        "freshet_ingest_blocked", .gauge, "1 while the database does not take the batch at hand.")
    package let ingestHalted = MetricDefinition(
        "freshet_ingest_halted", .gauge, "Topics that are not applied until an operator resumes them.")
    package let deadLetterQuotaUse = MetricDefinition(
        "freshet_dead_letter_quota_use_ratio", .gauge,
        "Largest part of a quota of dead letters that an app or a topic uses.")
    package let ingestStanding = MetricDefinition(
        "freshet_ingest_standing_partitions", .gauge,
        "Partitions of this process that stand still until somebody sets their position.")

    // MARK: Workers

    package let claims = MetricDefinition(
        "freshet_workers_claims_total", .counter, "Claims that leased at least one work list.")
    package let claimed = MetricDefinition(
        "freshet_workers_claimed_timelines_total", .counter, "Timelines that were claimed.")
    package let decisions = MetricDefinition(
        "freshet_workers_decisions_total", .counter, labels: ["app", "kind", "decision"],
        "Claimed timelines by outcome: reloaded, unchanged, failed, deferred, slept, released.")
    package let deferrals = MetricDefinition(
        "freshet_workers_deferrals_total", .counter, labels: ["rule"],
        "Reloads that wait, by the rule: budget, spacing, or dormant.")
    package let reloadLatency = MetricDefinition(
        "freshet_reload_latency_seconds", .histogram(MetricDefinition.seconds), labels: ["reason"],
        "From when a reload was asked for, or the rules let it be, until its content was stored or found unchanged.")
    package let fenced = MetricDefinition(
        "freshet_workers_fenced_timelines_total", .counter,
        "Results that were discarded: their list was leased to another worker, or a newer result was stored.")
    package let published = MetricDefinition(
        "freshet_workers_published_timelines_total", .counter, "Timelines that Kafka has acknowledged.")
    package let unpublished = MetricDefinition(
        "freshet_workers_unpublished_timelines_total", .counter, "Messages that Kafka did not acknowledge.")
    package let stored = MetricDefinition(
        "freshet_workers_stored_timelines_total", .counter, "Timelines whose content was stored anew.")
    package let collected = MetricDefinition(
        "freshet_workers_collected_timelines_total", .counter, "Timelines that no widget showed, and that are gone.")
    package let swept = MetricDefinition(
        "freshet_workers_swept_timelines_total", .counter, "Timelines that the sweeper has listed or marked.")
    package let auditAppointed = MetricDefinition(
        "freshet_audit_appointed_total", .counter,
        "Timelines with something to do and no work list, which the audit has appointed anew. Above 0: a defect.")
    package let stacksPlanned = MetricDefinition(
        "freshet_stacks_planned_total", .counter, "Schedules of stacks that were planned.")
    package let stacksPublished = MetricDefinition(
        "freshet_stacks_published_total", .counter,
        "Schedules of stacks that Kafka has acknowledged, or whose suggestions were placed or removed.")

    // MARK: Delivery

    package let deliveryMarked = MetricDefinition(
        "freshet_delivery_marked_total", .counter, "Devices that were marked for a change of their widgets.")
    package let deliveryPushes = MetricDefinition(
        "freshet_delivery_pushes_total", .counter, labels: ["effect"],
        "Pushes by what their answer means; unanswered: the service was not reached; unusable: no key or token.")
    package let deliverySeconds = MetricDefinition(
        "freshet_delivery_seconds_total", .counter,
        "Seconds from the first change to the acceptance of its push, of all accepted ones.")
    package let deliverySpared = MetricDefinition(
        "freshet_delivery_spared_total", .counter,
        "Devices that had fetched the changes before they were told: nothing was sent.")
    package let deliveryWebhookDevices = MetricDefinition(
        "freshet_delivery_webhook_devices_total", .counter, labels: ["outcome"],
        "Devices in requests of webhooks that were accepted, or failed.")
    package let deliveryDatabaseErrors = MetricDefinition(
        "freshet_delivery_database_errors_total", .counter, "Statements that failed and were tried again.")
    package let devices = MetricDefinition(
        "freshet_devices", .gauge, labels: ["state"],
        "Registered devices; those that wait to be told; and those that were told a day ago and have fetched nothing since."
    )
    package let webhooks = MetricDefinition(
        "freshet_delivery_webhooks", .gauge, labels: ["state"], "Webhooks that fail, and those that are disabled.")
    package let deliveryChanges = MetricDefinition(
        "freshet_delivery_changes", .gauge, labels: ["app", "kind", "window"],
        "Changes of content within the window, counted for each widget on a registered device.")
    package let deliveryFetched = MetricDefinition(
        "freshet_delivery_fetched", .gauge, labels: ["app", "kind", "window"],
        "First fetches of changed content by devices, within the window.")
    package let deliveryLate = MetricDefinition(
        "freshet_delivery_late", .gauge, labels: ["app", "kind", "window"],
        "Those that were later than delivery.objective.")

    // MARK: Workers

    package let databaseErrors = MetricDefinition(
        "freshet_workers_database_errors_total", .counter, "Statements that failed and were tried again.")
    package let gateTimelines = MetricDefinition(
        "freshet_gate_spared_timelines_total", .counter,
        "Fetched timelines that showed nothing new: neither written nor published.")
    package let gateMessages = MetricDefinition(
        "freshet_gate_spared_messages_total", .counter, "Messages that were not published for that.")
    package let gateBytes = MetricDefinition(
        "freshet_gate_spared_bytes_total", .counter, "Content that was not written for that.")
    package let storedBytes = MetricDefinition(
        "freshet_gate_stored_bytes_total", .counter, "Content that was written.")

    // MARK: Providers

    package let providerRequests = MetricDefinition(
        "freshet_provider_requests_total", .counter, labels: ["outcome"],
        "Requests for timelines: answered, or why they failed as a whole.")
    package let providerQuestions = MetricDefinition(
        "freshet_provider_questions_total", .counter, labels: ["endpoint", "outcome"],
        "Requests for options and defaults of configurations: answered, or why they failed.")
    package let providerSeconds = MetricDefinition(
        "freshet_provider_request_seconds", .histogram(MetricDefinition.seconds), "Time that a request took.")
    package let providerBatch = MetricDefinition(
        "freshet_provider_batch_timelines", .histogram(MetricDefinition.sizes), "Timelines asked for in a request.")
    package let providerErrors = MetricDefinition(
        "freshet_provider_failed_timelines_total", .counter, labels: ["reason"],
        "Timelines that were not got, by the reason.")
    package let breakersOpen = MetricDefinition(
        "freshet_provider_breakers_open", .gauge, "Providers that are left alone now.")
    package let breakerState = MetricDefinition(
        "freshet_provider_breaker_open", .gauge, labels: ["app", "provider"],
        "1 for a provider that is left alone now; 0 once it is not any more.")
    package let breakersOpened = MetricDefinition(
        "freshet_provider_breakers_opened_total", .counter, "Times that a circuit breaker opened.")
    package let limitsShrunk = MetricDefinition(
        "freshet_provider_limits_shrunk_total", .counter, "Times that a provider's concurrency was halved.")
    package let retriesRefused = MetricDefinition(
        "freshet_provider_retries_refused_total", .counter, "Timelines whose retry the retry budget made wait.")
    package let poisonous = MetricDefinition(
        "freshet_provider_poisonous_timelines_total", .counter, "Timelines that spoilt a whole batch.")

    // MARK: Database

    package let readyLists = MetricDefinition(
        "freshet_work_lists_ready", .gauge, labels: ["lane"],
        "Work lists that are ready, paused kinds left out. Counted up to a bound in each kind: then at least so many.")
    package let due = MetricDefinition(
        "freshet_timelines_due", .gauge, labels: ["lane"],
        "Timelines in ready work lists, paused kinds left out; counted up to the same bound.")
    package let overdue = MetricDefinition(
        "freshet_timelines_overdue", .gauge, labels: ["lane"],
        "Timelines in work lists that have been ready for longer than metrics.overdueAfter; counted up to a bound.")
    package let oldestOverdue = MetricDefinition(
        "freshet_timelines_oldest_due_seconds", .gauge, labels: ["lane"],
        "Time since the oldest ready work list became ready; 0: none is.")
    package let kindOldestDue = MetricDefinition(
        "freshet_kind_oldest_due_seconds", .gauge, labels: ["app", "kind"],
        "The same by kind; of the kinds beyond the bound the largest, as other.")
    package let timelineAge = MetricDefinition(
        "freshet_timeline_age_seconds", .gauge, labels: ["app", "kind", "percentile"],
        "Time since timelines were last rendered, at the 50th and 99th percentile of a sample.")
    package let deadLettersWaiting = MetricDefinition(
        "freshet_dead_letters_waiting", .gauge, labels: ["cause"],
        "Dead letters that were neither replayed nor discarded; counted up to a bound.")
    package let divertedApps = MetricDefinition(
        "freshet_apps_diverted", .gauge, "Apps whose events wait in the database.")
    package let sweepsWaiting = MetricDefinition(
        "freshet_sweeps_waiting", .gauge, "Requests that the sweeper has still to materialise; counted up to a bound.")
    package let deadTuples = MetricDefinition(
        "freshet_postgres_dead_tuples", .gauge, labels: ["table"], "Dead row versions, as PostgreSQL estimates them.")
    package let liveTuples = MetricDefinition(
        "freshet_postgres_live_tuples", .gauge, labels: ["table"], "Rows, as PostgreSQL estimates them.")
    package let tableBytes = MetricDefinition(
        "freshet_postgres_table_bytes", .gauge, labels: ["table"], "Size of a table with its indexes.")
    package let xminAge = MetricDefinition(
        "freshet_postgres_oldest_xmin_transactions", .gauge,
        "How many transactions ago the oldest snapshot was taken that row versions are kept for.")
    package let xminSeconds = MetricDefinition(
        "freshet_postgres_oldest_transaction_seconds", .gauge,
        "Age of the oldest transaction that this role can see.")
}
