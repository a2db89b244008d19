import PostgresClient
import WidgetModel

@testable import KafkaClient
@testable import ReloadWorkers
@testable import WidgetStore

/// What the workers do with one claim, but for the waiting.
struct WorkerCases {
    private static let count = 100
    private static let app = "com.example.bank"
    private static let now = Timestamp(microseconds: 1_760_000_000_000_000)
    private static let dayInSeconds = 86_400

    /// To be fetched, all of it.
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
        claimed = Self.claim { _ in
            ReloadState(
                need: .budgeted, renderedAt: Self.now - .seconds(3_600), requestedAt: Self.now,
                views: ViewStatistics(viewsADay: 20, lastActive: Self.now))
        }
        directory = KindDirectory(
            apps: [RegisteredApp(id: 1, name: Self.app, isDeveloperMode: false, signingSecret: [])],
            kinds: [Self.kind("RecentPurchases", id: 1, app: Self.app)])
        answer = Self.answer(to: claimed.map(\.id))
    }

    private static func claim(_ state: (Int) -> ReloadState) -> [ClaimedTimeline] {
        (0..<count).map { index in
            let configuration = WidgetConfiguration(storedCanonical: #"{"card":"card-\#(index % 7)"}"#)
            let identity = TimelineIdentity(
                app: app, kind: "RecentPurchases", family: .systemSmall, configuration: configuration,
                locale: "en-GB", timeZone: "Europe/London", user: "user-\(index)")
            return ClaimedTimeline(
                id: identity.id, kindID: 1, lane: .push, claim: Int64(1_000 + index), claimedAt: now, dueAt: now,
                requested: 2, kindGeneration: 0, appGeneration: 0, publishedHash: nil, attempts: 0, isOrphaned: false,
                family: .systemSmall, configuration: configuration, locale: "en-GB", timeZone: "Europe/London",
                user: "user-\(index)", cause: EventPosition(topic: 0, partition: 1, offset: Int64(index)),
                reason: .push, state: state(index))
        }
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

    private func plan(_ claimed: [ClaimedTimeline]) -> BatchPlan {
        BatchPlan(claimed: claimed, directory: directory, leaseEnds: .seconds(60))
    }

    /// The rules, and the batches of what is fetched now: of ten timelines one is too early, and one sleeps.
    var plan: MeasuredCase {
        let claimed = Self.claim { index in
            let views = ViewStatistics(viewsADay: 20, lastActive: Self.now)
            return switch index % 10 {
            case 0:
                ReloadState(
                    need: .budgeted, renderedAt: Self.now - .seconds(1), requestedAt: Self.now, views: views)
            case 1:
                ReloadState(
                    need: .policy, renderedAt: Self.now - .seconds(100 * Self.dayInSeconds),
                    views: ViewStatistics(lastActive: Self.now - .seconds(100 * Self.dayInSeconds)))
            case 2: ReloadState(need: .first, views: views)
            case 3: ReloadState(need: .free, renderedAt: Self.now - .seconds(1), views: views)
            case 4, 5: ReloadState(need: .policy, renderedAt: Self.now - .seconds(3_600), views: views)
            default:
                ReloadState(
                    need: .budgeted, renderedAt: Self.now - .seconds(3_600), requestedAt: Self.now, views: views)
            }
        }
        return MeasuredCase(name: "plan", items: Self.count, expected: 80_20_10) { [self] in
            let plan = plan(claimed)
            let fetched = plan.reloads.reduce(0) { $0 + $1.timelines.count }
            let deferrals = plan.deferral?.deferrals ?? []
            return fetched * 10_000 + deferrals.count * 100 + deferrals.count { $0.until == nil }
        }
    }

    /// A provider's answer to timelines that can be stored.
    var parse: MeasuredCase {
        let batches = plan(claimed).reloads
        return MeasuredCase(name: "provider response parse", items: Self.count, expected: Self.count) { [answer] in
            batches.reduce(0) { count, batch in
                count + ((try? FetchOutcome(answer: answer, to: batch))?.fetched.count ?? 0)
            }
        }
    }

    /// From what a claim answered to the rows that complete it: leases and slots, the batches, the request's body, the
    /// parameters that store, the messages, the next times, the parameters that complete.
    var bookkeeping: MeasuredCase {
        let outcomes = fetched
        let inFlight = InFlight(signal: WorkSignal())
        let messages = TimelineMessages(topic: "freshet.timelines")
        return MeasuredCase(name: "claim to complete", items: Self.count, expected: 3 * Self.count) { [self] in
            inFlight.hold(claimed)
            var done = 0
            for batch in plan(claimed).reloads {
                inFlight.begin(batch.provider, batch.lane)
                for part in batch.parts {
                    guard part.requestBody.count > part.timelines.count else { return 0 }
                    var pipeline = PostgresPipeline()
                    _ = pipeline.append(
                        SaveContentInPlace(
                            outcomes.map {
                                ContentWrite(
                                    id: $0.timeline.id, claim: $0.timeline.claim, hash: $0.hash,
                                    content: String(decoding: $0.content, as: UTF8.self), tid: $0.timeline.tid)
                            }))
                    let saved = outcomes.map { SavedTimeline(fetched: $0, isChanged: true, publishedHash: nil) }
                    let published = saved.filter(\.needsPublishing).map {
                        messages.updated(
                            $0.fetched.timeline, of: part.kind, content: $0.fetched.content,
                            headers: part.traceHeaders(of: $0.fetched.timeline))
                    }
                    let rule = CompletionRule(batch: part, sinceClaim: .milliseconds(20))
                    let completions = saved.map {
                        rule.completion(of: $0.fetched, publishedHash: $0.fetched.hash, isChanged: true)
                    }
                    _ = pipeline.append(CompleteTimelinesInPlace(completions))
                    guard pipeline.count == 2 else { return 0 }
                    done += published.count { $0.value != nil } + completions.count
                }
                inFlight.end(batch.provider, batch.lane)
                done += inFlight.leases.count
                inFlight.drop(batch.timelines)
                inFlight.finish()
            }
            return inFlight.leases.isEmpty ? done : 0
        }
    }

    private var fetched: [FetchedTimeline] {
        plan(claimed).reloads.flatMap { batch in
            (try? FetchOutcome(answer: answer, to: batch, after: .milliseconds(10)))?.fetched ?? []
        }
    }

    /// Messages into librdkafka, until the sender is told of all of them.
    func producer() throws -> MeasuredCase {
        let kind = Self.kind("RecentPurchases", id: 1, app: Self.app)
        let messages = fetched.map {
            TimelineMessages(topic: "freshet.timelines").updated($0.timeline, of: kind, content: $0.content)
        }
        let thread = try ProducerThread()
        return MeasuredCase(name: "producer", items: messages.count, expected: Self.count) {
            thread.send(messages)
        }
    }
}
