// SPDX-License-Identifier: Apache-2.0

import AsyncHTTPClient
import Foundation
import FreshetClient
import FreshetService
import JSON
import KafkaClient
import Logging
import NIOCore
import PostgresClient
import Synchronization
import WidgetModel
import WidgetStore

/// The broker, provider, database and services of a scenario. Parts that the user did not name are processes of
/// `freshet`, so that the cost of each is known, and end with the scenario.
struct LoadTestEnvironment: Sendable {
    /// Needs of a scenario.
    struct Plan: Sendable {
        /// Partitions of the input topics, and of the topic of timelines: the embedded broker keeps the last 5 MiB of
        /// each.
        var inputPartitions = 16
        var outputPartitions = 16
        var seed: UInt64 = 1
        /// Time for which an event waits for others to share a request to Kafka (`linger.ms`).
        var publisherLinger = Duration.zero
        /// Time for which the reader of the output lets messages gather.
        var readerWait: Duration?
        /// Whether the service runs already, on the topics and in the group that the settings name.
        var usesRunningService = false
    }

    let plan: Plan
    let settings: Settings
    let kafka: KafkaConfiguration
    /// Without a path.
    let providerURL: String
    let pool: PostgresPool
    let logger: Logger
    let processes: LoadProcesses
    private let options: ScenarioOptions

    var store: WidgetStore { WidgetStore(pool: pool) }

    /// Lends an environment with an empty database at the newest migrations; its processes end with `body`.
    static func with<Value: Sendable>(
        _ plan: Plan, options: ScenarioOptions, settings given: Settings, logger: Logger,
        _ body: @Sendable (LoadTestEnvironment) async throws -> Value
    ) async throws -> Value {
        let processes = LoadProcesses()
        var configuration = try given.postgresConfiguration()
        configuration.maximumConnections = 2
        // A checkpoint of a large database, and tidying it, take longer than any request of the service may.
        configuration.statementTimeout = .seconds(3_600)
        let pool = PostgresPool(configuration: configuration, logger: logger)
        let outcome: Result<Value, any Error>
        do {
            let environment = try await make(
                plan, options: options, settings: given, pool: pool, processes: processes, logger: logger)
            let value = try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { await environment.processes.run() }
                let value = try await body(environment)
                group.cancelAll()
                return value
            }
            outcome = .success(value)
        } catch {
            outcome = .failure(error)
        }
        // A task of its own, since this one may be cancelled.
        await Task {
            let (parts, services) = (processes.parts.withLock { $0 }, processes.services.withLock { $0.ready })
            let running = services + [parts.provider, parts.broker].compactMap { $0 }
            for process in running { await process.stop() }
            await pool.shutdown()
        }.value
        return try outcome.get()
    }

    private static func make(
        _ plan: Plan, options: ScenarioOptions, settings given: Settings, pool: PostgresPool, processes: LoadProcesses,
        logger: Logger
    ) async throws -> LoadTestEnvironment {
        var settings = given
        try await pool.prepare(migrate: true, logger: logger)
        try await WidgetStore(pool: pool).requireEmpty()
        // A group and, on the user's brokers, topics of its own, so that only the scenario's events are counted.
        let run = String(UInt32.random(in: 0...UInt32.max), radix: 36)
        settings.kafka.group = "freshet-load-\(run)"
        let servers = options.bootstrapServers ?? (plan.usesRunningService ? given.kafka.bootstrapServers : nil)
        var kafka = KafkaConfiguration(bootstrapServers: servers ?? "", properties: given.kafka.properties)
        if plan.usesRunningService {
            guard servers != nil else {
                throw CommandFailure(.configuration, "a service that runs already has brokers: --bootstrap-servers")
            }
        } else if servers != nil {
            settings.topics = TopicSettings(load: run)
            try await create(settings.topics, plan, on: kafka, logger)
        } else {
            let topics = settings.topics.partitions(plan).flatMap { ["--topic", "\($0.name)=\($0.count)"] }
            let broker = try await ChildProcess.start("embedded Kafka", ["kafka", "--set", "log.level=error"] + topics)
            processes.parts.withLock { $0.broker = broker }
            kafka.bootstrapServers = broker.greeting["bootstrapServers"]?.stringValue ?? ""
            kafka.properties.merge(EmbeddedKafka.clientProperties) { given, _ in given }
        }
        settings.kafka.bootstrapServers = kafka.bootstrapServers
        settings.kafka.embedded = false
        settings.kafka.properties = kafka.properties
        var providerURL = options.provider ?? ""
        if options.provider == nil {
            let provider = try await ChildProcess.start(
                "provider", ["provider", "--set", "log.level=error", "--port", "0", "--seed", "\(plan.seed)"])
            processes.parts.withLock { $0.provider = provider }
            providerURL = "http://127.0.0.1:\(provider.greeting["port"]?.numberValue?.int64 ?? 0)"
        }
        let environment = LoadTestEnvironment(
            plan: plan, settings: settings, kafka: kafka, providerURL: providerURL, pool: pool, logger: logger,
            processes: processes, options: options)
        try await environment.findDatabase()
        return environment
    }

    private static func create(
        _ topics: TopicSettings, _ plan: Plan, on kafka: KafkaConfiguration, _ logger: Logger
    ) async throws {
        let errors = try await KafkaAdmin(configuration: kafka, logger: logger).createTopics(
            topics.partitions(plan).map { topic in
                KafkaTopicSpecification(
                    name: topic.name, partitions: topic.count,
                    configuration: Text.equal(topic.name, topics.timelines) ? KafkaTopicSpecification.compacted : [:])
            })
        for error in errors.values where error.code != .topicAlreadyExists { throw error }
    }

    /// Finds the server's processes if it runs here, while all of this environment's own connections are open.
    private func findDatabase() async throws {
        let pool = pool
        let backends = try await withThrowingTaskGroup(of: DatabaseVitals?.self) { group in
            for _ in 0..<pool.configuration.maximumConnections {
                group.addTask {
                    try await pool.withConnection { connection in
                        // Long enough that the other connection is made meanwhile.
                        try await connection.simple("SELECT pg_sleep(0.05)")
                        return try await connection.query(.databaseVitals()).first
                    }
                }
            }
            return try await group.reduce(into: [DatabaseVitals]()) { rows, row in if let row { rows.append(row) } }
        }
        guard backends.allSatisfy(\.isLocal) else { return }
        let own = Set(backends.map(\.backend))
        guard let postmaster = ProcessUsage.postmaster(of: own) else { return }
        processes.parts.withLock { $0.database = (postmaster, own) }
    }

    // MARK: Services

    /// Starts the service in a process of its own; returns when all its roles work.
    ///
    /// - Parameter settings: assignments besides those of the environment.
    func startService(_ role: ProcessRole = .all, settings more: [String] = []) async throws -> ChildProcess {
        let values =
            [
                ("kafka.group", settings.kafka.group), ("api.port", "0"), ("log.level", "warning"),
                ("providers.allowPrivateNetworks", "127.0.0.0/8"),
            ] + TopicSettings.names.map { ("topics.\($0.key)", settings.topics[keyPath: $0.path]) }
        var arguments = ["run", "--print-ready", "--role", role.rawValue]
        if let config = options.settings.config { arguments += ["--config", config] }
        // The last value of a repeated key counts.
        for assignment in values.map({ "\($0.0)=\($0.1)" }) + more + options.settings.assignments {
            arguments += ["--set", assignment]
        }
        let properties = kafka.properties.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }
        // Values that may hold a secret stay out of the list of processes.
        var environment = ["FRESHET_KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrapServers]
        environment["FRESHET_POSTGRES_URL"] = settings.postgres.url
        if !properties.isEmpty { environment["FRESHET_KAFKA_PROPERTIES"] = properties.joined(separator: ",") }
        let service = try await ChildProcess.start(
            role == .all ? "service" : "\(role.rawValue) service", arguments, environment: environment,
            onStart: { [processes] id in processes.services.withLock { $0.ids.append(id) } })
        processes.services.withLock { $0.ready.append(service) }
        return service
    }

    func stop(_ service: ChildProcess) async {
        await service.stop()
        processes.services.withLock { services in
            services.ready.removeAll { $0 === service }
            services.ids.removeAll { $0 == service.pid }
        }
    }

    /// - Throws: ``CommandFailure`` when a service has ended by itself.
    func requireServices() throws {
        for service in processes.services.withLock({ $0.ready }) where !service.isRunning {
            throw CommandFailure(.failure, "the \(service.name) has ended by itself")
        }
    }

    // MARK: Counters

    /// Requests and timelines that the provider has counted so far; nil when it is not the sample provider.
    func providerCounts() async -> (requests: Int, timelines: Int)? {
        let request = HTTPClientRequest(url: providerURL + "/stats")
        guard let response = try? await HTTPClient.shared.execute(request, timeout: .seconds(5)),
            let body = try? await response.body.collect(upTo: 1 << 20),
            let json = try? JSONValue.parse(String(buffer: body)),
            let requests = json["requests"]?.numberValue?.int64, let timelines = json["timelines"]?.numberValue?.int64
        else { return nil }
        return (Int(requests), Int(timelines))
    }

    /// Whether this environment started the broker.
    var isBrokerEmbedded: Bool { processes.parts.withLock { $0.broker != nil } }

    func vitals() async throws -> DatabaseVitals {
        guard let row = try await pool.query(.databaseVitals()).first else {
            throw CommandFailure(.failure, "PostgreSQL did not say where its log is")
        }
        return row
    }

    func overview() async throws -> Overview {
        guard let row = try await pool.query(.overview()).first else {
            throw CommandFailure(.failure, "PostgreSQL did not say what it holds")
        }
        return row
    }

    typealias Counters = (overview: Overview, walBytes: Int64, provider: (requests: Int, timelines: Int)?)

    /// Counters of the database and the provider now.
    func counters() async throws -> Counters {
        (try await overview(), try await vitals().walBytes, await providerCounts())
    }

    /// Tidies the tables and writes a checkpoint.
    ///
    /// - Returns: false where that is not allowed.
    @discardableResult
    func checkpoint() async -> Bool {
        do {
            return try await pool.withConnection { connection in
                _ = try await connection.execute(.tidyTimelines())
                _ = try await connection.execute(.writeCheckpoint())
                return true
            }
        } catch {
            return false
        }
    }

    /// Calls a closure with every timeline in PostgreSQL, read a page at a time.
    func forEachTimeline(_ body: (TimelineSummary) -> Void) async throws {
        var after: TimelineID?
        let page = 20_000
        while true {
            let rows = try await pool.query(.storedTimelines(after: after, limit: page))
            for row in rows { body(row) }
            guard rows.count == page, let last = rows.last else { return }
            after = last.id
        }
    }

    // MARK: Kafka

    /// Ends of a topic's partitions.
    func ends(of topic: String) async throws -> [TopicPartition: Int64] {
        let admin = KafkaAdmin(configuration: kafka, logger: logger)
        let partitions = try await admin.describe(topics: [topic]).flatMap(\.partitions)
        return try await admin.bounds(of: partitions.map { TopicPartition(topic: topic, partition: $0.id) })
            .mapValues(\.upperBound)
    }

    /// Lends a publisher of events, and finishes what is under way.
    ///
    /// - Parameter linger: how long an event waits for others; the plan's when nil.
    func withPublisher<Value: Sendable>(
        linger: Duration? = nil, _ body: (EventPublisher) async throws -> Value
    ) async throws -> Value {
        var kafka = kafka
        kafka.properties["linger.ms"] = "\((linger ?? plan.publisherLinger).wholeMilliseconds)"
        return try await EventPublisher.withPublisher(
            kafka: kafka, deliveryTimeout: settings.kafka.deliveryTimeout, topics: settings.topicNames,
            source: "/freshet/load", logger: logger, body)
    }

    /// Publishes a reload of each of these widgets, in their order, as fast as Kafka takes them, and checks that the
    /// broker still has all of them: the embedded one silently drops what does not fit.
    ///
    /// - Parameter id: the event's, by the index among the widgets.
    /// - Throws: ``CommandFailure`` when the broker has not kept all of them; `KafkaError`.
    func publishReloads(of widgets: [Int], in world: LoadWorld, id: (Int) -> String) async throws {
        let topic = settings.topics.pushes
        let starts = try await ends(of: topic)
        try await publish(widgets.count) { index in
            OutgoingEvent(
                world.reload(widgets[index]), id: id(index), time: Timestamp.now(),
                key: "u\(world.person(of: widgets[index]))")
        }
        let bounds = try await KafkaAdmin(configuration: kafka, logger: logger).bounds(of: Array(starts.keys))
        let kept = bounds.reduce(0) { $0 + $1.value.upperBound - max(starts[$1.key] ?? 0, $1.value.lowerBound) }
        guard kept >= widgets.count else {
            throw CommandFailure(.failure, "the broker has \(kept) of \(widgets.count) events")
        }
    }

    /// Publishes events as fast as Kafka takes them.
    ///
    /// - Parameter event: the event by its index.
    func publish(_ count: Int, _ event: (Int) -> OutgoingEvent) async throws {
        // As large sets as can be: the embedded broker walks through all that it keeps of a partition for every fetch.
        try await withPublisher(linger: .milliseconds(50)) { publisher in
            let chunk = 50_000
            for first in stride(from: 0, to: count, by: chunk) {
                let events = (first..<min(first + chunk, count)).map(event)
                for result in await publisher.publish(events) { _ = try result.get() }
            }
        }
    }

    /// A consumer of the topic of timelines.
    ///
    /// - Parameter wait: how long messages gather; the client's default when nil.
    func outputConsumer(wait: Duration? = nil) throws(KafkaError) -> KafkaConsumer {
        var kafka = kafka
        if let wait {
            kafka.properties["fetch.wait.max.ms"] = "\(wait.wholeMilliseconds)"
            kafka.properties["fetch.min.bytes"] = "1000000"
        }
        return try KafkaConsumer(
            configuration: KafkaConsumerConfiguration(kafka: kafka, group: settings.kafka.group), logger: logger)
    }
}

/// Processes of an environment. Their CPU time is sampled all the time, so that the use between any two moments is
/// known afterwards.
final class LoadProcesses: Sendable {
    /// Interval of the samples, and precision of the figures. Each sample reads some small files of `/proc`.
    private static let interval = Duration.milliseconds(50)
    /// Most samples, those of an hour; beyond it every other one is dropped.
    private static let limit = 72_000

    /// Services that are ready, and the ids of all.
    fileprivate let services = Mutex<(ready: [ChildProcess], ids: [Int32])>(([], []))
    /// Broker and provider, and the database server with those of its processes that serve the load generator.
    fileprivate let parts = Mutex<(broker: ChildProcess?, provider: ChildProcess?, database: Server?)>((nil, nil, nil))
    fileprivate typealias Server = (postmaster: Int32, excluded: Set<Int32>)
    private let samples = Mutex<[UsageSample]>([])

    /// Takes a sample now.
    func sample() {
        // The processes are asked one by one, under no lock.
        let parts = parts.withLock { $0 }
        let services = services.withLock { $0.ids }.compactMap { ProcessUsage(of: $0)?.cpuSeconds }
        let sample = UsageSample(
            time: .now, service: services.isEmpty ? nil : services.reduce(0, +),
            database: parts.database.flatMap {
                ProcessUsage.cpuSeconds(ofServer: $0.postmaster, excluding: $0.excluded)
            },
            broker: parts.broker?.cpuSeconds, provider: parts.provider?.cpuSeconds,
            tool: ProcessUsage(of: ProcessUsage.own)?.cpuSeconds)
        samples.withLock { samples in
            if samples.count >= Self.limit {
                samples = samples.enumerated().filter { $0.offset % 2 == 0 }.map(\.element)
            }
            samples.append(sample)
        }
    }

    /// Takes samples until it is cancelled.
    func run() async {
        while !Task.isCancelled {
            sample()
            try? await Task.sleep(for: Self.interval, tolerance: .milliseconds(5))
        }
    }

    /// Resources used between two moments.
    func usage(from start: ContinuousClock.Instant, to end: ContinuousClock.Instant) -> UsageSample? {
        samples.withLock { $0.usage(from: start, to: end) }
    }
}

extension TopicSettings {
    fileprivate static var names: [(key: String, path: WritableKeyPath<TopicSettings, String>)] {
        [
            ("pushes", \.pushes), ("appChanges", \.appChanges), ("widgets", \.widgets), ("donations", \.donations),
            ("suggestions", \.suggestions), ("timelines", \.timelines), ("deadLetters", \.deadLetters),
            ("decisions", \.decisions),
        ]
    }

    /// Topics of one run.
    fileprivate init(load run: String) {
        self.init()
        for (_, path) in Self.names {
            self[keyPath: path] = self[keyPath: path].replacing("freshet.", with: "freshet-load-\(run).")
        }
    }

    fileprivate func partitions(_ plan: LoadTestEnvironment.Plan) -> [(name: String, count: Int)] {
        Self.names.map { key, path in
            let count =
                switch key {
                case "pushes", "donations": plan.inputPartitions
                case "timelines", "decisions": plan.outputPartitions
                default: 1
                }
            return (self[keyPath: path], count)
        }
    }
}
