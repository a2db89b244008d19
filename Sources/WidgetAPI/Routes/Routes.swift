// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import Hummingbird
import JSON
package import ReloadIngest
package import WidgetModel
import WidgetStore

/// Dependencies of the API besides the database.
package struct APIResources: Sendable {
    /// Keys of tokens; without them `/v1` is not served.
    package var keys: TokenKeyStore?
    /// Publisher of events; without it, the API is read-only.
    package var events: EventOutlet?
    package var lookup = EventLookup(reader: nil, topics: [])
    package var changes = TimelineChanges()
    package var metrics = MetricRegistry()
    /// Violation of the rules of egress by a provider's URL; nil for none.
    package var providerProblem: @Sendable (ProviderURL) async -> String? = { _ in nil }
    /// Sends a provider a test request, signed with the secrets. Returns nil if the provider accepts it.
    package var askProvider: @Sendable (_ url: String, _ secrets: [[UInt8]]) async -> TrialFailure? = { _, _ in nil }
    /// Source of dynamic options and defaults.
    package var configurations: (any ConfigurationProvider)?
    /// Configuration for replays of dead letters.
    package var ingest = IngestConfiguration()
    /// Limits of automatic rotations and suggestions, for explanations and simulations.
    package var rotation = RotationPolicy()
    /// Recorder of fetches by registered devices.
    package var fetches: FetchRecorder?
    /// Freshness objective of kinds without one of their own.
    package var objective = Duration.seconds(30)

    package init() {}
}

/// Failure of a test request to a provider: its class, and the status of the answer if there was one.
package typealias TrialFailure = (reason: String, message: String, status: Int?)

/// The routes of the API: functions of a caller with typed inputs and results, which the console calls too, and the
/// table that serves them.
///
/// An operation is for the caller's app, and for the caller's user if there is one.
struct Routes: Sendable {
    let store: WidgetStore
    let directory: DirectoryCache
    let resources: APIResources
    /// Longest wait for the outcome of an event.
    let outcomeWait: Duration

    /// Longest wait of a reader, in seconds.
    static let longestWait = 60
    /// Pause between looks for a timeline or a schedule that does not exist yet.
    static let betweenLooks = Duration.milliseconds(200)
    /// Polling interval while the change feed is down.
    private static let lookAgain = Duration.seconds(2)

    /// The table of all routes under `/v1`.
    var table: [APIRoute] {
        kindRoutes + widgetRoutes + configurationRoutes + timelineRoutes + stackRoutes + deviceRoutes + operatorRoutes
            + eventRoutes + deadLetterRoutes + providerRoutes
    }

    // MARK: Waiting

    var changes: TimelineChanges { resources.changes }

    /// Registers a waiter within the app's quota.
    func watch(
        _ mode: TimelineChanges.Mode, _ keys: Set<TimelineChanges.Key>, for caller: Caller
    ) throws(Problem) -> TimelineChanges.Watch {
        do throws(TimelineChanges.Refusal) {
            return try changes.watch(mode, keys, for: TimelineChanges.Holder(app: caller.app, user: caller.user))
        } catch {
            throw error == .quota ? caller.quotas.refusal(.connections, .seconds(5)) : .tooManyWaiting
        }
    }

    /// Longest time until a waiter looks again by itself.
    var patience: Duration { changes.isLive ? changes.patience : Self.lookAgain }
}
