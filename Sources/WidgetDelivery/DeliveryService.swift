// SPDX-License-Identifier: Apache-2.0

package import AsyncHTTPClient
package import Logging
package import PostgresClient
package import ReloadWorkers
import ServiceLifecycle
import Waiting
package import WidgetModel
package import WidgetStore

/// The delivery role of a process: marks the devices that show changed timelines, and notifies them.
///
/// Any number of processes run it against one database. A list that a process leaves behind is claimed again when its
/// lease ends: a device may be notified twice, but no notification is lost.
package struct DeliveryService: Service {
    /// Lists that are worked on side by side, so that a device that does not answer does not hold up the others.
    private static let lists = 16
    private static let databaseAttempts = 5
    private static let cleaningInterval = Duration.seconds(3_600)
    /// Devices that are deleted with one statement.
    private static let deletedDevices = 10_000

    private let configuration: DeliveryConfiguration
    private let store: WidgetStore
    private let notifier: DeviceNotifier
    private let metrics: MetricRegistry
    private let pulse: DeliveryPulse
    private let shares = AppShares(limit: lists)
    private let room = Signal()
    private let logger: Logger

    /// - Parameters:
    ///   - apns: keys at Apple's service, whose clients are made with ``APNsAccounts/configuration(trusting:)``.
    ///   - webhooks: HTTP client for webhooks, made with `ProviderClient.configuration(egress:)`.
    package init(
        configuration: DeliveryConfiguration, store: WidgetStore, directory: DirectoryCache, apns: APNsAccounts,
        webhooks: HTTPClient, egress: EgressGuard, metrics: MetricRegistry = MetricRegistry(),
        pulse: DeliveryPulse = DeliveryPulse(), logger: Logger
    ) {
        self.configuration = configuration
        self.store = store
        self.metrics = metrics
        metrics.begin("freshet_delivery_")
        self.pulse = pulse
        self.logger = logger
        notifier = DeviceNotifier(
            configuration: configuration,
            apns: APNsClient(accounts: apns, urls: configuration.apnsURLs, timeout: configuration.timeout),
            webhooks: WebhookClient(http: webhooks, egress: egress, timeout: configuration.timeout), store: store,
            directory: directory,
            routes: RouteBackoff(backoff: configuration.restBackoff, probeTime: configuration.timeout),
            metrics: metrics, logger: logger)
    }

    /// Runs until the task is cancelled, or until the graceful shutdown, which ends the lists at work first.
    package func run() async throws {
        do {
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await repeatedly("mark devices", pulse.mark) { try await mark() } }
                group.addTask {
                    try await repeatedly("mark devices of shared timelines", pulse.markShared) {
                        try await markShared()
                    }
                }
                group.addTask {
                    try await repeatedly("delete old rows", every: Self.cleaningInterval) {
                        let deletion = Statements.deleteOldDelivery(limit: Self.deletedDevices)
                        return try await PostgresPool.inBackground { try await store.pool.execute(deletion) }
                            == Self.deletedDevices
                    }
                }
                group.addTask { try await notifyAll() }
                try await group.waitForAll()
            }
        } catch is CancellationError {
        }
    }

    /// Marks the devices of a change of personal timelines. Returns whether there was one.
    package func mark() async throws(PostgresError) -> Bool {
        let marked = try await store.query(
            .markDevices(limit: configuration.chunk, window: configuration.policy.window)
        ).first
        guard let marked, marked.app != nil else { return false }
        metrics.deliveryMarked.increment(by: marked.devices)
        return true
    }

    /// Marks a chunk of the devices of a shared timeline. Returns whether there was one, and room for it.
    package func markShared() async throws(PostgresError) -> Bool {
        var heldUp: [Int32] = []
        while true {
            let statement = Statements.markSharedDevices(
                limit: configuration.chunk, window: configuration.policy.window, backlog: configuration.backlog,
                except: heldUp)
            guard let marked = try await store.query(statement).first, let app = marked.app else { return false }
            guard marked.isHeldUp else {
                metrics.deliveryMarked.increment(by: marked.devices)
                return true
            }
            heldUp.append(app)
        }
    }

    // MARK: Lists

    /// Claims lists while there is room for them, and notifies their devices side by side.
    private func notifyAll() async throws {
        try await withThrowingDiscardingTaskGroup { group in
            try await repeatedly("claim devices", pulse.claim, wokenBy: room) {
                let begun = ContinuousClock.now
                guard shares.hasRoom, let list = try await claim(except: shares.full) else { return false }
                shares.begin(list.appID)
                group.addTask {
                    defer {
                        shares.end(list.appID)
                        room.signal()
                    }
                    do {
                        try await notify(list, claimedAfter: begun)
                    } catch let error as PostgresError where error.canPass {
                        // The list is claimed again when its lease ends.
                        logger.error("cannot notify devices", metadata: ["error": "\(error)"])
                    }
                }
                return true
            }
        }
    }

    private func claim(except apps: [Int32]) async throws(PostgresError) -> LeasedDelivery? {
        try await store.claimDelivery(lease: configuration.lease, except: apps)
    }

    /// Notifies the devices of a list that is due. Returns whether there was one.
    package func notify() async throws -> Bool {
        let begun = ContinuousClock.now
        guard let list = try await claim(except: []) else { return false }
        try await notify(list, claimedAfter: begun)
        return true
    }

    private func notify(_ list: LeasedDelivery, claimedAfter begun: ContinuousClock.Instant) async throws {
        // The database's time, counted on from the time of the claim.
        let (claimedAt, readAt) = (list.devices.first?.claimedAt ?? Timestamp.now(), ContinuousClock.now)
        let devices = ListNotifier(
            notifier: notifier, concurrency: max(1, configuration.concurrency / Self.lists),
            isHeld: { [lease = configuration.lease, timeout = configuration.timeout] in
                begun.duration(to: .now) < lease - timeout
            },
            record: { try await record($0) })
        let rest = try await devices.notify(list.devices) { claimedAt + readAt.duration(to: .now) }
        try await persistently { () throws(PostgresError) in
            guard let rest else {
                _ = try await store.query(.endDelivery(list.hold))
                return
            }
            let jitter = configuration.policy.backoff.base * Double.random(in: 0...1)
            _ = try await store.query(.postponeDelivery(list.hold, until: rest + jitter))
        }
    }

    private func record(_ results: [DeliveryResult]) async throws {
        try await persistently { () throws(PostgresError) in
            _ = try await store.query(.recordDeliveries(results, window: configuration.policy.window))
        }
    }

    // MARK: Database errors

    private func persistently(_ body: () async throws(PostgresError) -> Void) async throws {
        var attempt = 1
        while true {
            do {
                return try await body()
            } catch {
                metrics.deliveryDatabaseErrors.increment()
                guard error.isRetriable, attempt < Self.databaseAttempts else { throw error }
                try await Task.sleep(for: configuration.databaseBackoff.delay(attempt: attempt))
                attempt += 1
            }
        }
    }

    /// Does the work as long as it returns true, and again after an interval or a signal, until the graceful shutdown.
    private func repeatedly(
        _ what: String, _ heartbeat: Heartbeat? = nil, every interval: Duration? = nil,
        wokenBy signal: Signal? = nil,
        _ work: () async throws -> Bool
    ) async throws {
        var failures = 0
        while !Task.isShuttingDownGracefully {
            try Task.checkCancellation()
            let pause: Duration
            let version = signal?.version
            heartbeat?.beat()
            defer { heartbeat?.rest() }
            do {
                let isBusy = try await work()
                failures = 0
                if isBusy { continue }
                pause = (interval ?? configuration.pollInterval).jittered
            } catch let error as PostgresError {
                try Task.checkCancellation()
                guard error.canPass else { throw error }
                metrics.deliveryDatabaseErrors.increment()
                failures += 1
                logger.error("cannot \(what)", metadata: ["error": "\(error)", "failures": "\(failures)"])
                pause = max(interval ?? .zero, configuration.databaseBackoff.bound(attempt: failures))
            }
            do {
                try await cancelWhenGracefulShutdown {
                    if let signal, let version {
                        _ = try await signal.wait(past: version, timeout: pause, clock: ContinuousClock())
                    } else {
                        try await Task.sleep(for: pause)
                    }
                }
            } catch is CancellationError {
                // The shutdown ends the pause, and not the work of the other tasks.
                try Task.checkCancellation()
            }
        }
    }
}

/// Progress of the loops of a delivery. The time limits of the database bound each step.
package struct DeliveryPulse: Sendable {
    let mark: Heartbeat
    let markShared: Heartbeat
    let claim: Heartbeat

    package init(now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) {
        mark = Heartbeat(now: now)
        markShared = Heartbeat(now: now)
        claim = Heartbeat(now: now)
    }

    /// Time since the loop that has been busy for the longest made progress; nil: all are idle.
    package var silence: Duration? { [mark, markShared, claim].compactMap(\.silence).max() }
}
