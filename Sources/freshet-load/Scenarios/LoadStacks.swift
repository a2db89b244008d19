// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import AsyncHTTPClient
import Foundation
import FreshetClient
import FreshetService
import Histogram
import JSON
import KafkaClient
import NIOCore
import NIOHTTP1
import PostgresClient
import Randomness
import Synchronization
import WidgetAPI
import WidgetEvents
import WidgetModel
import WidgetStore

/// Donations and schedules of many people.
struct LoadStacks: Scenario {
    static let configuration = CommandConfiguration(
        commandName: "stacks",
        abstract: "Donations that wait in Kafka, then schedules that are read while donations go on.",
        discussion: """
            Needs an empty PostgreSQL database (postgres.url). Imports people, each with stacks of widgets. First, a service of the \
            role ingest applies donations that wait in Kafka, and then as many pushes; the result has both rates. Then \
            a service of all roles plans the stacks of some people, while donations go on at --rate and readers ask for \
            schedules with the entity tag that they have at --read-rate. Latencies count from the intended time: of a read to \
            its answer, of a donation to its commit. Sizes of the stored people come last.

            Examples:
              deploy/local/postgres run -- freshet-load stacks --people 20000 --donations 100000
            """)

    @Option(help: "People.", transform: OptionText.number(1...10_000_000))
    var people = 20_000

    @Option(help: "Stacks of each, with four widgets each.", transform: OptionText.number(1...16))
    var stacks = 3

    @Option(help: "Donations, and pushes, that wait in Kafka.", transform: OptionText.number(1...3_000_000))
    var donations = 100_000

    @Option(help: "Donations a second while schedules are read.", transform: OptionText.number(1...100_000))
    var rate = 1_000

    @Option(help: "Reads of schedules a second.", transform: OptionText.number(1...100_000))
    var readRate = 2_000

    @Option(help: "Seconds for which schedules are read.", transform: OptionText.number(1...3_600))
    var duration = 20

    @Option(help: "People whose schedules are read.", transform: OptionText.number(1...10_000_000))
    var readers = 1_000

    @OptionGroup var options: ScenarioOptions

    func validate() throws {
        guard readers <= people else { throw ValidationError("--readers \(readers): expected at most --people") }
    }

    var plan: LoadTestEnvironment.Plan {
        let total = 2 * donations + rate * duration
        return LoadTestEnvironment.Plan(
            inputPartitions: min(256, max(16, total * 450 / (3 << 20) + 1)), outputPartitions: 4, seed: options.seed)
    }

    private static let widgetsPerStack = 4
    /// Time over which donations are spread, in half hours.
    private static let halfHours = 14 * 48
    private static let patience = Duration.seconds(120)

    /// The people whose schedules are read have widgets; the others have only stacks.
    private var world: LoadWorld {
        LoadWorld(users: readers, widgetsPerUser: stacks * Self.widgetsPerStack, kinds: 20)
    }

    func run(_ environment: LoadTestEnvironment) async throws -> LoadResult {
        let world = world
        try await world.place(in: environment.store, provider: environment.providerURL)
        try await importStacks(environment)
        var random = SeededGenerator(seed: options.seed)
        var result = LoadResult(scenario: "stacks")
        // Rows of people grow with the first donations: that pass is the cold one.
        var passes: [(rate: Double, cpu: Double?)] = []
        for _ in 0..<2 {
            let events = (0..<donations).map { donation(to: random.below(people), $0, &random) }
            let before = try await environment.store.appliedEvents()
            Terminal.progress("publishing \(events.count) donations")
            try await environment.publish(events.count) { events[$0] }
            passes.append(try await drain(from: before, events.count, environment))
        }
        let widgets = (0..<donations).map { _ in random.below(world.widgets) }
        let before = try await environment.store.appliedEvents()
        try await environment.publishReloads(of: widgets, in: world) { "push-\($0)" }
        let pushes = try await drain(from: before, widgets.count, environment)
        try await read(&result, &random, environment)
        let size = try await environment.pool.query(.peopleSize()).first
        result.events = donations
        result.wallSeconds = Double(donations) / passes[1].rate
        result.extras += [
            ("donationsPerSecond", .rounded(passes[1].rate)), ("coldDonationsPerSecond", .rounded(passes[0].rate)),
            ("pushesPerSecond", .rounded(pushes.rate)), ("donationsToPushes", .rounded(passes[1].rate / pushes.rate)),
            ("donationServiceCPUSeconds", .rounded(passes[1].cpu)),
            ("people", .count(size?.people)), ("rowBytes", .rounded(size?.rowBytes)),
            ("bytesPerPerson", .rounded(size.map { Double($0.totalBytes) / Double(max(1, $0.people)) })),
        ]
        return result
    }

    // MARK: People

    private func importStacks(_ environment: LoadTestEnvironment) async throws {
        let app = LoadWorld.defaultApp
        guard let registered = try await DirectoryCache(pool: environment.pool).refresh().apps[app] else { return }
        let chunk = 5_000
        let time = Timestamp.now()
        for first in stride(from: 0, to: people, by: chunk) {
            Terminal.progress("importing stacks: people \(first) of \(people)")
            let people = first..<min(first + chunk, people)
            _ = try await environment.store.importStacks(
                people.flatMap { person in
                    (0..<stacks).map { stack in
                        (
                            app: registered, user: "u\(person)", arrangement: arrangement(of: person, stack: stack),
                            time: time
                        )
                    }
                })
        }
        await environment.checkpoint()
    }

    private func arrangement(of person: Int, stack: Int) -> StackArrangement {
        let first = (person * stacks + stack) * Self.widgetsPerStack
        return StackArrangement(
            device: "d\(person)", name: "stack\(stack)",
            widgets: (first..<(first + Self.widgetsPerStack)).map { "w\($0)" })
    }

    /// Views at about the same half hours, some of them at random.
    private func donation(to person: Int, _ number: Int, _ random: inout SeededGenerator) -> OutgoingEvent {
        let habit = (person * 7) % 48
        let day = random.below(14)
        let slot = random.below(4) > 0 ? day * 48 + habit : random.below(Self.halfHours)
        let kind = "Load\((person * stacks * Self.widgetsPerStack + random.below(4)) % 20)"
        let interaction = DonatedInteraction(kind: kind, device: "d\(person)", timeZone: "Europe/London")
        return OutgoingEvent(
            FreshetEvent(app: LoadWorld.defaultApp, user: "u\(person)", .interaction(interaction)), id: "\(number)",
            time: Timestamp.now() - .seconds(1_800 * slot), key: "u\(person)")
    }

    /// Has a service of the role ingest apply events that wait.
    private func drain(
        from before: Int, _ count: Int, _ environment: LoadTestEnvironment
    ) async throws -> (rate: Double, cpu: Double?) {
        Terminal.progress("applying \(count) events")
        let service = try await environment.startService(.ingest)
        var began: ContinuousClock.Instant?
        var (applied, since) = (before, ContinuousClock.now)
        while applied < before + count {
            guard since.duration(to: .now) < Self.patience else {
                throw CommandFailure(.failure, "\(before + count - applied) events were not applied")
            }
            try environment.requireServices()
            let now = try await environment.store.appliedEvents()
            if now > before, began == nil { (began, applied) = (.now, now) }
            if now != applied { (applied, since) = (now, .now) }
            try await Task.sleep(for: .milliseconds(10))
        }
        let seconds = (began ?? since).duration(to: since) / .seconds(1)
        let cpu = service.cpuSeconds
        await environment.stop(service)
        return (Double(count) / max(seconds, 0.001), cpu)
    }

    // MARK: Schedules

    private func read(
        _ result: inout LoadResult, _ random: inout SeededGenerator, _ environment: LoadTestEnvironment
    ) async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("freshet-load-\(String.randomID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let file = folder.appendingPathComponent("keys.json")
        let token = try await ScheduleReaders.token(app: LoadWorld.defaultApp, keyIn: file)
        let service = try await environment.startService(
            .all, settings: ["api.keys=\(file.path)", "api.rateLimit=0"])
        let port = Int(service.greeting["apiPort"]?.numberValue?.int64 ?? 0)
        let paths = (0..<readers).flatMap { person in
            (0..<stacks).map { "users/u\(person)/stacks/stack\($0)/schedule?device=d\(person)" }
        }
        let schedules = ScheduleReaders(app: LoadWorld.defaultApp, port: port, token: token, paths: paths)
        Terminal.progress("rendering \(world.widgets) widgets")
        while try await environment.pool.query(Statements.timelinesUnderWay()).first != 0 {
            try environment.requireServices()
            try await Task.sleep(for: .milliseconds(200))
        }
        Terminal.progress("planning \(paths.count) stacks")
        let planning = ContinuousClock.now
        try await schedules.readAll(width: 256)
        let planned = planning.duration(to: .now) / .seconds(1)
        let cpu = service.cpuSeconds ?? 0
        let beside = try await donateWhileReading(schedules, &random, environment)
        result.serviceCPUSeconds = service.cpuSeconds.map { $0 - cpu }
        result.peakResidentBytes = service.peakResidentBytes
        result.latency = schedules.latency
        result.lost = schedules.failures
        result.extras += [
            ("readsPerSecond", .rounded(Double(beside.answers) / beside.seconds)),
            ("donationsPerSecondBeside", .rounded(Double(beside.applied) / beside.seconds)),
            ("donationLatencyMilliseconds", beside.latency.percentiles),
            ("plannedPerSecond", .rounded(Double(paths.count) / planned)),
        ]
        try await schedules.shutdown()
        await environment.stop(service)
    }

    /// Publishes donations and reads schedules, each at its rate.
    ///
    /// - Returns: number of donations that were applied and of reads that were answered while both went on, and the
    ///   latency of the last donation that was applied at each look.
    private func donateWhileReading(
        _ schedules: ScheduleReaders, _ random: inout SeededGenerator, _ environment: LoadTestEnvironment
    ) async throws -> (seconds: Double, applied: Int, answers: Int, latency: LatencySummary) {
        Terminal.progress("reading schedules for \(duration) s")
        let before = try await environment.store.appliedEvents()
        let count = rate * duration
        // Published together, every 50 ms.
        let chunk = max(1, rate / 20)
        let events = (0..<count).map { donation(to: random.below(people), $0, &random) }
        let began = ContinuousClock.now
        let end = began + .seconds(duration)
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await schedules.read(until: end, rate: readRate, width: 256) }
            group.addTask {
                try await environment.withPublisher { publisher in
                    for (index, first) in stride(from: 0, to: count, by: chunk).enumerated() {
                        try await Task.sleep(until: began + .milliseconds(50 * index), clock: .continuous)
                        let part = Array(events[first..<min(first + chunk, count)])
                        for result in await publisher.publish(part) { _ = try result.get() }
                    }
                }
            }
            var (applied, latency) = (0, Histogram<UInt32>.latencies())
            while ContinuousClock.now < end {
                try await Task.sleep(for: .milliseconds(20))
                let now = try await environment.store.appliedEvents() - before
                if now > applied {
                    latency.record((began + .milliseconds(50 * ((now - 1) / chunk))).duration(to: .now))
                }
                applied = now
            }
            let (seconds, answers) = (began.duration(to: .now) / .seconds(1), schedules.answers)
            try await group.waitForAll()
            return (seconds, applied, answers, latency.summary)
        }
    }
}

/// Readers of stacks' schedules over HTTP, with the entity tags that they have.
final class ScheduleReaders: Sendable {
    /// Most connections.
    private static let connections = 256

    private let counts = Mutex((latency: Histogram<UInt32>.latencies(), answers: 0, failures: 0))
    /// By path.
    private let tags = Mutex<[String: String]>([:])
    private let next = Atomic(0)
    private let http: HTTPClient
    private let base: String
    private let token: String
    private let paths: [String]

    /// - Parameters:
    ///   - port: port of the API.
    ///   - paths: of the schedules, below the app.
    init(app: String, port: Int, token: String, paths: [String]) {
        base = "http://127.0.0.1:\(port)/v1/apps/\(app)/"
        self.token = token
        self.paths = paths
        var configuration = HTTPClient.Configuration()
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = Self.connections
        http = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }

    func shutdown() async throws { try await http.shutdown() }

    /// Makes a key for the API and a token by it.
    ///
    /// - Parameter file: where the key is written, readable for its owner only.
    static func token(app: String, keyIn file: URL) async throws -> String {
        let jwks: JSONValue = ["keys": [TokenKeys.makeKey(.hs256, id: "load")]]
        let attributes: [FileAttributeKey: Any] = [.posixPermissions: 0o600]
        guard FileManager.default.createFile(atPath: file.path, contents: Data(jwks.encoded), attributes: attributes)
        else { throw CommandFailure(.failure, "cannot write \(file.path)") }
        return try await TokenKeys(jwks: jwks.encoded).issue(
            app: app, scopes: [.widgetsRead], expiresAt: Timestamp.now() + .seconds(86_400))
    }

    var answers: Int { counts.withLock { $0.answers } }
    var failures: Int { counts.withLock { $0.failures } }
    var latency: LatencySummary { counts.withLock { $0.latency.summary } }

    /// Reads each schedule once, so that all are planned. What is counted begins afterwards.
    func readAll(width: Int) async throws {
        try await run(width: width) { index in index < self.paths.count ? .now : nil }
        counts.withLock { $0 = (.latencies(), 0, 0) }
    }

    /// Reads in turn at a rate until a time. Latencies count from the intended time.
    ///
    /// - Parameter width: most requests at a time; those beyond it wait.
    func read(until end: ContinuousClock.Instant, rate: Int, width: Int) async throws {
        let began = ContinuousClock.now
        try await run(width: width) { index in
            let intended = began + .seconds(1) * index / rate
            return intended < end && ContinuousClock.now < end ? intended : nil
        }
    }

    /// - Parameter time: intended time of a request by its number; nil ends the run.
    private func run(
        width: Int, at time: @escaping @Sendable (Int) -> ContinuousClock.Instant?
    ) async throws {
        next.store(0, ordering: .relaxed)
        try await withThrowingDiscardingTaskGroup { group in
            for _ in 0..<width {
                group.addTask {
                    while true {
                        let index = self.next.add(1, ordering: .relaxed).oldValue
                        guard let intended = time(index) else { return }
                        try await Task.sleep(until: intended, clock: .continuous)
                        try await self.ask(self.paths[index % self.paths.count], at: intended)
                    }
                }
            }
        }
    }

    private func ask(_ path: String, at intended: ContinuousClock.Instant) async throws {
        var request = HTTPClientRequest(url: base + path)
        request.headers.add(name: "Authorization", value: "Bearer \(token)")
        if let tag = tags.withLock({ $0[path] }) { request.headers.add(name: "If-None-Match", value: tag) }
        let response = try await http.execute(request, timeout: .seconds(30))
        _ = try await response.body.collect(upTo: 1 << 20)
        let took = intended.duration(to: .now)
        tags.withLock { $0[path] = response.headers.first(name: "ETag") }
        counts.withLock { counts in
            counts.answers += 1
            if response.status != .ok, response.status != .notModified { counts.failures += 1 }
            counts.latency.record(took)
        }
    }
}
