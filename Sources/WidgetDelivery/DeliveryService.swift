package import AsyncHTTPClient
package import Logging
package import PostgresClient
package import ReloadWorkers
import ServiceLifecycle
import WidgetModel
package import WidgetStore

/// The delivery role of a process: marks the devices that show changed timelines, and notifies them.
///
/// Any number of processes run it against one database. A list that a process leaves behind is claimed again when its lease
/// ends: a device may be notified twice, but never not at all.
package struct DeliveryService: Service {
    /// Lists that are worked on side by side, so that a device that does not answer does not hold up the others.
    private static let notifiers = 8
    /// Attempts that are settled in one statement.
    private static let settledAtOnce = 250
    private static let databaseAttempts = 5
    private static let cleaningInterval = Duration.seconds(3_600)

    private let configuration: DeliveryConfiguration
    private let store: WidgetStore
    private let notifier: DeviceNotifier
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
        notifier = DeviceNotifier(
            configuration: configuration,
            apns: APNsClient(
                http: apns, urls: configuration.apnsURLs, tokens: ProviderTokens(keys: configuration.apnsKeys),
                timeout: configuration.timeout),
            webhooks: WebhookClient(http: webhooks, egress: egress, timeout: configuration.timeout), store: store,
            directory: directory, statistics: statistics, logger: logger)
    }

    /// Runs until the task is cancelled, or until the graceful shutdown, which ends the lists at work first.
    package func run() async throws {
        do {
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await repeatedly("mark devices") { try await mark() } }
                group.addTask { try await repeatedly("mark devices of shared timelines") { try await markShared() } }
                group.addTask {
                    try await repeatedly("delete old rows", every: Self.cleaningInterval) {
                        _ = try await store.query(.deleteOldDelivery())
                        return false
                    }
                }
                for _ in 0..<Self.notifiers {
                    group.addTask { try await repeatedly("notify devices") { try await notify() } }
                }
                try await group.waitForAll()
            }
        } catch is CancellationError {
        }
    }

    /// Marks the devices of a change of personal timelines. Returns whether there was one.
    package func mark() async throws(PostgresError) -> Bool {
        try await mark(Statements.markDevices(limit: configuration.chunk, window: configuration.policy.window))
    }

    /// Marks a chunk of the devices of a shared timeline. Returns whether there was one, and room for it.
    package func markShared() async throws(PostgresError) -> Bool {
        try await mark(
            Statements.markSharedDevices(
                limit: configuration.chunk, window: configuration.policy.window, backlog: configuration.backlog))
    }

    private func mark(_ statement: PostgresQuery<MarkedDevices>) async throws(PostgresError) -> Bool {
        guard let marked = try await store.query(statement).first, marked.isFound else { return false }
        statistics.count { $0.marked += Int(marked.devices) }
        return true
    }

    /// Notifies the devices of a list that is due. Returns whether there was one.
    package func notify() async throws -> Bool {
        let rows = try await store.query(.claimDelivery(lease: configuration.lease))
        guard let list = LeasedDelivery(rows) else { return false }
        try await notify(list, from: DatabaseTime(list.devices.first?.claimedAt))
        return true
    }

    private func notify(_ list: LeasedDelivery, from time: DatabaseTime) async throws {
        let now: @Sendable () -> Timestamp = { time.now() }
        let groups = DeliveryGroups(list.devices)
        statistics.count { $0.spared += groups.fetched.count }
        var settled = groups.fetched.map {
            notifier.settle(DeliveryOutcome(verdict: .fetchedAlready), $0, at: time.now())
        }
        var works: [@concurrent @Sendable () async throws -> [DeliverySettlement]] = []
        for device in groups.pushes { works.append { [try await notifier.push(to: device, now: now)] } }
        for batch in groups.webhooks.flatMap({ $0.chunks(of: configuration.webhookBatch) }) {
            works.append { try await notifier.call(for: batch, now: now) }
        }
        try await withThrowingTaskGroup(of: [DeliverySettlement].self) { group in
            for (index, work) in works.enumerated() {
                if index >= configuration.concurrency / Self.notifiers { try await settled += group.next() ?? [] }
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
        try await persistently { () throws(PostgresError) in _ = try await store.query(.endDelivery(list.hold)) }
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

    /// Does the work as long as it returns true, and again after an interval, until the graceful shutdown.
    private func repeatedly(
        _ what: String, every interval: Duration? = nil, _ work: () async throws -> Bool
    ) async throws {
        var failures = 0
        while !Task.isShuttingDownGracefully {
            try Task.checkCancellation()
            let pause: Duration
            do {
                let isBusy = try await work()
                failures = 0
                if isBusy { continue }
                pause = (interval ?? configuration.pollInterval) * Double.random(in: 0.8...1.2)
            } catch let error as PostgresError {
                try Task.checkCancellation()
                guard error.canPass else { throw error }
                statistics.count { $0.databaseErrors += 1 }
                failures += 1
                logger.error("cannot \(what)", metadata: ["error": "\(error)", "failures": "\(failures)"])
                pause = configuration.databaseBackoff.bound(attempt: failures)
            }
            do {
                try await cancelWhenGracefulShutdown { try await clock.sleep(for: pause) }
            } catch is CancellationError {
                // The shutdown ends the pause, and not the work of the other tasks.
                try Task.checkCancellation()
            }
        }
    }
}

/// The database's time, counted on from the time of a statement.
private struct DatabaseTime: Sendable {
    private let base: Timestamp
    private let readAt = ContinuousClock.now

    init(_ time: Timestamp?) {
        base = time ?? WallClock.now()
    }

    func now() -> Timestamp { base + readAt.duration(to: .now) }
}

extension Array {
    fileprivate func chunks(of size: Int) -> [[Element]] {
        stride(from: 0, to: count, by: size).map { Array(self[$0..<Swift.min($0 + size, count)]) }
    }
}
