// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import Logging
import PostgresClient
import WidgetModel

@testable import ReloadWorkers
@testable import WidgetStore

/// The way of claimed timelines of several kinds through the steps of the workers, without Kafka, PostgreSQL and the
/// provider: everything up to the parameters of the statements, the request's body and the messages.
struct PipelineCase {
    private static let kinds = 4
    /// Timelines of a list.
    private static let inList = 5
    private static let now = Timestamp(microseconds: 1_767_225_600_000_000)
    private static let leaseEnds = Duration.seconds(30)

    private struct NoProvider: ProviderFetching {
        func fetch(_ call: ProviderCall) async throws -> [UInt8] { throw CancellationError() }
    }

    private let context: WorkerContext
    private let writer: TimelineWriter
    private let queue = FetchQueue()
    private let directory: KindDirectory
    private let claim: Claim
    private let answer: [UInt8]
    /// The rows as the database would return them.
    private let written: [WrittenTimeline]

    init(ids: [TimelineID], answer: [UInt8], app: String) {
        let configuration = WorkerConfiguration()
        let logger = Logger(label: "benchmarks") { _ in SwiftLogNoOpLogHandler() }
        let clock = WorkerClock()
        context = WorkerContext(
            configuration: configuration,
            pool: PostgresPool(configuration: PostgresConfiguration(connectionString: ""), logger: logger),
            fetcher: NoProvider(),
            output: TimelineProducer(
                deliveryTimeout: .seconds(5), backoff: configuration.databaseBackoff, clock: clock, send: { _ in [] }),
            signals: WorkSignals(), clock: clock, onStored: nil, logger: logger)
        writer = TimelineWriter(context: context)
        self.answer = answer
        let kinds = (1...Self.kinds).map { WorkerCases.kind("Kind\($0)", id: Int32($0), app: app) }
        directory = KindDirectory(
            apps: [RegisteredApp(id: 1, name: app, isDeveloperMode: false, signingSecret: [])], kinds: kinds)
        let timelines = ids.enumerated().map { index, id in
            Self.timeline(row: Int64(index + 1), id: id, kindID: Int32(index / Self.inList % Self.kinds + 1))
        }
        let lists = stride(from: 0, to: timelines.count, by: Self.inList).map { start in
            let some = Array(timelines[start..<min(start + Self.inList, timelines.count)])
            return LeasedList(
                id: Int64(start + 1), kindID: some[0].kindID, lane: .push, dueAt: Self.now, lease: 7, timelines: some)
        }
        claim = Claim(token: 7, lists: lists)
        written = timelines.map { WrittenTimeline($0) }
    }

    /// A timeline with content that was pushed anew.
    private static func timeline(row: Int64, id: TimelineID, kindID: Int32) -> ClaimedTimeline {
        ClaimedTimeline(
            row: row, id: id, kindID: kindID, state: TimelineState(requested: 2, rendered: 1, freeRequested: 2),
            kind: KindGenerations(), revision: 5, contentRevision: 5, hash: ContentHash(high: 1, low: 2), attempts: 0,
            listedAt: now, renderedAt: now - .seconds(3_600), requestedAt: now, viewedAt: now, ledger: BudgetLedger(),
            views: ViewStatistics(), family: .systemSmall, hasUnknownFamily: false,
            configuration: WidgetConfiguration(storedCanonical: #"{"card":"card-\#(row)"}"#), locale: "en-GB",
            timeZone: "Europe/London", user: "user-\(row)-of-the-bank",
            cause: EventPosition(topic: 0, partition: 3, offset: row), reason: .push, readAt: now)
    }

    /// Takes the timelines from the claim to the end of their lists.
    ///
    /// - Returns: the number of messages, if everything else was made for as many timelines.
    func run() -> Int {
        let began = context.clock.elapsed
        let (ready, _) = context.leases.enter(claims(startedAt: began))
        let providers = queue.append(Decisions(ready).fetches)
        guard let provider = providers.first,
            var batch = queue.next(provider, sizeLimit: .max, admits: { _, _ in true })
        else { return 0 }
        let all = batch.jobs.indices
        let body = batch.jobs[...].requestBody
        guard body.count > all.count, (try? context.read(answer, into: &batch, all, after: .zero)) == all.count else {
            return 0
        }
        let answered = context.clock.elapsed
        for index in all { writer.compute(&batch.jobs[index], over: batch.jobs[index].timeline, at: answered) }
        let stores = PostgresQuery.replaceContent(batch.jobs)
        let results = TimelineWriter.results(written, of: batch.jobs)
        for index in all { batch.jobs[index].written = results[index] }
        writer.report(batch.jobs, discarded: 0)
        var made = context.messages
        let messages = all.map { index in
            let (timeline, claim) = (batch.jobs[index].timeline, batch.jobs[index].claim)
            return made.updated(
                timeline, of: claim.kind, revision: claim.token, content: batch.jobs[index].content ?? [])
        }
        for index in all { batch.jobs[index].published = batch.jobs[index].claim.token }
        let (closed, _) = context.leases.end(batch.jobs)
        var pipeline = PostgresPipeline()
        _ = pipeline.append(stores)
        _ = pipeline.append(
            .endLists(closed.map { (hold: $0.list.hold, isCompared: false) }, worker: context.worker))
        return closed.count == claim.lists.count && context.leases.open == 0 ? messages.count : 0
    }

    private func claims(startedAt: Duration) -> [(claim: ListClaim, timelines: [ClaimedTimeline])] {
        var claims: [(claim: ListClaim, timelines: [ClaimedTimeline])] = []
        for list in claim.lists {
            guard let kind = directory.kinds[list.kindID], let app = directory.apps[kind.app] else { continue }
            let claim = ListClaim(
                list, app: app, kind: kind, token: claim.token, startedAt: startedAt,
                leaseEnds: startedAt + Self.leaseEnds)
            claims.append((claim: claim, timelines: list.timelines))
        }
        return claims
    }
}
