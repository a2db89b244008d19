import AsyncHTTPClient
import Logging
import PostgresClient
import Synchronization
import TestSupport
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// A worker that takes one turn at a time, so that a test decides what happens in between.
struct TestWorker: Sendable {
    let store: TestStore
    let provider: StubProvider
    let publisher: RecordingPublisher
    let directory: DirectoryCache
    let context: WorkerContext

    var counts: WorkerStatistics.Snapshot { context.statistics.snapshot }
    var sweeper: Sweeper { Sweeper(context: context, directory: directory) }

    /// Another worker process on the same database, with the same provider and Kafka.
    func another() -> TestWorker {
        TestWorker(
            store: store, provider: provider, publisher: publisher, configuration: context.configuration,
            fetcher: context.fetcher, onStored: nil)
    }

    init(
        store: TestStore, provider: StubProvider, publisher: RecordingPublisher, configuration: WorkerConfiguration,
        fetcher: any ProviderFetching, onStored: (@Sendable (TimelineID, EventPosition?) -> Void)?
    ) {
        self.store = store
        self.provider = provider
        self.publisher = publisher
        let clock = WorkerClock()
        let signal = WorkSignal()
        directory = DirectoryCache(pool: store.pool)
        context = WorkerContext(
            configuration: configuration, pool: store.pool, fetcher: fetcher,
            output: OutputGate(publisher, configuration: configuration, clock: clock),
            inFlight: InFlight(signal: signal), signal: signal, sweepDemand: SweepDemand(signal: signal),
            statistics: WorkerStatistics(), clock: clock, onStored: onStored, logger: .silent)
    }

    /// Claims once, and runs what was claimed to its end; answers how many batches there were.
    @discardableResult
    func turn() async throws -> Int {
        let works = try await claim()
        await run(works)
        return works.count
    }

    /// Takes turns until nothing is due any more.
    func drain() async throws {
        while try await turn() > 0 {}
    }

    func claim() async throws -> [ClaimLoop.Work] {
        var loop = ClaimLoop(context: context, directory: directory)
        var works: [ClaimLoop.Work] = []
        _ = try await loop.turn { works.append($0) }
        return works
    }

    func run(_ works: [ClaimLoop.Work]) async {
        await withDiscardingTaskGroup { group in
            for work in works {
                group.addTask {
                    switch work {
                    case .reload(let batch): await BatchRunner(context: context).run(batch)
                    case .collection(let batch): await CollectionRunner(context: context).run(batch)
                    case .deferral(let batch): await DeferralRunner(context: context).run(batch)
                    }
                    context.inFlight.finish()
                }
            }
        }
    }
}

/// Lends a worker on a database of its own, with a provider that all kinds name.
func withWorker<Value: Sendable>(
    maxBatch: Int = 100, minimumSpacing: Duration = .seconds(300), developerMode: Bool = false,
    timeout: Duration = .seconds(10), allowing patterns: [String] = ["127.0.0.0/8"],
    configure: (inout WorkerConfiguration) -> Void = { _ in },
    onStored: (@Sendable (TimelineID, EventPosition?) -> Void)? = nil,
    _ body: (TestWorker) async throws -> Value
) async throws -> Value {
    var configuration = WorkerConfiguration()
    configuration.directoryAge = .zero
    configure(&configuration)
    return try await withStubProvider { provider in
        var apps = TestKinds.apps(
            provider: provider.url, maxBatch: maxBatch, minimumSpacing: minimumSpacing, developerMode: developerMode)
        for app in apps.indices {
            for kind in apps[app].kinds.indices { apps[app].kinds[kind].timeout = timeout }
        }
        return try await withStore(apps) { store in
            let egress = EgressGuard(try EgressPolicy(allowing: patterns))
            let http = HTTPClient(
                eventLoopGroupProvider: .singleton, configuration: ProviderClient.configuration(egress: egress))
            let worker = TestWorker(
                store: store, provider: provider, publisher: RecordingPublisher(), configuration: configuration,
                fetcher: ProviderClient(http: http, egress: egress), onStored: onStored)
            do {
                let value = try await body(worker)
                try await http.shutdown()
                return value
            } catch {
                try await http.shutdown()
                throw error
            }
        }
    }
}

extension Logger {
    static let silent = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
}
