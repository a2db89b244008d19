package import PostgresClient
package import WidgetModel
import WidgetStore

/// Settings of a process's workers. The defaults suit a small installation.
package struct WorkerConfiguration: Sendable {
    /// Identity of the process among the registered workers.
    package var worker: PostgresUUID = {
        var generator = SystemRandomNumberGenerator()
        return PostgresUUID(high: generator.next(), low: generator.next())
    }()

    /// Topic of published timelines; compacted, keyed by timeline.
    package var topic = "freshet.timelines"
    /// Topic of the schedules of stacks; compacted, keyed by stack.
    package var suggestionsTopic = "freshet.suggestions"
    /// Topic of the placements and removals of suggestions' widgets, for ingest.
    package var widgetsTopic = "freshet.widgets"
    /// Whether the process publishes the decisions on timelines.
    package var publishDecisions = false
    /// Limits of automatic rotations and suggestions.
    package var rotation = RotationPolicy()

    /// Most concurrent requests, over all providers.
    package var concurrency = 32
    /// Initial limit of concurrent requests to one provider, which adapts to the provider.
    package var providerConcurrency = 8
    /// Most claimed and unfinished timelines.
    package var maximumTimelinesInFlight = 4_000
    /// Time after which other workers may take claimed timelines. Kinds with long timeouts get longer leases.
    package var lease = Duration.seconds(30)
    /// Longest wait of a new timeline for its snapshot.
    package var snapshotLimit = Duration.seconds(2)
    /// Polling interval of due work and sweeps without signals; jittered by a fifth.
    package var pollInterval = Duration.seconds(1)
    /// Time for which a stopping worker finishes timelines in flight before it gives back the rest.
    package var graceTime = Duration.seconds(20)
    /// Greatest age of the directory of kinds.
    package var directoryAge = Duration.seconds(5)

    /// Most timelines of one statement of the sweeper.
    package var sweepChunk = 1_000
    /// Number of a kind's timelines in the bulk lane at which the sweeper waits.
    package var bulkHighWater = 5_000
    package var maximumBulkLists: Int { max(1, bulkHighWater / Appending.limit) }
    /// Least time between two looks for sweeps: every claim makes room for a little more.
    package var sweepSpacing = Duration.milliseconds(50)

    /// Polling interval of a process that does not audit, and time after which another process takes the audit of one
    /// that has stopped.
    package var auditPollInterval = Duration.seconds(60)
    package var auditLease = Duration.seconds(120)
    /// Pause between two passes of the audit, and between its chunks.
    package var auditInterval = Duration.seconds(600)
    package var auditSpacing = Duration.seconds(1)
    /// Timelines of one statement of the audit.
    package var auditChunk = 2_000
    /// Time overdue after which the audit looks for an appointment's list: longer than any lease.
    package var auditSlack = Duration.seconds(900)
    /// Interval of the process's registration.
    package var registrationInterval = Duration.seconds(5)

    /// Time after a change of a kind's definition in which processes may place widgets by the old one: longer than the
    /// age of any directory.
    package var definitionSettling = Duration.seconds(60)

    /// Treatment of failing providers.
    package var protection = ProtectionRules()
    /// Size limit of a provider's answer.
    package var maximumResponseBytes = 16 * 1_024 * 1_024
    /// Delays between attempts for a timeline whose fetch fails.
    package var providerBackoff = Backoff.ofProviders
    /// Upper limit of a provider's `retryAfter`.
    package var maximumRetryAfter = Duration.seconds(86_400)

    /// Polling interval of placeholders; jittered by a fifth.
    package var placeholderInterval = Duration.seconds(15)
    /// Delays between attempts for a placeholder whose fetch fails.
    package var placeholderBackoff = Backoff(base: .seconds(60), cap: .seconds(6 * 3_600))

    /// Delays between attempts of a database statement.
    package var databaseBackoff = Backoff(base: .milliseconds(50), cap: .seconds(2))
    /// Most attempts of a database statement while the lease lasts.
    package var databaseAttempts = 6
    /// Delay of the next attempt to publish a timeline.
    package var publishRetryDelay = Duration.seconds(1)
    /// Delays between probes while publishing fails.
    package var outputBackoff = Backoff(base: .milliseconds(500), cap: .seconds(30))

    /// The rules completed with other settings.
    var protectionRules: ProtectionRules {
        var rules = protection
        rules.initialConcurrency = providerConcurrency
        rules.maximumConcurrency = concurrency
        rules.maximumRest = min(rules.maximumRest, maximumRetryAfter)
        return rules
    }

    package init() {}
}
