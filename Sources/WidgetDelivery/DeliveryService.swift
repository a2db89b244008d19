package import AsyncHTTPClient
package import Logging
package import PostgresClient
package import ReloadWorkers
import ServiceLifecycle
import WidgetModel
package import WidgetStore

/// The delivery role of a process: marks the devices that show what has changed, and tells them.
///
/// Any number of processes run it against one database. A list that a process leaves behind is claimed again when its lease
/// ends, so that a device may be told twice, but never not at all.
package struct DeliveryService: Service {
    /// Claims that are worked on side by side, and most lists of one.
    private static let tellers = 8
    private static let listsPerClaim = 1
    /// Attempts that are settled in one statement.
    private static let settledAtOnce = 250
    private static let databaseAttempts = 5
    /// Age at which statistics, and devices that are registered no longer, are deleted.
    private static let retention = Duration.seconds(90 * 86_400)
    private static let cleaningInterval = Duration.seconds(3_600)

    private let configuration: DeliveryConfiguration
    private let store: WidgetStore
    private let teller: DeviceTeller
    private let statistics: DeliveryStatistics
    private let clock: any Clock<Duration>
    private let logger: Logger

    /// - Parameters:
    ///   - apns: HTTP client for Apple's service; see ``APNsClient/configuration(trusting:)``.
    ///   - webhooks: HTTP client for webhooks, made with `ProviderClient.configuration(egress:)`.
    package init(
        configuration: DeliveryConfiguration, store: WidgetStore, directory: DirectoryCache, apns: HTTPClient,
        webhooks: HTTPClient, egress: EgressGuard, statistics: DeliveryStatistics = DeliveryStatistics(),
        clock: any Clock<Duration> = ContinuousClock(), logger: Logger
    ) {
        self.configuration = configuration
        self.store = store
        self.statistics = statistics
        self.clock = clock
        self.logger = logger
        teller = DeviceTeller(
            configuration: configuration,
            apns: APNsClient(
                http: apns, urls: configuration.apnsURLs, tokens: ProviderTokens(keys: configuration.apnsKeys),
                timeout: configuration.timeout),
            webhooks: WebhookClient(http: webhooks, egress: egress, timeout: configuration.timeout), store: store,
            directory: directory, routes: RestingRoutes(backoff: configuration.restBackoff), statistics: statistics,
            logger: logger)
    }

    package func run() async throws {
        do {
            try await cancelWhenGracefulShutdown {
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask {
                        try await repeatedly("mark devices") {
                            while try await mark() {}
                        }
                    }
                    group.addTask {
                        try await repeatedly("delete old rows", every: Self.cleaningInterval) {
                            _ = try await store.query(.deleteOldDelivery(olderThan: Self.retention))
                        }
                    }
                    // Several, so that a device that does not answer does not keep the others waiting.
                    for _ in 0..<Self.tellers {
                        group.addTask {
                            try await repeatedly("tell devices") {
                                while try await tell() {}
                            }
                        }
                    }
                    try await group.waitForAll()
                }
            }
        } catch is CancellationError {
        }
    }

    /// Marks the devices of a chunk of changes. Returns whether there was one.
    package func mark() async throws(PostgresError) -> Bool {
        let statement = Statements.markDevices(limit: configuration.chunk, window: configuration.policy.window)
        guard let marked = try await store.query(statement).first, marked.isFound else { return false }
        statistics.count { counts in
            counts.marked += Int(marked.devices)
            counts.widgets += Int(marked.widgets)
        }
        return true
    }

    /// Tells the devices of some lists that are due. Returns whether there were any.
    package func tell() async throws -> Bool {
        let statement = Statements.claimDeliveries(lists: Self.listsPerClaim, lease: configuration.lease)
        let rows = try await store.query(statement)
        guard !rows.isEmpty else { return false }
        try await tell(DeliveryLists(rows), from: DatabaseTime(rows.lazy.compactMap { $0.device?.claimedAt }.first))
        return true
    }

    private func tell(_ lists: DeliveryLists, from time: DatabaseTime) async throws {
        let now: @Sendable () -> Timestamp = { time.now() }
        let groups = lists.groups
        let batches = groups.webhooks.flatMap { $0.chunks(of: configuration.webhookBatch) }
        statistics.count { $0.spared += groups.fetched.count }
        var settled = groups.fetched.map {
            teller.settle(DeliveryOutcome(verdict: .fetchedAlready), $0, at: time.now())
        }
        try await withThrowingTaskGroup(of: [DeliverySettlement].self) { group in
            var works: [@concurrent @Sendable () async throws -> [DeliverySettlement]] = []
            for device in groups.pushes { works.append { [try await teller.push(to: device, now: now)] } }
            for batch in batches { works.append { try await teller.call(for: batch, now: now) } }
            for (index, work) in works.enumerated() {
                if index >= configuration.concurrency / Self.tellers { try await settled += group.next() ?? [] }
                group.addTask(operation: work)
            }
            for try await more in group {
                settled += more
                guard settled.count >= Self.settledAtOnce else { continue }
                try await settle(settled)
                settled = []
            }
        }
        if !settled.isEmpty { try await settle(settled) }
        try await persistently { () throws(PostgresError) in _ = try await store.query(.endDeliveries(lists.holds)) }
    }

    private func settle(_ settlements: [DeliverySettlement]) async throws {
        try await persistently { () throws(PostgresError) in
            _ = try await store.query(.settleDeliveries(settlements, window: configuration.policy.window))
        }
    }

    // MARK: Database errors

    private func persistently(_ body: () async throws(PostgresError) -> Void) async throws {
        var attempt = 1
        while true {
            do {
                return try await body()
            } catch {
                statistics.count { $0.databaseErrors += 1 }
                guard error.isRetriable, attempt < Self.databaseAttempts else { throw error }
                try await clock.sleep(for: configuration.databaseBackoff.delay(attempt: attempt))
                attempt += 1
            }
        }
    }

    private func repeatedly(
        _ what: String, every interval: Duration? = nil, _ body: () async throws -> Void
    ) async throws {
        var failures = 0
        while true {
            try Task.checkCancellation()
            do {
                try await body()
                failures = 0
                try await clock.sleep(for: (interval ?? configuration.pollInterval) * Double.random(in: 0.8...1.2))
            } catch let error as PostgresError {
                try Task.checkCancellation()
                guard error.canPass else { throw error }
                statistics.count { $0.databaseErrors += 1 }
                failures += 1
                logger.error("cannot \(what)", metadata: ["error": "\(error)", "failures": "\(failures)"])
                try await clock.sleep(for: configuration.databaseBackoff.bound(attempt: failures))
            }
        }
    }
}

/// The database's time, as it passes since a statement has told it.
private struct DatabaseTime: Sendable {
    private let told: Timestamp
    private let at = ContinuousClock.now

    init(_ told: Timestamp?) {
        self.told = told ?? WallClock.now()
    }

    func now() -> Timestamp { told + at.duration(to: .now) }
}

extension Array {
    fileprivate func chunks(of size: Int) -> [[Element]] {
        stride(from: 0, to: count, by: size).map { Array(self[$0..<Swift.min($0 + size, count)]) }
    }
}
