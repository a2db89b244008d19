import WidgetModel
import WidgetStore

/// Why a claimed timeline is fetched, and what its budget is once it is rendered.
struct PlannedReload: Sendable {
    let rule: ReloadRule
    let ledger: BudgetLedger
}

/// Claimed timelines of one kind that hold one slot of its provider: one request, or some, one after the other.
struct ReloadBatch: Sendable {
    let kind: RegisteredKind
    let app: RegisteredApp
    let provider: ProviderKey
    let timelines: [ClaimedTimeline]
    var plans: [TimelineID: PlannedReload] = [:]
    /// When the claim began, on the worker's clock.
    var startedAt: Duration = .zero
    /// When the lease of the first ends, on the worker's clock.
    let leaseEnds: Duration
    /// The trace contexts of requests, by their positions.
    var traces: [EventPosition: String] = [:]

    /// The most urgent of its timelines'.
    var lane: ReloadLane { timelines.lazy.map(\.lane).min() ?? .interactive }

    /// Whether it is of timelines that are tried again.
    var isRetry: Bool { timelines.first.map { $0.attempts > 0 } ?? false }

    /// Whether all of it has failed so often, though its provider is asked, that one of its timelines may be what breaks
    /// the provider.
    var isSuspicious: Bool { timelines.allSatisfy { $0.attempts >= Self.suspiciousAttempts } }

    private static let suspiciousAttempts = 3

    /// What is asked for in one request each: first what is asked for the first time, then what is tried again, apart and
    /// in smaller portions, so that what fails for its content drags down neither the others nor all of its kind.
    var parts: [ReloadBatch] {
        let fresh = timelines.filter { $0.attempts == 0 }
        let retried = timelines.filter { $0.attempts > 0 }
        var parts = fresh.isEmpty ? [] : [keeping(fresh)]
        var start = 0
        while start < retried.count {
            let end = min(retried.count, start + Self.retrySize(retried[start].attempts, of: kind))
            parts.append(keeping(Array(retried[start..<end])))
            start = end
        }
        return parts
    }

    /// Never so small that the retries after an outage are a flood of requests; what is wrong in one is found by bisection.
    private static let smallestRetry = 25

    private static func retrySize(_ attempts: Int16, of kind: RegisteredKind) -> Int {
        let maxBatch = max(1, kind.definition.maxBatch)
        return max(min(maxBatch, smallestRetry), maxBatch >> (2 * min(Int(attempts), 2)))
    }

    /// The same batch with some of its timelines.
    func keeping(_ some: [ClaimedTimeline]) -> ReloadBatch {
        ReloadBatch(
            kind: kind, app: app, provider: provider, timelines: some, plans: plans, startedAt: startedAt,
            leaseEnds: leaseEnds, traces: traces)
    }

    var rules: ReloadRules { ReloadRules(kind.definition, developerMode: kind.isDeveloperMode) }

    func planned(_ timeline: ClaimedTimeline) -> PlannedReload {
        plans[timeline.id] ?? PlannedReload(rule: .none, ledger: timeline.state.ledger)
    }
}

/// Claimed timelines that no widget shows: to be collected.
struct CollectionBatch: Sendable {
    let timelines: [ClaimedTimeline]
    let leaseEnds: Duration
}

/// Claimed timelines that the rules do not let be fetched now.
struct DeferralBatch: Sendable {
    let timelines: [ClaimedTimeline]
    let deferrals: [Deferral]
    let leaseEnds: Duration
    /// By row id; for telling what was decided.
    var kinds: [Int32: RegisteredKind] = [:]
}

/// What is to be done with claimed timelines.
struct BatchPlan: Sendable {
    var reloads: [ReloadBatch] = []
    var collection: CollectionBatch?
    var deferral: DeferralBatch?
    /// Their kind, or its app, is not in the directory.
    var strays: [ClaimedTimeline] = []

    /// Decides by the rules, then groups by kind, and so by provider, the most urgent first and what is tried again last,
    /// into batches of the kind's `maxBatch`.
    ///
    /// - Parameter targets: as they were planned with: a provider may have been found to take smaller batches.
    init(
        claimed: [ClaimedTimeline], directory: KindDirectory, targets: [Int32: ClaimTarget] = [:],
        startedAt: Duration = .zero, leaseEnds: Duration
    ) {
        let orphans = claimed.filter(\.isOrphaned)
        if !orphans.isEmpty { collection = CollectionBatch(timelines: orphans, leaseEnds: leaseEnds) }
        let wanted = claimed.filter { !$0.isOrphaned }
        var waiting: [ClaimedTimeline] = []
        var deferrals: [Deferral] = []
        for (kindID, timelines) in Dictionary(grouping: wanted, by: \.kindID).sorted(by: { $0.key < $1.key }) {
            guard let kind = directory.kinds[kindID], let app = directory.apps[kind.app], app.id == kind.appID else {
                strays += timelines
                continue
            }
            let rules = ReloadRules(kind.definition, developerMode: kind.isDeveloperMode)
            var plans: [TimelineID: PlannedReload] = [:]
            for timeline in timelines {
                switch rules.plan(timeline.state, at: timeline.claimedAt) {
                case .reload(let rule, let ledger):
                    plans[timeline.id] = PlannedReload(rule: rule, ledger: ledger)
                case .wait(let time, let rule):
                    waiting.append(timeline)
                    deferrals.append(Deferral(timeline, until: time, rule: rule))
                case .sleep:
                    waiting.append(timeline)
                    deferrals.append(Deferral(timeline, until: nil, rule: .dormant))
                }
            }
            let target = targets[kindID] ?? ClaimTarget(kind)
            let urgentFirst = timelines.filter { plans[$0.id] != nil }
                .sorted { ($0.attempts, $0.lane, $0.claim) < ($1.attempts, $1.lane, $1.claim) }
            for start in stride(from: 0, to: urgentFirst.count, by: target.maxBatch) {
                let end = min(start + target.maxBatch, urgentFirst.count)
                reloads.append(
                    ReloadBatch(
                        kind: kind, app: app, provider: target.provider, timelines: Array(urgentFirst[start..<end]),
                        plans: plans, startedAt: startedAt, leaseEnds: leaseEnds))
            }
        }
        if !deferrals.isEmpty {
            deferral = DeferralBatch(
                timelines: waiting, deferrals: deferrals, leaseEnds: leaseEnds, kinds: directory.kinds)
        }
    }
}

extension Deferral {
    init(_ timeline: ClaimedTimeline, until time: Timestamp?, rule: ReloadRule) {
        self.init(
            id: timeline.id, claim: timeline.claim, requested: timeline.requested,
            kindGeneration: timeline.kindGeneration, appGeneration: timeline.appGeneration, until: time,
            lastActive: timeline.state.views.lastActive, rule: rule, reason: timeline.reason ?? .policy,
            cause: timeline.cause)
    }
}

extension ClaimTarget {
    init(_ kind: RegisteredKind) {
        self.init(
            appID: kind.appID, provider: ProviderKey(appID: kind.appID, url: kind.definition.providerURL),
            maxBatch: max(1, kind.definition.maxBatch), asksProvider: !kind.isRetired)
    }
}
