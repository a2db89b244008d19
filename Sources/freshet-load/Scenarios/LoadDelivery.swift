// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import AsyncHTTPClient
import Foundation
import FreshetService
import Histogram
import JSON
import JWTKit
import NIOCore
import NIOHTTP1
import PostgresClient
import ReloadWorkers
import SampleProvider
import Synchronization
import WidgetDelivery
import WidgetModel
import WidgetStore

/// Changes that devices are notified of.
struct LoadDelivery: Scenario {
    static let configuration = CommandConfiguration(
        commandName: "delivery",
        abstract: "Pushes to registered devices: a change of all of them at once, then changes at a rate.",
        discussion: """
            Needs an empty PostgreSQL database (postgres.url). A stand-in for Apple's push service, HTTP/2 over TLS, runs \
            in this process. First AsyncHTTPClient alone, in its default configuration, sends it up to 100,000 pushes. Then \
            every device's content changes at once, and a service of the role delivery notifies them: the result has the \
            ratio of the two. Then content changes at --rate, and the latency is that from the change to the push.

            With --shared all devices show one timeline, which changes once: the result has the memory that the service needed.

            Examples:
              deploy/local/postgres run -- freshet-load delivery --devices 50000 --rate 5000
              deploy/local/postgres run -- freshet-load delivery --devices 1000000 --shared
            """)

    @Option(help: "Devices, with a widget each.", transform: OptionText.number(100...5_000_000))
    var devices = 50_000

    @Flag(help: "Has all devices show one shared timeline.")
    var shared = false

    @Option(help: "Changes a second; each device changes at most once in the time.")
    var rate = 5_000

    @Option(help: "Seconds for which content changes.", transform: OptionText.number(1...3_600))
    var duration = 8

    @Option(help: "Pushes in flight.", transform: OptionText.number(4...100_000))
    var concurrency = 1_000

    @OptionGroup var options: ScenarioOptions

    func validate() throws {
        let most = max(20, devices / duration)
        guard (20...most).contains(rate) else { throw ValidationError("--rate \(rate): expected 20 to \(most)") }
    }

    var plan: LoadTestEnvironment.Plan {
        LoadTestEnvironment.Plan(inputPartitions: 1, outputPartitions: 1, seed: options.seed)
    }

    /// Most pushes of the client alone.
    private static let pushesAlone = 100_000
    private static let team = "TEAM"
    private static let keyID = "KEY"
    private static let topic = LoadWorld.defaultApp + APNsAddress.topicSuffix

    private var world: LoadWorld {
        var world = LoadWorld(users: devices, kinds: shared ? 1 : 4)
        world.isShared = shared
        return world
    }

    func run(_ environment: LoadTestEnvironment) async throws -> LoadResult {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("freshet-load-\(String.randomID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let standIn = try await APNsStandIn.start(countsTokens: false)
        let arrivals = Arrivals(devices: devices)
        standIn.set { push in
            arrivals.note(push.token)
            return nil
        }
        try await world.place(in: environment.store, provider: environment.providerURL)
        let rows = try await rows(environment)
        let secret = Array((0..<32).map { _ in UInt8.random(in: 0...255) })
        try await register(sealing: DeviceTokenKeys([(id: "load", secret: secret)]), environment)
        await environment.checkpoint()

        var result = LoadResult(scenario: "delivery")
        let key = ES256PrivateKey().pemRepresentation
        let keyFile = folder.appendingPathComponent("key.p8")
        let roots = folder.appendingPathComponent("roots.pem")
        try Data(key.utf8).write(to: keyFile)
        try Data(standIn.certificatePEM.utf8).write(to: roots)
        let bare = try await sendAlone(to: standIn, key: key, trusting: roots.path)

        let service = try await environment.startService(
            .delivery,
            settings: [
                "delivery.tokenKeys=load=\(Data(secret).base64EncodedString())",
                "delivery.apnsKeys=\(LoadWorld.defaultApp)=\(Self.team)/\(Self.keyID)/\(keyFile.path)",
                "delivery.apnsURL=\(standIn.url)", "delivery.trustRoots=\(roots.path)", "delivery.window=200ms",
                "delivery.minimumSpacing=0s", "delivery.concurrency=\(concurrency)",
            ])
        let cpu = service.cpuSeconds ?? 0
        let pushes = try await changeAll(rows, arrivals, environment)
        result.serviceCPUSeconds = service.cpuSeconds.map { $0 - cpu }
        result.latency =
            shared ? arrivals.summary : try await changeSome(rows, arrivals, environment)
        result.peakResidentBytes = service.peakResidentBytes
        result.events = devices
        result.distinctTimelines = Set(rows).count
        result.wallSeconds = Double(devices) / pushes
        result.lost = arrivals.lost
        result.extras += [
            ("pushesPerSecond", .rounded(pushes)), ("clientAlonePerSecond", .rounded(bare)),
            ("pushesToClientAlone", .rounded(pushes / bare)),
            ("duplicates", .count(arrivals.duplicates)), ("connections", .count(standIn.statistics.connections)),
        ]
        await environment.stop(service)
        try await standIn.stop()
        return result
    }

    // MARK: Devices

    private func token(_ device: Int) -> [UInt8] {
        (0..<32).map { $0 < 24 ? 0xF5 : UInt8(truncatingIfNeeded: device >> (8 * (31 - $0))) }
    }

    private func register(sealing keys: DeviceTokenKeys?, _ environment: LoadTestEnvironment) async throws {
        guard let keys, let app = try await DirectoryCache(pool: environment.pool).refresh().apps[LoadWorld.defaultApp]
        else { return }
        for first in stride(from: 0, to: devices, by: 5_000) {
            Terminal.progress("registering devices: \(first) of \(devices)")
            let writes = try (first..<min(first + 5_000, devices)).map { device in
                let address = APNsAddress(token: token(device), environment: .production, topic: Self.topic)
                let owner = DeviceTokenKeys.Owner(appID: app.id, user: "u\(device)", device: "d\(device)")
                return RegistrationWrite(
                    appID: app.id, user: owner.user, device: owner.device, time: Timestamp.now(),
                    isOrderedByArrival: false, channel: .apns(address), token: try keys.seal(address.token, for: owner))
            }
            _ = try await environment.pool.query(.writeRegistrations(writes))
        }
    }

    /// Row ids of the devices' timelines.
    private func rows(_ environment: LoadTestEnvironment) async throws -> [Int64] {
        var rows = Array(repeating: Int64(0), count: devices)
        for first in stride(from: 0, to: devices, by: 20_000) {
            let widgets = (first..<min(first + 20_000, devices)).map { "w\($0)" }
            let found = try await environment.pool.query(
                .timelinesOfWidgets(app: LoadWorld.defaultApp, widgets: widgets))
            for (widget, row) in found {
                if let device = Int(widget.dropFirst()) { rows[device] = row }
            }
        }
        return rows
    }

    // MARK: Pushes

    /// Sends a push to each device by AsyncHTTPClient alone, in its default configuration; answers how many a second.
    private func sendAlone(to standIn: APNsStandIn, key: String, trusting roots: String) async throws -> Double {
        let count = min(devices, Self.pushesAlone)
        Terminal.progress("sending \(count) pushes with the client alone")
        var limits = ConnectionLimits()
        try limits.trust(roots: roots)
        var configuration = HTTPClient.Configuration()
        configuration.tlsConfiguration = limits.tls
        let app = LoadWorld.defaultApp
        let keys = [app: APNsKey(teamID: Self.team, keyID: Self.keyID, privateKeyPEM: key)]
        return try await APNsAccounts.with(keys: keys, configuration: configuration) { accounts in
            guard let account = accounts[app] else { return 0 }
            let client = APNsClient(accounts: accounts, urls: [.production: standIn.url], timeout: .seconds(10))
            let (http, providerToken) = (account.http, try await account.token.text())
            let began = ContinuousClock.now
            try await withThrowingTaskGroup(of: Void.self) { group in
                for device in 0..<count {
                    if device >= concurrency { try await group.next() }
                    let address = APNsAddress(token: token(device), environment: .production, topic: Self.topic)
                    group.addTask {
                        let push = APNsPush(app: app, address: address, isUrgent: true)
                        let response = try await http.execute(
                            client.request(push, providerToken), timeout: .seconds(10))
                        guard response.status == .ok else {
                            throw CommandFailure(.failure, "answered \(response.status)")
                        }
                        _ = try await response.body.collect(upTo: 4_096)
                    }
                }
                try await group.waitForAll()
            }
            return Double(count) / (began.duration(to: .now) / .seconds(1))
        }
    }

    /// Has all devices change at once; answers the pushes a second.
    private func changeAll(
        _ rows: [Int64], _ arrivals: Arrivals, _ environment: LoadTestEnvironment
    ) async throws -> Double {
        arrivals.begin()
        let chunk = shared ? rows.count : 5_000
        for first in stride(from: 0, to: rows.count, by: chunk) {
            let devices = first..<min(first + chunk, rows.count)
            arrivals.noteChange(of: devices)
            _ = try await environment.pool.query(.noteChanges(of: Array(Set(rows[devices]))))
        }
        try await wait(for: arrivals, environment)
        return Double(devices) / arrivals.span
    }

    /// Has devices change at the rate; answers the latency from the change to the push.
    private func changeSome(
        _ rows: [Int64], _ arrivals: Arrivals, _ environment: LoadTestEnvironment
    ) async throws -> LatencySummary {
        arrivals.begin()
        let chunk = max(1, rate / 20)
        let began = ContinuousClock.now
        for index in 0..<(duration * 20) {
            let devices = (index * chunk)..<min((index + 1) * chunk, rows.count)
            guard !devices.isEmpty else { break }
            try await Task.sleep(until: began + .milliseconds(50 * index), clock: .continuous)
            arrivals.noteChange(of: devices)
            _ = try await environment.pool.query(.noteChanges(of: Array(rows[devices])))
        }
        try await wait(for: arrivals, environment)
        return arrivals.summary
    }

    private func wait(for arrivals: Arrivals, _ environment: LoadTestEnvironment) async throws {
        var stall = Stall<Int>(after: .seconds(120))
        while case let missing = arrivals.missing, missing > 0, !stall.update(missing) {
            try environment.requireServices()
            Terminal.progress("waiting for \(missing) pushes")
            try await Task.sleep(for: .milliseconds(20))
        }
    }
}

/// Times at which devices changed and were notified.
private final class Arrivals: Sendable {
    private struct State {
        var changed: [ContinuousClock.Instant?]
        var latencies = Histogram<UInt32>.latencies()
        /// Changed devices that are still to be notified.
        var missing = 0
        /// Devices that were not notified in the phases before, after all of the wait.
        var lost = 0
        var duplicates = 0
        var first: ContinuousClock.Instant?
        var last: ContinuousClock.Instant?
        var isOn = false
    }

    private let state: Mutex<State>

    init(devices: Int) {
        state = Mutex(State(changed: Array(repeating: nil, count: devices)))
    }

    var missing: Int { state.withLock { $0.missing } }
    /// Devices that were not notified, in any phase.
    var lost: Int { state.withLock { $0.lost + $0.missing } }
    /// Pushes to devices without a change, in any phase.
    var duplicates: Int { state.withLock { $0.duplicates } }

    /// Times from the change to the push.
    var summary: LatencySummary { state.withLock { $0.latencies.summary } }

    /// Seconds from the first change to the last push.
    var span: Double {
        state.withLock { state in
            guard let first = state.first, let last = state.last else { return 0 }
            return first.duration(to: last) / .seconds(1)
        }
    }

    /// Begins a phase, with times of its own.
    func begin() {
        state.withLock { state in
            let (lost, duplicates) = (state.lost + state.missing, state.duplicates)
            state = State(changed: Array(repeating: nil, count: state.changed.count))
            (state.lost, state.duplicates, state.isOn) = (lost, duplicates, true)
        }
    }

    func noteChange(of devices: Range<Int>) {
        let now = ContinuousClock.now
        state.withLock { state in
            state.first = state.first ?? now
            for device in devices { state.changed[device] = now }
            state.missing += devices.count
        }
    }

    func note(_ token: String) {
        let now = ContinuousClock.now
        guard let device = Int(token.suffix(16), radix: 16) else { return }
        state.withLock { state in
            guard state.isOn, state.changed.indices.contains(device) else { return }
            guard let changed = state.changed[device] else {
                state.duplicates += 1
                return
            }
            state.changed[device] = nil
            state.latencies.record(changed.duration(to: now))
            state.missing -= 1
            state.last = now
        }
    }
}
