import WidgetModel
import WidgetStore

/// Claimed timelines of one kind: one request to its provider.
struct ReloadBatch: Sendable {
    let kind: RegisteredKind
    let app: RegisteredApp
    let provider: ProviderKey
    let timelines: [ClaimedTimeline]
    /// When the lease of the first ends, on the worker's clock.
    let leaseEnds: Duration
}

/// Claimed timelines that no widget shows: to be collected.
struct CollectionBatch: Sendable {
    let timelines: [ClaimedTimeline]
    let leaseEnds: Duration
}

/// What is to be done with claimed timelines.
struct BatchPlan: Sendable {
    var reloads: [ReloadBatch] = []
    var collection: CollectionBatch?
    /// Their kind, or its app, is not in the directory.
    var strays: [ClaimedTimeline] = []

    /// Groups timelines by kind, and so by provider, the most urgent first, into batches of the kind's `maxBatch`.
    init(claimed: [ClaimedTimeline], directory: KindDirectory, leaseEnds: Duration) {
        let orphans = claimed.filter(\.isOrphaned)
        if !orphans.isEmpty { collection = CollectionBatch(timelines: orphans, leaseEnds: leaseEnds) }
        let wanted = claimed.filter { !$0.isOrphaned }
        for (kindID, timelines) in Dictionary(grouping: wanted, by: \.kindID).sorted(by: { $0.key < $1.key }) {
            guard let kind = directory.kinds[kindID], let app = directory.apps[kind.app], app.id == kind.appID else {
                strays += timelines
                continue
            }
            let target = ClaimTarget(kind)
            let urgentFirst = timelines.sorted { ($0.lane, $0.claim) < ($1.lane, $1.claim) }
            for start in stride(from: 0, to: urgentFirst.count, by: target.maxBatch) {
                let end = min(start + target.maxBatch, urgentFirst.count)
                reloads.append(
                    ReloadBatch(
                        kind: kind, app: app, provider: target.provider, timelines: Array(urgentFirst[start..<end]),
                        leaseEnds: leaseEnds))
            }
        }
    }
}

extension ClaimTarget {
    init(_ kind: RegisteredKind) {
        self.init(
            appID: kind.appID, provider: ProviderKey(appID: kind.appID, url: kind.definition.providerURL),
            maxBatch: max(1, kind.definition.maxBatch))
    }
}
