import WidgetModel
import WidgetStore

/// A claimed timeline that is to be fetched.
///
/// A class, though a value, because every step copies it.
final class FetchItem: Sendable {
    let timeline: ClaimedTimeline
    /// The list that it came by, without its timelines.
    let list: LeasedList
    let kind: RegisteredKind
    /// Revision of what will be stored.
    let token: Int64
    /// Why it is fetched, and its budget once it is rendered.
    let rule: ReloadRule
    let ledger: BudgetLedger
    /// When the claim began and when its lease ends, on the worker's clock.
    let startedAt: Duration
    let leaseEnds: Duration

    init(
        timeline: ClaimedTimeline, list: LeasedList, kind: RegisteredKind, token: Int64, rule: ReloadRule,
        ledger: BudgetLedger, startedAt: Duration, leaseEnds: Duration
    ) {
        self.timeline = timeline
        self.list = list
        self.kind = kind
        self.token = token
        self.rule = rule
        self.ledger = ledger
        self.startedAt = startedAt
        self.leaseEnds = leaseEnds
    }

    var lane: ReloadLane { list.lane }
    var rules: ReloadRules { ReloadRules(kind.definition, developerMode: kind.isDeveloperMode) }
    var settled: SettledTimeline { SettledTimeline(list: list.hold, row: timeline.row) }
}

/// Timelines that one request asks for: of any kinds of an app that share the provider's URL.
struct FetchBatch: Sendable {
    let app: RegisteredApp
    let provider: ProviderKey
    let items: [FetchItem]
    var traces: [EventPosition: String] = [:]

    /// The most urgent of its timelines'.
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
    /// Canonical JSON, as it is stored and published.
    let content: [UInt8]
    let hash: ContentHash
    let policy: ReloadPolicy
    let lastEntry: Timestamp
    let lints: TimelineLints
    let fetchTime: Duration
}

/// A fetched timeline whose content is the stored one.
struct StoredTimeline: Sendable {
    let fetched: FetchedTimeline
    /// Whether the stored content changed just now: it is to be published.
    let isChanged: Bool
    /// Row as the store left it.
    let row: StoredRow
}
