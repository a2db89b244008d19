import FreshetClient
import KafkaClient
import Logging
import PostgresClient
import ServiceLifecycle
import WidgetModel
import WidgetStore

/// Where the service of a scenario runs.
enum ServicePlacement: String, Sendable {
    /// All roles in the tool's own process.
    case here
    /// All roles in one process of their own.
    case apart
    /// Ingest and workers in a process each.
    case separate
}

/// A farm on which reloads are measured one by one: apps whose widgets are all rendered, a running service, a consumer of
/// its output, and the samples for the charts.
struct LoadStage: Sendable {
    let farm: Farm
    let placement: ServicePlacement
    let publisher: EventPublisher
    let latency: ReloadLatency
    let watch: OutputWatch
    let monitor: LoadMonitor
    /// Empty where the service is in this process.
    let services: [ChildProcess]

    /// How long nothing may move before a scenario gives up; what is missing then is in its result.
    static let patience = Duration.seconds(60)

    /// How the charts are sampled.
    struct Sampling: Sendable {
        var interval = Duration.seconds(1)
        /// Sizes and row versions besides.
        var includesTables = false
    }

    /// Registers and renders the apps, and lends the stage; everything on it ends with `body`.
    static func with<Value: Sendable>(
        _ farm: Farm, worlds: [LoadWorld], placement: ServicePlacement, sampling: Sampling = Sampling(),
        _ body: @escaping @Sendable (LoadStage) async throws -> Value
    ) async throws -> Value {
        let (latency, watch, progress) = (ReloadLatency(), OutputWatch(), LoadProgress())
        for world in worlds {
            progress.phase("importing \(world.widgets) widgets of \(world.app)")
            try await world.place(in: farm.store, provider: farm.providerURL)
        }
        var kafka = farm.kafka
        // Where milliseconds do not count at the output, the broker is asked less often than it can answer.
        if let wait = farm.plan.readerWait ?? (placement == .here ? .milliseconds(100) : nil) {
            kafka.properties["fetch.wait.max.ms"] = "\(wait.wholeMilliseconds)"
            kafka.properties["fetch.min.bytes"] = "1000000"
        }
        let consumer = try KafkaConsumer(
            configuration: KafkaConsumerConfiguration(
                kafka: kafka, group: "\(farm.settings.kafka.group)-output",
                topics: [farm.settings.topics.timelines]), logger: farm.logger)
        let local = placement == .here ? try LocalService(farm, latency: latency) : nil
        let onPublished: (@Sendable (TimelineID) -> Void)?
        if local == nil { onPublished = { latency.published($0) } } else { onPublished = nil }
        return try await withThrowingTaskGroup(of: Value?.self) { group in
            group.addTask {
                try await watch.run(consumer, onPublished: onPublished, logger: farm.logger)
                return nil
            }
            if let local {
                group.addTask {
                    try await local.run()
                    return nil
                }
            }
            group.addTask {
                let services = try await start(placement, local, farm)
                let probe = ServiceProbe(farm: farm, services: services, includesTables: sampling.includesTables)
                let monitor = LoadMonitor(
                    latency: latency, progress: progress, interval: sampling.interval, probe: probe.sample)
                return try await farm.withPublisher { publisher in
                    let stage = LoadStage(
                        farm: farm, placement: placement, publisher: publisher, latency: latency, watch: watch,
                        monitor: monitor, services: services)
                    return try await stage.run(body)
                }
            }
            while let finished = try await group.next() {
                if let value = finished {
                    group.cancelAll()
                    do { while try await group.next() != nil {} } catch {}
                    return value
                }
                try Task.checkCancellation()
                throw CommandFailure(.failure, "a part of the scenario has ended by itself")
            }
            throw CancellationError()
        }
    }

    private static func start(
        _ placement: ServicePlacement, _ local: LocalService?, _ farm: Farm
    ) async throws -> [ChildProcess] {
        switch placement {
        case .here:
            try await local?.ready()
            return []
        case .apart: return [try await farm.startService()]
        case .separate: return [try await farm.startService(.ingest), try await farm.startService(.workers)]
        }
    }

    private func run<Value: Sendable>(
        _ body: @escaping @Sendable (LoadStage) async throws -> Value
    ) async throws -> Value {
        monitor.progress.phase("rendering all widgets")
        try await settle()
        guard let overview = try await farm.pool.query(Overview()).first, overview.stale == 0,
            overview.stored == overview.timelines
        else { throw CommandFailure(.failure, "the widgets could not be rendered before the events") }
        // What was published so far has been read, so that what counts begins with the events.
        try await readOutput()
        _ = await farm.checkpoint()
        watch.arm()
        return try await withThrowingTaskGroup(of: Value?.self) { group in
            group.addTask {
                await monitor.run()
                return nil
            }
            group.addTask { try await body(self) }
            defer { group.cancelAll() }
            while let finished = try await group.next() {
                if let value = finished { return value }
            }
            throw CancellationError()
        }
    }

    func stream(of world: LoadWorld, _ plan: StreamPlan) -> LoadStream {
        LoadStream(
            world: world, plan: plan, publisher: publisher, latency: latency, avoidsWaiting: placement != .here)
    }

    // MARK: Waiting

    /// - Throws: ``CommandFailure`` when a service has ended by itself.
    func requireServices() throws {
        try farm.requireServices()
    }

    /// The consumer positions.
    func positions() async throws -> [EventPlace: Int64] {
        let topics = farm.settings.topics
        let names = [topics.pushes, topics.appChanges, topics.widgets]
        var positions: [EventPlace: Int64] = [:]
        for row in try await farm.pool.query(ListPositions()) {
            guard let topic = names.firstIndex(where: { Text.equal($0, row.topic) }) else { continue }
            positions[EventPlace(topic: Int16(topic), partition: row.partition)] = row.nextOffset
        }
        return positions
    }

    /// Waits until everything that was published is applied, nothing is due, and nothing is being worked on; gives up when
    /// nothing has moved for a while.
    func settle() async throws {
        var progress: [Int] = []
        var since = ContinuousClock.now
        while since.duration(to: .now) < Self.patience {
            try requireServices()
            let unapplied = latency.unapplied(at: try await positions())
            if latency.unacknowledged == 0, unapplied == 0,
                try await farm.pool.query(TimelinesUnderWay()).first == 0
            {
                return
            }
            let now = [
                latency.unacknowledged, unapplied, watch.messages, await farm.providerCounts()?.timelines ?? 0,
            ]
            if now != progress { (progress, since) = (now, .now) }
            try await Task.sleep(for: .milliseconds(100))
        }
    }

    /// Waits until the output topic is read to its end.
    func readOutput() async throws {
        let ends = try await LoadOutput.ends(
            of: farm.settings.topics.timelines, kafka: farm.kafka, logger: farm.logger)
        let start = ContinuousClock.now
        while !watch.hasReached(ends), start.duration(to: .now) < Self.patience {
            try await Task.sleep(for: .milliseconds(20))
        }
    }
}

extension Farm {
    /// Lends a publisher of events, and finishes what is under way.
    func withPublisher<Value: Sendable>(
        _ body: (EventPublisher) async throws -> Value
    ) async throws -> Value {
        var kafka = kafka
        // By default none waits for others: latencies are measured from the time at which an event was to be sent.
        kafka.properties["linger.ms"] = "\(plan.publisherLinger.wholeMilliseconds)"
        let producer = try KafkaProducer(
            configuration: kafka, deliveryTimeout: settings.kafka.deliveryTimeout, logger: logger)
        let publisher = EventPublisher(producer: producer, topics: settings.topicNames, source: "/freshet/load")
        do {
            let value = try await body(publisher)
            await producer.shutdown()
            return value
        } catch {
            await producer.shutdown()
            throw error
        }
    }
}

/// All roles in this process, on the farm's parts.
struct LocalService: Sendable {
    private let node: FreshetNode
    private let logger: Logger

    init(_ farm: Farm, latency: ReloadLatency) throws {
        var settings = farm.settings
        settings.role = .all
        settings.api.port = 0
        settings.providers.allowPrivateNetworks.append("127.0.0.0/8")
        logger = farm.logger
        node = try FreshetNode(settings: settings, roles: .all, logger: farm.logger) { timeline, cause in
            latency.stored(timeline, cause)
        }
    }

    func run() async throws {
        try await node.prepare(migrate: false)
        do {
            try await ServiceGroup(configuration: .ofFreshet(node.services, logger: logger)).run()
        } catch is CancellationError {
            return
        }
    }

    func ready() async throws {
        _ = try await node.ready()
    }
}
