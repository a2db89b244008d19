import Logging
import PostgresClient
import Synchronization
import WidgetStore

/// The diverted apps and the halt of ingest as last read (design, section 4). Every batch's transaction checks them in the
/// database.
final class IngestFlow: Sendable {
    private struct State {
        var diverted: [Int32: String] = [:]
        var halt: IngestHalt?
    }

    /// Interval of counts of waiting events.
    private static let countInterval = Duration.seconds(10)

    private let pool: PostgresPool
    private let limits: DeadLetterLimits
    private let interval: Duration
    private let logger: Logger
    private let state = Mutex(State())

    init(pool: PostgresPool, limits: DeadLetterLimits, interval: Duration, logger: Logger) {
        self.pool = pool
        self.limits = limits
        self.interval = interval
        self.logger = logger
    }

    /// Ids of the diverted apps.
    var divertedApps: Set<Int32> { state.withLock { Set($0.diverted.keys) } }

    /// Names of the diverted apps.
    var divertedNames: [String] { state.withLock { $0.diverted.values.sorted() } }

    var halt: IngestHalt? { state.withLock { $0.halt } }

    /// Reads both and logs changes.
    ///
    /// - Throws: `PostgresError`.
    func refresh() async throws {
        var pipeline = PostgresPipeline()
        let halts = pipeline.append(ReadIngestHalt())
        let diversions = pipeline.append(ListDiversions(countLimit: 0))
        let results = try await pool.run(pipeline)
        let diverted = Dictionary(results.rows(diversions).map { ($0.appID, $0.app) }) { $1 }
        set(halt: results.rows(halts).first)
        let old = state.withLock { state in
            let old = state.diverted
            state.diverted = diverted
            return old
        }
        for (id, app) in diverted where old[id] == nil {
            logger.critical(
                "an app is over its limit of dead letters: its events are diverted",
                metadata: ["app": "\(app)", "command": "freshet dead-letters resume --app \(app)"])
        }
        for (id, app) in old where diverted[id] == nil {
            logger.notice("an app is not diverted any more", metadata: ["app": "\(app)"])
        }
    }

    private func set(halt: IngestHalt?) {
        let old = state.withLock { state in
            let old = state.halt
            state.halt = halt
            return old
        }
        if let halt, halt != old {
            logger.critical(
                "ingest is halted until an operator resumes it",
                metadata: ["error": "\(halt)", "command": "\(IngestHalt.command)"])
        } else if halt == nil, old != nil {
            logger.notice("ingest is resumed")
        }
    }

    /// Refreshes at intervals, and halts ingest if too many events wait.
    ///
    /// - Throws: `CancellationError`.
    func watch() async throws {
        var counted: ContinuousClock.Instant?
        while true {
            try? await refresh()
            if counted.map({ $0.duration(to: .now) >= Self.countInterval }) ?? true {
                try? await haltIfFull()
                counted = .now
            }
            try await Task.sleep(for: interval)
        }
    }

    /// Halts ingest if more events wait than allowed, so that the database does not fill.
    func haltIfFull() async throws {
        guard halt == nil else { return }
        let full = try await pool.query(ListDiversions(countLimit: limits.waiting + 1))
            .filter { $0.waiting > Int64(limits.waiting) }.map(\.app)
        let unregistered = try await pool.query(CountUnregistered(limit: limits.waiting + 1)).first ?? 0
        guard !full.isEmpty || unregistered > Int64(limits.waiting) else { return }
        let whose = full.isEmpty ? "of apps that are not registered" : "of a diverted app"
        _ = try await pool.execute(
            HaltIngest(
                cause: .full, apps: full,
                detail: "over \(limits.waiting) \(whose): `freshet dead-letters resume` or `replay` or `discard` them"))
        try await refresh()
    }

    /// Waits until ingest is no longer halted.
    ///
    /// - Throws: `CancellationError`.
    func waitUntilResumed() async throws {
        while true {
            do {
                try await refresh()
                if halt == nil { return }
            } catch is CancellationError {
                throw CancellationError()
            } catch {
                // Tried again below.
            }
            try await Task.sleep(for: interval)
        }
    }
}
