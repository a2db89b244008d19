// SPDX-License-Identifier: Apache-2.0

import AsyncHTTPClient
import Logging
import PostgresClient
import Synchronization
import TestSupport
import Waiting
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// A worker that takes one turn at a time, so that tests control the steps in between.
struct TestWorker: Sendable {
    let store: TestStore
    let provider: StubProvider
    let publisher: RecordingPublisher
    let directory: DirectoryCache
    let context: WorkerContext
    let log = RecordedLog()
    let pipeline: Pipeline
    private let works = Works()
    private let engine: TestEngine

    var metrics: MetricRegistry { context.metrics }
    /// Failures of fallback content by reason, from the lines of the log.
    func failures(logged text: String) -> [String: Int] {
        log.lines.filter { $0.text == text }.reduce(into: [:]) { counts, line in
            counts["\(line.metadata["reason"] ?? "")", default: 0] += Int("\(line.metadata["count"] ?? "")") ?? 0
        }
    }

    var sweeper: Sweeper { Sweeper(context: context, directory: directory) }

    /// Creates another worker process on the same database, with the same provider and Kafka.
    func another(
        fetcher: (any ProviderFetching)? = nil, pool: PostgresPool? = nil, clock: WorkerClock = WorkerClock(),
        decisions: DecisionRecorder? = nil,
        configure: (inout WorkerConfiguration) -> Void = { _ in }
    ) -> TestWorker {
        var configuration = context.configuration
        configuration.worker = WorkerConfiguration().worker
        configure(&configuration)
        return TestWorker(
            store: store, provider: provider, publisher: publisher, configuration: configuration,
            fetcher: fetcher ?? context.fetcher, engine: engine, pool: pool, clock: clock,
            onDecisions: decisions?.record)
    }

    fileprivate init(
        store: TestStore, provider: StubProvider, publisher: RecordingPublisher, configuration: WorkerConfiguration,
        fetcher: any ProviderFetching, engine: TestEngine, pool: PostgresPool? = nil,
        clock: WorkerClock = WorkerClock(), onStored: (@Sendable (TimelineID, EventPosition?) -> Void)? = nil,
        onDecisions: (@Sendable ([TimelineDecidedEvent]) -> Void)? = nil
    ) {
        self.store = store
        self.provider = provider
        self.publisher = publisher
        self.engine = engine
        let pool = pool ?? store.pool
        directory = DirectoryCache(pool: pool)
        context = WorkerContext(
            configuration: configuration, pool: pool, fetcher: fetcher,
            output: TimelineProducer(
                deliveryTimeout: publisher.deliveryTimeout, backoff: configuration.outputBackoff, clock: clock
            ) { await publisher.publish($0) },
            signals: WorkSignals(), clock: clock, onStored: onStored, logger: log.logger,
            onDecisions: onDecisions)
        pipeline = Pipeline(context: context, directory: directory)
        engine.start(self)
    }

    /// Claims once and finishes the work. Returns the number of claimed timelines.
    @discardableResult
    func turn() async throws -> Int {
        let count = try await claim()
        try await finish()
        return count
    }

    /// Takes turns until no list is ready.
    func drain() async throws {
        var claims: Int
        repeat {
            claims = metrics.claims.total()
            try await turn()
        } while metrics.claims.total() > claims
    }

    /// Claims and decides; the work waits for ``finish()``. Returns the number of claimed timelines.
    func claim() async throws -> Int {
        works.hold()
        return try await start()
    }

    /// Claims and starts the work. Returns the number of claimed timelines.
    @discardableResult
    func start() async throws -> Int {
        let before = metrics.claimed.total()
        var loop = ClaimLoop(context: context, directory: directory, pipeline: pipeline)
        _ = try await loop.turn()
        return metrics.claimed.total() - before
    }

    /// Releases waiting work, waits until none is under way, and ends the lists.
    ///
    /// - Parameter endsLists: `false` leaves the lists leased, as after a killed worker.
    func finish(endsLists: Bool = true) async throws {
        works.release()
        guard try await context.leases.drained(within: Patience.limit, clock: context.clock) else {
            throw StillUnderWay(timelines: context.leases.held)
        }
        try await works.ended()
        if endsLists { while await pipeline.closer.endSome() {} }
    }

    /// Sweeps for as long as lists have room.
    func sweep() async throws {
        while try await sweeper.pass() {}
    }

    /// Registers the worker, as the service does before its first claim.
    func register() async throws {
        _ = try await store.pool.query(.registerWorker(context.worker))
    }

    /// Runs the pipeline's work as the service does.
    fileprivate func work() async {
        async let patient: Void = run(pipeline.patientWorks)
        await run(pipeline.works)
        await patient
    }

    private func run(_ stream: AsyncStream<Pipeline.Work>) async {
        await withDiscardingTaskGroup { group in
            for await work in stream {
                works.begin()
                group.addTask {
                    try? await works.released()
                    if !Task.isCancelled { await pipeline.run(work) }
                    works.end()
                }
            }
        }
    }
}

private struct StillUnderWay: Error {
    let timelines: Int
}

/// Work that is under way or held back.
private final class Works: Sendable {
    private let state = Mutex((running: 0, isHeld: false))
    private let changes = Signal()

    func hold() { state.withLock { $0.isHeld = true } }

    func release() {
        state.withLock { $0.isHeld = false }
        changes.signal()
    }

    func begin() { state.withLock { $0.running += 1 } }

    func end() {
        state.withLock { $0.running -= 1 }
        changes.signal()
    }

    func released() async throws { try await wait { !$0.isHeld } }

    func ended() async throws { try await wait { $0.running == 0 } }

    private func wait(until condition: (_ state: (running: Int, isHeld: Bool)) -> Bool) async throws {
        while true {
            let version = changes.version
            if condition(state.withLock { $0 }) { return }
            try await changes.wait(past: version)
        }
    }
}

/// Runs the work of a test's workers until the test ends.
private final class TestEngine: Sendable {
    private let workers: AsyncStream<TestWorker>
    private let added: AsyncStream<TestWorker>.Continuation

    init() {
        (workers, added) = AsyncStream.makeStream()
    }

    func start(_ worker: TestWorker) { added.yield(worker) }

    func run() async {
        await withDiscardingTaskGroup { group in
            for await worker in workers { group.addTask { await worker.work() } }
        }
    }
}

extension Duration {
    /// The longest time limit of a kind's requests, for tests that no limit may end.
    static let longestTimeout = Duration.seconds(120)
}

extension ConnectionLimits {
    /// Limits that end no connection on a busy machine.
    static let patient = ConnectionLimits(connectTimeout: Patience.limit, readTimeout: Patience.limit)

    /// The same limits, trusting the authority of the tests.
    static func trustingTests() throws -> ConnectionLimits {
        var limits = ConnectionLimits.patient
        try TestCertificates.withAuthorityFile { try limits.trust(roots: $0) }
        return limits
    }
}

/// Creates a worker with its own database and a provider that serves all kinds.
///
/// Receiver of a worker's decisions. Not a closure, which would take the place of `configure` in calls.
struct DecisionRecorder: Sendable {
    let record: @Sendable ([TimelineDecidedEvent]) -> Void
}

/// - Parameter timeout: Time limit of all requests; leases are longer.
func withWorker<Value: Sendable>(
    maxBatch: Int = 100, minimumSpacing: Duration = .seconds(300), developerMode: Bool = false,
    timeout: Duration = .longestTimeout, allowing patterns: [String] = ["127.0.0.0/8"],
    configure: (inout WorkerConfiguration) -> Void = { _ in },
    onStored: (@Sendable (TimelineID, EventPosition?) -> Void)? = nil,
    decisions: DecisionRecorder? = nil, _ body: (TestWorker) async throws -> Value
) async throws -> Value {
    var configuration = WorkerConfiguration()
    configuration.directoryAge = .zero
    // A busy machine may need longer than the default.
    configuration.snapshotLimit = timeout
    configure(&configuration)
    return try await withStubProvider { provider in
        let apps = TestKinds.apps(
            provider: provider.url, maxBatch: maxBatch, minimumSpacing: minimumSpacing, developerMode: developerMode,
            timeout: timeout)
        return try await withStore(apps) { store in
            let egress = EgressGuard(try EgressPolicy(allowing: patterns))
            let http = HTTPClient(
                eventLoopGroupProvider: .singleton,
                configuration: ProviderClient.configuration(egress: egress, limits: .patient))
            let engine = TestEngine()
            let worker = TestWorker(
                store: store, provider: provider, publisher: RecordingPublisher(), configuration: configuration,
                fetcher: ProviderClient(http: http, egress: egress), engine: engine, onStored: onStored,
                onDecisions: decisions?.record)
            return try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { await engine.run() }
                let result: Result<Value, any Error>
                do {
                    result = .success(try await body(worker))
                } catch {
                    result = .failure(error)
                }
                group.cancelAll()
                try await group.waitForAll()
                try await http.shutdown()
                return try result.get()
            }
        }
    }
}

extension MetricRegistry {
    /// Timelines whose content was stored or found unchanged.
    var completed: Int { stored.total() + gateTimelines.total() }

    /// Timelines that were not received, by reason.
    var failures: [ProviderFailure.Reason: Int] {
        let counts = ProviderFailure.Reason.allCases.map { ($0, providerErrors.total(["reason": $0.rawValue])) }
        return Dictionary(counts.filter { $1 > 0 }) { $1 }
    }
}

extension Logger {
    static let silent = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
}
