import WidgetModel
import WidgetStore

/// A claimed timeline to fetch. A class, since every step copies it.
final class FetchItem: Sendable {
    let timeline: ClaimedTimeline
    /// Its list, without the timelines.
    let list: LeasedList
    let kind: RegisteredKind
    /// Revision of the content to store.
    let token: Int64
    /// Reason of the fetch, and the budget after the render.
    let rule: ReloadRule
    let ledger: BudgetLedger
    /// Begin of the claim and end of its lease, on the worker's clock.
    let startedAt: Duration
    let leaseEnds: Duration

    init(
        timeline: ClaimedTimeline, list: LeasedList, kind: RegisteredKind, token: Int64, rule: ReloadRule,
        ledger: BudgetLedger, startedAt: Duration, leaseEnds: Duration
    ) {
        (self.timeline, self.list, self.kind, self.token) = (timeline, list, kind, token)
        (self.rule, self.ledger, self.startedAt, self.leaseEnds) = (rule, ledger, startedAt, leaseEnds)
    }

    var lane: ReloadLane { list.lane }
    var rules: ReloadRules { ReloadRules(kind.definition, developerMode: kind.isDeveloperMode) }
    var settled: SettledTimeline { SettledTimeline(list: list.hold, row: timeline.row) }
}

/// Timelines of one request, of any kinds of an app with the same provider URL.
struct FetchBatch: Sendable {
    let app: RegisteredApp
    let provider: ProviderKey
    let items: [FetchItem]
    var traces: [EventPosition: String] = [:]

    /// The most urgent lane of its timelines.
    var lane: ReloadLane { items.lazy.map(\.lane).min() ?? .interactive }
    var leaseEnds: Duration { items.lazy.map(\.leaseEnds).min() ?? .zero }
    var startedAt: Duration { items.lazy.map(\.startedAt).min() ?? .zero }
    var timeout: Duration { items.lazy.map(\.kind.definition.timeout).max() ?? .zero }

    /// Whether the batch retries timelines whose last fetch failed.
    var isRetry: Bool { items.first.map { $0.timeline.attempts > 0 } ?? false }

    /// Whether every timeline of the batch has failed several times, so that one of them may be crashing the provider.
    var isSuspicious: Bool { items.allSatisfy { $0.timeline.attempts >= Self.suspiciousAttempts } }

    private static let suspiciousAttempts = 3

    func keeping(_ some: [FetchItem]) -> FetchBatch {
        FetchBatch(app: app, provider: provider, items: some, traces: traces)
    }
}

struct FetchedTimeline: Sendable {
    let item: FetchItem
    let parsed: ParsedTimeline
    let fetchTime: Duration
}

/// A fetched timeline whose content is the stored one.
struct StoredTimeline: Sendable {
    let fetched: FetchedTimeline
    /// Whether the stored content changed and has to be published.
    let isChanged: Bool
    /// Row as the store left it.
    let row: StoredRow
}
