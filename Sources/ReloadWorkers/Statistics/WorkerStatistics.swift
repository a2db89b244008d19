import Synchronization
package import WidgetModel
import WidgetStore

/// Provider of a kind's timelines: an endpoint of an app. Two apps at one URL are two providers.
package struct ProviderKey: Hashable, Sendable {
    package let appID: Int32
    /// Name of the app.
    package let app: String
    package let url: String
}

extension ProviderKey {
    init(_ kind: RegisteredKind) {
        self.init(appID: kind.appID, app: kind.app, url: kind.definition.providerURL)
    }
}

/// Latest requests for timelines to a provider.
package struct ProviderRecord: Hashable, Sendable {
    /// Most concurrent requests.
    package var limit = 0
    package var answeredAt: Timestamp?
    /// Duration of the latest answered request.
    package var latency: Duration?
    package var failedAt: Timestamp?
    package var failure: String?
}

package final class WorkerStatistics: Sendable {
    package struct Snapshot: Hashable, Sendable {
        /// Claims with at least one timeline, and their timelines.
        package var claims = 0
        package var claimed = 0
        /// Requests to providers, and their timelines.
        package var requests = 0
        package var requestedTimelines = 0
        /// Timelines fetched, stored, published, and found unchanged.
        package var fetched = 0
        package var stored = 0
        package var published = 0
        package var unchanged = 0
        package var completed = 0
        package var failed: [ProviderFailure.Reason: Int] = [:]
        /// Timelines in answers without a request.
        package var foreign = 0
        /// Results discarded for a later claim.
        package var fenced = 0
        package var unpublished = 0
        /// Timelines deferred by the rules, and put to sleep for want of views.
        package var deferred = 0
        package var slept = 0
        /// Timelines given back by a stopping worker or without output.
        package var released = 0
        package var collected = 0
        package var swept = 0
        /// Timelines given back, since only a newer version can read their rows.
        package var unreadable = 0
        /// Timelines that the audit found without an appointment; any is a fault of Freshet.
        package var auditAppointed = 0
        package var snapshotRequests = 0
        package var snapshots = 0
        /// Failed snapshots; their timelines are fetched all the same.
        package var snapshotFailures: [ProviderFailure.Reason: Int] = [:]
        /// Requests for placeholders, stored placeholders, and failed ones.
        package var placeholderRequests = 0
        package var placeholders = 0
        package var placeholderFailures: [ProviderFailure.Reason: Int] = [:]
        /// Schedules of stacks planned, and published for a change.
        package var stacksPlanned = 0
        package var stacksPublished = 0
        /// Schedules that were not planned, since the stored state of the person cannot be read.
        package var stacksUnreadable = 0
        package var databaseErrors = 0
        /// Error of the latest claim; nil after a success.
        package var claimTrouble: String?
        /// Providers with open breakers, and the number of openings.
        package var openBreakers: Set<ProviderKey> = []
        package var breakersOpened = 0
        /// Reductions of a provider's concurrency.
        package var limitsShrunk = 0
        /// Timelines whose retry waits for the provider's retry budget.
        package var retriesRefused = 0
        /// Timelines given back for an open breaker.
        package var restingTimelines = 0
        /// Timelines given back because they waited in the process until their lease was too short for a request.
        package var lateTimelines = 0
        /// Failed batches that were requested in parts.
        package var bisected = 0
        /// Timelines for which their provider fails.
        package var poisonous = 0
        package var batchesTooLarge = 0
        /// By row id of the kind.
        package var kinds: [Int32: KindCounters] = [:]
    }

    private let counts = Mutex(Snapshot())
    private let records = Mutex<[ProviderKey: ProviderRecord]>([:])

    package init() {}

    package var snapshot: Snapshot { counts.withLock { $0 } }

    /// Latest requests by provider.
    package var providers: [ProviderKey: ProviderRecord] { records.withLock { $0 } }

    func note(_ provider: ProviderKey, _ body: (inout ProviderRecord) -> Void) {
        records.withLock { body(&$0[provider, default: ProviderRecord()]) }
    }

    func forget(_ isForgotten: (ProviderKey) -> Bool) {
        records.withLock { $0 = $0.filter { !isForgotten($0.key) } }
        counts.withLock { $0.openBreakers = $0.openBreakers.filter { !isForgotten($0) } }
    }

    func count(_ body: (inout sending Snapshot) -> Void) {
        counts.withLock { body(&$0) }
    }

    func count(kind id: Int32, _ body: (inout KindCounters) -> Void) {
        counts.withLock { body(&$0.kinds[id, default: KindCounters()]) }
    }
}
