// SPDX-License-Identifier: Apache-2.0

import AsyncHTTPClient
import Foundation
import Logging
import NIOCore
import PostgresClient
import ReloadWorkers
import SampleProvider
import Synchronization
import TestSupport
import Testing
import WidgetModel

@testable import WidgetDelivery
@testable import WidgetStore

/// A delivery with its own database and a stand-in for Apple's service.
struct DeliveryHarness: Sendable {
    static let topic = "com.example.bank\(APNsAddress.topicSuffix)"

    let store: TestStore
    let service: DeliveryService
    let apns: APNsStandIn
    let metrics: MetricRegistry
    let configuration: DeliveryConfiguration
    fileprivate let opened: OpenAccounts
    /// Creates the delivery of another process.
    let makeServiceWith: @Sendable (DeliveryConfiguration, DeliveryPulse) -> DeliveryService

    func makeService() -> DeliveryService { makeServiceWith(configuration, DeliveryPulse()) }

    /// Creates the delivery of another process, with another time limit of answers.
    func makeService(timeout: Duration) -> DeliveryService {
        var configuration = configuration
        (configuration.timeout, configuration.lease) = (timeout, timeout * 3)
        return makeServiceWith(configuration, DeliveryPulse())
    }

    /// Accounts at the stand-in, which are shut down with the delivery.
    func accounts(
        _ keys: [String: APNsKey], now: @escaping @Sendable () -> Timestamp = Timestamp.now
    ) throws -> APNsAccounts {
        opened.add(
            APNsAccounts(
                keys: keys,
                configuration: APNsAccounts.configuration(trusting: try connectionLimits()),
                now: now))
    }

    func connectionLimits() throws -> ConnectionLimits { try limits(apns, configuration.timeout) }

    private var keys: DeviceTokenKeys { get throws { try #require(configuration.tokenKeys) } }

    /// Registers a device with an APNs token.
    @discardableResult
    func register(
        _ user: String = "u1", _ device: String = "d1", token: String = "0102030405060708", app: Int32 = 1,
        at time: Timestamp = Timestamp(microseconds: 1)
    ) async throws -> Int {
        let address = APNsAddress(token: [UInt8](hexadecimal: token) ?? [], environment: .production, topic: Self.topic)
        let owner = DeviceTokenKeys.Owner(appID: app, user: user, device: device)
        return try await write(
            RegistrationWrite(
                appID: app, user: user, device: device, time: time, isOrderedByArrival: false, channel: .apns(address),
                token: keys.seal(address.token, for: owner)))
    }

    @discardableResult
    func write(_ registration: RegistrationWrite) async throws -> Int {
        try await store.pool.withTransaction { connection in
            _ = try await connection.query(.lockTokens(of: [registration]))
            let written = try await connection.query(.writeRegistrations([registration])).count
            _ = try await connection.query(.releaseTokens(of: [registration]))
            return written
        }
    }

    /// Changes the content of every timeline, like the workers' store.
    func change(_ reason: ReloadReason = .foreground) async throws {
        try await store.sql(
            """
            WITH stored AS (
                UPDATE timeline SET content_revision = nextval('token'), content = '{}', stored_at = now()
                RETURNING id, kind_id, user_id, content_revision AS revision, content_revision,
                          \(reason.rawValue)::int2 AS reason
            ), \(notedDeliveryChanges(of: "stored"))
            SELECT count(*) FROM stored
            """)
    }

    /// Marks the devices of all changes.
    func mark() async throws {
        while try await service.mark() {}
        while try await service.markShared() {}
    }

    /// Marks and notifies until nothing is due.
    func deliver() async throws {
        try await mark()
        while try await service.notify() {}
    }

    /// Leases the first list and returns its only device.
    func claim() async throws -> DueDevice {
        try #require(try await store.store.claimDelivery(lease: Patience.limit, except: [])?.devices.first)
    }

    /// Stores the result of an attempt.
    func settle(_ verdict: DeliveryVerdict, _ device: DueDevice) async throws {
        let result = DeliveryOutcome(verdict: verdict, answer: 200).result(
            of: device, at: device.claimedAt, resting: nil, policy: configuration.policy, jitter: 0)
        _ = try await store.pool.query(
            .recordDeliveries([result], window: configuration.policy.window))
    }

    /// Records that the API has served content to widgets.
    @discardableResult
    func record(
        _ widgets: String..., app: String = TestKinds.app, revision: Int64? = nil, age: Duration = .zero,
        objectives: FreshnessObjectives = FreshnessObjectives(general: .seconds(30))
    ) async throws -> [Int] {
        var served: [ServedContent] = []
        for widget in widgets {
            let latest = try await store.integer(
                """
                SELECT coalesce(max(t.content_revision), 0) FROM widget w JOIN timeline t ON t.id = w.timeline_id
                WHERE w.id = '\(widget)'
                """)
            served.append((app: app, widget: widget, revision: revision ?? Int64(latest), age: age))
        }
        return try await store.store.recordFetches(served, objectives: objectives)
    }

    /// Makes all waiting devices due now.
    func makeDue() async throws {
        try await store.sql(
            """
            UPDATE registration SET listed_at = now() WHERE listed_at < 'infinity';
            DELETE FROM delivery;
            INSERT INTO delivery (app_id, due_at, ready_at, registrations)
            SELECT app_id, listed_at, listed_at, array_agg(id ORDER BY id) FROM registration
            WHERE listed_at < 'infinity' GROUP BY app_id, listed_at
            """)
    }

    /// Number of devices that wait for a notification.
    func waiting() async throws -> Int {
        try await store.integer("SELECT count(*) FROM registration WHERE listed_at < 'infinity'")
    }
}

extension DeliveryConfiguration {
    /// Returns a configuration without a window, adjusted by the test. Its other times are longer than a busy machine
    /// can stall.
    static func test(_ change: (inout DeliveryConfiguration) -> Void = { _ in }) -> DeliveryConfiguration {
        var configuration = DeliveryConfiguration()
        configuration.policy.window = .zero
        configuration.policy.minimumSpacing = .seconds(3_600)
        (configuration.timeout, configuration.lease) = (Patience.limit, Patience.limit * 3)
        change(&configuration)
        return configuration
    }
}

/// Creates a delivery and passes it to the closure.
func withDelivery(
    _ configuration: DeliveryConfiguration = .test(), _ apps: [AppDefinition] = TestKinds.apps(),
    logger: Logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
    _ body: (DeliveryHarness) async throws -> Void
) async throws {
    let apns = try await APNsStandIn.start()
    let privateKey = APNsStandIn.makeKey()
    try apns.trust(privateKey, keyID: "KEY", teamID: "TEAM")
    var configuration = configuration
    configuration.tokenKeys = DeviceTokenKeys([(id: "k1", secret: Array(repeating: 9, count: 32))])
    configuration.apnsKeys[TestKinds.app] = APNsKey(teamID: "TEAM", keyID: "KEY", privateKeyPEM: privateKey)
    for (app, key) in configuration.apnsKeys where app != TestKinds.app {
        try apns.trust(key.privateKeyPEM, keyID: key.keyID, teamID: key.teamID)
    }
    for environment in APNsAddress.Environment.allCases { configuration.apnsURLs[environment] = apns.url }
    let limits = try limits(apns, configuration.timeout)
    let http = HTTPClient(
        eventLoopGroupProvider: .singleton, configuration: APNsAccounts.configuration(trusting: limits))
    let (metrics, opened) = (MetricRegistry(), OpenAccounts())
    do {
        try await withStore(apps) { store in
            let egress = EgressGuard(try EgressPolicy(allowing: ["127.0.0.0/8"]))
            let makeService: @Sendable (DeliveryConfiguration, DeliveryPulse) -> DeliveryService = {
                configuration, pulse in
                var limits = limits
                limits.readTimeout = configuration.timeout
                let client = APNsAccounts.configuration(trusting: limits)
                return DeliveryService(
                    configuration: configuration, store: store.store, directory: DirectoryCache(pool: store.pool),
                    apns: opened.add(APNsAccounts(keys: configuration.apnsKeys, configuration: client)), webhooks: http,
                    egress: egress, metrics: metrics, pulse: pulse,
                    logger: logger)
            }
            try await body(
                DeliveryHarness(
                    store: store, service: makeService(configuration, DeliveryPulse()), apns: apns,
                    metrics: metrics, configuration: configuration, opened: opened,
                    makeServiceWith: makeService))
        }
    } catch {
        await opened.shutdown()
        try? await http.shutdown()
        try? await apns.stop()
        throw error
    }
    await opened.shutdown()
    try await http.shutdown()
    try await apns.stop()
}

/// Limits of connections to the stand-in, whose certificate authority they trust.
private func limits(_ apns: APNsStandIn, _ timeout: Duration) throws -> ConnectionLimits {
    let file = FileManager.default.temporaryDirectory.appendingPathComponent("freshet-\(String.randomID()).pem")
    defer { try? FileManager.default.removeItem(at: file) }
    try Data(apns.certificatePEM.utf8).write(to: file)
    var limits = ConnectionLimits(connectTimeout: Patience.limit, readTimeout: timeout)
    try limits.trust(roots: file.path)
    return limits
}

/// Accounts at Apple's service that are open.
private final class OpenAccounts: Sendable {
    private let accounts = Mutex<[APNsAccounts]>([])

    func add(_ opened: APNsAccounts) -> APNsAccounts {
        accounts.withLock { $0.append(opened) }
        return opened
    }

    func shutdown() async {
        for opened in accounts.withLock({ $0 }) { await opened.shutdown() }
    }
}

/// A clock that the test sets.
final class TestClock: Sendable {
    private let time: Mutex<Timestamp>

    init(_ start: Timestamp = Timestamp(microseconds: 1_790_000_000_000_000)) {
        time = Mutex(start)
    }

    var now: Timestamp { time.withLock { $0 } }

    func advance(by duration: Duration) { time.withLock { $0 = $0 + duration } }
}

extension APNsStandIn.Fault {
    /// Whether the push ends only at its time limit.
    var isSilent: Bool {
        switch self {
        case .hang, .stall, .trickle: true
        case .answer, .reset, .goAway, .cut: false
        }
    }
}
