import WidgetModel

@testable import KafkaClient
@testable import ReloadWorkers
@testable import WidgetStore

/// What the workers do with one claim, but for the waiting.
struct WorkerCases {
    private static let count = 100
    private static let app = "com.example.bank"
    private static let now = Timestamp(microseconds: 1_760_000_000_000_000)

    private let claimed: [ClaimedTimeline]
    private let directory: KindDirectory
    /// The provider's answer for all of the claim, of 650 bytes a timeline.
    private let answer: [UInt8]

    static func kind(_ name: String, id: Int32, app: String) -> RegisteredKind {
        RegisteredKind(
            id: id, appID: 1, app: app, isDeveloperMode: false,
            definition: KindDefinition(name: name, providerURL: "https://bank.example", maxBatch: 100, placeholder: [:])
        )
    }

    init() {
        claimed = (0..<Self.count).map { index in
            let configuration = WidgetConfiguration(storedCanonical: #"{"card":"card-\#(index % 7)"}"#)
            let identity = TimelineIdentity(
                app: Self.app, kind: "RecentPurchases", family: .systemSmall, configuration: configuration,
                locale: "en-GB", timeZone: "Europe/London", user: "user-\(index)")
            return ClaimedTimeline(
                id: identity.id, kindID: 1, lane: .push, claim: Int64(1_000 + index), claimedAt: Self.now,
                dueAt: Self.now,
                requested: 2, kindGeneration: 0, appGeneration: 0, publishedHash: nil, attempts: 0, isOrphaned: false,
                family: .systemSmall, configuration: configuration, locale: "en-GB", timeZone: "Europe/London",
                user: "user-\(index)", cause: EventPosition(topic: 0, partition: 1, offset: Int64(index)),
                reason: .push,
                state: ReloadState(
                    need: .budgeted, renderedAt: Self.now - .seconds(3_600), requestedAt: Self.now,
                    ledger: BudgetLedger(), views: ViewStatistics(viewsADay: 20, lastActive: Self.now)))
        }
        directory = KindDirectory(
            apps: [RegisteredApp(id: 1, name: Self.app, isDeveloperMode: false, signingSecret: [])],
            kinds: [Self.kind("RecentPurchases", id: 1, app: Self.app)])
        answer = Self.answer(to: claimed.map(\.id))
    }

    /// Five entries each, as a provider of a bank would give them.
    private static func answer(to ids: [TimelineID]) -> [UInt8] {
        let timelines = ids.enumerated().map { index, id in
            let entries = (0..<5).map { entry in
                """
                {"date": "2026-01-0\(entry + 1)T09:00:00Z", "content": {"title": "Purchase \(index)", \
                "amount": \(index).\(entry)5, "currency": "GBP", "merchant": "Shop \(entry)", "pending": false}}
                """
            }
            return
                #"{"id": "\#(id)", "policy": {"after": "2026-01-06T00:00:00Z"}, "entries": [\#(entries.joined(separator: ", "))]}"#
        }
        return Array(#"{"timelines": [\#(timelines.joined(separator: ", "))]}"#.utf8)
    }

    /// The rules: whether a claimed timeline is fetched now.
    var plan: MeasuredCase {
        let rules = ReloadRules(Self.kind("RecentPurchases", id: 1, app: Self.app).definition, developerMode: false)
        return MeasuredCase(name: "plan", items: Self.count) { [claimed] in
            var fetched = 0
            for timeline in claimed {
                if case .reload = rules.plan(timeline.state, at: timeline.claimedAt) { fetched += 1 }
            }
            return fetched
        }
    }

    /// A provider's answer to timelines that can be stored.
    var parse: MeasuredCase {
        let ids = claimed.map(\.id)
        return MeasuredCase(name: "provider response parse", items: Self.count) { [answer] in
            (try? ProviderResponse.parse(answer, requested: ids).outcomes.count) ?? 0
        }
    }

    /// From what a claim answered to the rows that complete it: the batches, the request's body, what was fetched and is to
    /// be stored, the next times, the messages.
    var bookkeeping: MeasuredCase {
        let outcomes = fetched
        return MeasuredCase(name: "claim to complete", items: Self.count) { [claimed, directory] in
            let plan = BatchPlan(claimed: claimed, directory: directory, leaseEnds: .seconds(60))
            var sum = 0
            for batch in plan.reloads {
                sum += batch.requestBody.count
                let rule = CompletionRule(batch: batch, sinceClaim: .milliseconds(20))
                let completions = outcomes.map {
                    rule.completion(of: $0, publishedHash: $0.hash, isChanged: true)
                }
                sum += completions.count
                let messages = TimelineMessages(topic: "freshet.timelines")
                for fetched in outcomes {
                    sum +=
                        messages.updated(fetched.timeline, of: batch.kind, content: fetched.content).value?.count ?? 0
                }
            }
            return sum
        }
    }

    private var fetched: [FetchedTimeline] {
        guard let response = try? ProviderResponse.parse(answer, requested: claimed.map(\.id)) else { return [] }
        return zip(claimed, response.outcomes).compactMap { timeline, outcome in
            guard case .timeline(let parsed) = outcome else { return nil }
            return FetchedTimeline(
                timeline: timeline, content: parsed.content, hash: parsed.hash, policy: parsed.policy,
                lastEntry: parsed.lastEntryDate, lints: parsed.lints, fetchTime: .milliseconds(10))
        }
    }

    /// Messages to the batch that the producer's thread hands over, until all are acknowledged.
    var producer: MeasuredCase {
        let kind = Self.kind("RecentPurchases", id: 1, app: Self.app)
        let messages = fetched.map {
            TimelineMessages(topic: "freshet.timelines").updated($0.timeline, of: kind, content: $0.content)
        }
        return MeasuredCase(name: "producer", items: messages.count) {
            let batch = SendBatch(messages)
            var bytes = 0
            while batch.waiting > 0 {
                let index = batch.handedOver
                bytes += batch.messages[index].byteCount
                batch.advance()
                _ = batch.complete(index, .success(KafkaDelivery(partition: 0, offset: Int64(index))))
            }
            return bytes
        }
    }
}
