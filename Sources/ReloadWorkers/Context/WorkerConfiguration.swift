package import PostgresClient
package import WidgetModel

/// How the workers of one process work. The defaults suit a small installation.
package struct WorkerConfiguration: Sendable {
    /// Identity of the process among the registered workers.
    package var worker: PostgresUUID = {
        var generator = SystemRandomNumberGenerator()
        return PostgresUUID(high: generator.next(), low: generator.next())
    }()

    /// Topic of the timelines that are published; compacted, keyed by timeline.
    package var topic = "freshet.timelines"
    /// Topic of the schedules of stacks; compacted, keyed by stack.
    package var suggestionsTopic = "freshet.suggestions"
    /// Topic on which widgets of suggestions are placed and removed, for ingest to apply.
    package var widgetsTopic = "freshet.widgets"
    /// Limits of automatic rotations and suggestions.
    package var rotation = RotationPolicy()

    /// Provider requests in flight, over all providers.
    package var concurrency = 32
    /// Requests in flight to one provider, to begin with; it grows while the provider takes them, up to what is free for
    /// all, and shrinks when it does not.
    package var providerConcurrency = 8
    /// Most timelines that are claimed and not yet done.
    package var maximumTimelinesInFlight = 4_000
    /// How long a claimed timeline is left to this worker before another may take it. Kinds whose timeout does not fit
    /// into it get a longer one.
    package var lease = Duration.seconds(30)
    /// How often to look for due work, and for sweeps, when nothing wakes the worker; jittered by a fifth.
    package var pollInterval = Duration.seconds(1)
    /// How long a stopping worker may go on to finish what is in flight; the rest is given back.
    package var graceTime = Duration.seconds(20)
    /// How old the directory of kinds may be.
    package var directoryAge = Duration.seconds(5)

    /// Most timelines that the sweeper looks at in one statement.
    package var sweepChunk = 1_000
    /// The sweeper leaves a kind alone while this many of its timelines wait in the bulk lane.
    package var bulkHighWater = 5_000
    /// Least time between two looks at what is to be swept: every claim makes room for a little more.
    package var sweepSpacing = Duration.milliseconds(50)

    /// Pause between two passes of the audit, and between its chunks.
    package var auditInterval = Duration.seconds(600)
    package var auditSpacing = Duration.seconds(1)
    /// Timelines that the audit looks at in one statement.
    package var auditChunk = 2_000
    /// How long an appointment may have been due before the audit looks for its list: longer than any lease.
    package var auditSlack = Duration.seconds(900)
    /// How often a worker process says that it is alive.
    package var registrationInterval = Duration.seconds(5)

    /// How long after a change of a kind's definition any process may still place widgets by the old one: longer than
    /// the directories of all of them may be old.
    package var definitionSettling = Duration.seconds(60)

    /// How providers that fail are treated; how many requests they get is said above.
    package var protection = ProtectionRules()
    /// Largest answer that is read from a provider.
    package var maximumResponseBytes = 16 * 1_024 * 1_024
    /// Delays between attempts for a timeline whose fetch fails.
    package var providerBackoff = Backoff(base: .seconds(1), cap: .seconds(900))
    /// The longest that a provider's `retryAfter` is believed.
    package var maximumRetryAfter = Duration.seconds(86_400)

    /// How often to look for placeholders to fetch; jittered by a fifth.
    package var placeholderInterval = Duration.seconds(15)
    /// Delays between attempts for a placeholder whose fetch fails.
    package var placeholderBackoff = Backoff(base: .seconds(60), cap: .seconds(6 * 3_600))

    /// Delays between attempts of a database statement.
    package var databaseBackoff = Backoff(base: .milliseconds(50), cap: .seconds(2))
    /// Most attempts of a database statement while the lease lasts.
    package var databaseAttempts = 6
    /// When a timeline that could not be published is tried again.
    package var publishRetryDelay = Duration.seconds(1)
    /// Delays between probes while Kafka takes nothing.
    package var outputBackoff = Backoff(base: .milliseconds(500), cap: .seconds(30))

    /// The rules with what is said elsewhere.
    var protectionRules: ProtectionRules {
        var rules = protection
        rules.initialConcurrency = providerConcurrency
        rules.maximumConcurrency = concurrency
        rules.maximumRest = min(rules.maximumRest, maximumRetryAfter)
        return rules
    }

    package init() {}
}
