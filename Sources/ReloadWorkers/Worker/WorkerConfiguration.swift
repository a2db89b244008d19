// SPDX-License-Identifier: Apache-2.0

package import Waiting
import WidgetEvents
package import WidgetModel
import WidgetStore

/// Settings of a process's workers. The defaults suit a small installation.
package struct WorkerConfiguration: Sendable {
    /// Identity of the process among the registered workers.
    package var worker = UInt128.random(in: 0 ... .max)

    /// Topic of published timelines; compacted, keyed by timeline.
    package var topic = OutputTopic.timelines
    /// Topic of the schedules of stacks; compacted, keyed by stack.
    package var suggestionsTopic = OutputTopic.suggestions
    /// Topic of the placements and removals of suggestions' widgets, for ingest.
    package var widgetsTopic = EventTopic.widgets.defaultName
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
    /// Least time between two looks for ready lists while some are left behind for want of room.
    package var claimSpacing = Duration.milliseconds(10)
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
    package var maximumBulkLists: Int { max(1, bulkHighWater / workListLimit) }
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
    package var definitionGrace = Duration.seconds(60)

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

// MARK: - Leases

extension WorkerConfiguration {
    /// Part of a lease reserved for the database, besides the request and the publishing.
    private static let databaseTime = Duration.seconds(5)

    /// The lease for a kind: covers a request up to the kind's timeout, the snapshot before it in the interactive lane,
    /// and the publishing after it.
    func lease(for kind: RegisteredKind, lane: ReloadLane, publishing: Duration) -> Duration {
        let snapshot = lane == .interactive ? kind.definition.snapshotLimit(snapshotLimit) : .zero
        return max(lease, snapshot + kind.definition.timeout + publishing + Self.databaseTime)
    }

    /// The lease for a kind, rounded up to a multiple of the configured one, so that there are few different ones.
    func roundedLease(for kind: RegisteredKind, lane: ReloadLane, publishing: Duration) -> Duration {
        let base = max(1, lease.wholeMicroseconds)
        let exact = lease(for: kind, lane: lane, publishing: publishing).wholeMicroseconds
        return .microseconds((exact + base - 1) / base * base)
    }

    /// The requests by lease, so that a kind with a long timeout does not prolong the leases of others after a crash.
    func grouped(
        _ requests: [ClaimRequest], kinds: [Int32: RegisteredKind], publishing: Duration
    ) -> [(lease: Duration, requests: [ClaimRequest])] {
        let groups = Dictionary(grouping: requests) { request in
            kinds[request.queue.kindID].map { kind in
                roundedLease(for: kind, lane: request.queue.lane, publishing: publishing)
            } ?? lease
        }
        return groups.sorted { $0.key < $1.key }.map { (lease: $0.key, requests: $0.value) }
    }
}

extension KindDefinition {
    /// Longest wait of a timeline for its snapshot; zero for kinds without snapshots.
    ///
    /// - Parameter limit: ``WorkerConfiguration/snapshotLimit``.
    package func snapshotLimit(_ limit: Duration) -> Duration { hasSnapshots ? min(timeout, limit) : .zero }
}
