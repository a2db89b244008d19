import Synchronization
package import WidgetModel

/// A provider that is left alone just now.
package struct OpenBreaker: Hashable, Sendable {
    package let appID: Int32
    package let app: String
    package let url: String
}

package final class WorkerStatistics: Sendable {
    package struct Snapshot: Hashable, Sendable {
        /// Claims that took at least one timeline, and how many they took.
        package var claims = 0
        package var claimed = 0
        /// Requests to providers, and the timelines asked for in them.
        package var requests = 0
        package var requestedTimelines = 0
        /// Timelines that a provider gave, stored anew, published, and found unchanged.
        package var fetched = 0
        package var stored = 0
        package var published = 0
        package var unchanged = 0
        package var completed = 0
        package var failed: [ProviderFailure.Reason: Int] = [:]
        /// Timelines in answers that nobody had asked for.
        package var foreign = 0
        /// Results that came after their claim had moved on.
        package var fenced = 0
        package var unpublished = 0
        /// Timelines that the rules deferred, and that sleep because nobody looks at them.
        package var deferred = 0
        package var slept = 0
        /// Timelines given back, by a stopping worker or for want of output.
        package var released = 0
        package var collected = 0
        package var swept = 0
        /// Timelines that the audit found without an appointment; more than none is a fault of Freshet.
        package var auditAppointed = 0
        package var snapshotRequests = 0
        package var snapshots = 0
        /// Snapshots that were asked for and not got; their timelines were fetched all the same.
        package var snapshotFailures: [ProviderFailure.Reason: Int] = [:]
        /// Requests for placeholders, the placeholders stored, and those that were not got.
        package var placeholderRequests = 0
        package var placeholders = 0
        package var placeholderFailures: [ProviderFailure.Reason: Int] = [:]
        /// Schedules of stacks that were planned, and those published for a change.
        package var stacksPlanned = 0
        package var stacksPublished = 0
        package var databaseErrors = 0
        /// Why the latest attempt to claim failed; `nil` when it did not.
        package var claimTrouble: String?
        /// Providers that are left alone just now, and how often any was.
        package var openBreakers: Set<OpenBreaker> = []
        package var breakersOpened = 0
        /// How often a provider was given fewer requests at a time.
        package var limitsShrunk = 0
        /// Timelines whose retry waits because its provider fails too many.
        package var retriesRefused = 0
        /// Timelines given back because their provider is left alone.
        package var restingTimelines = 0
        /// Batches that a provider failed for and that were asked for in parts.
        package var bisected = 0
        /// Timelines that alone make their provider fail.
        package var poisonous = 0
        package var batchesTooLarge = 0
        /// By row id of the kind.
        package var kinds: [Int32: KindCounters] = [:]
    }

    private let counts = Mutex(Snapshot())

    package init() {}

    package var snapshot: Snapshot { counts.withLock { $0 } }

    func count(_ body: (inout sending Snapshot) -> Void) {
        counts.withLock { body(&$0) }
    }

    func count(kind id: Int32, _ body: (inout KindCounters) -> Void) {
        counts.withLock { body(&$0.kinds[id, default: KindCounters()]) }
    }
}
