import FreshetClient
import KafkaClient
import Logging
import ReloadWorkers
import ServiceLifecycle
import WidgetModel
import WidgetStore

/// What a scenario prints.
protocol LoadReport: Sendable {
    /// What is missing at the end; anything but 0 makes the command fail.
    var lost: Int { get }
    var lines: [String] { get }
    var json: JSONValue { get }
}

/// A load scenario: what runs meanwhile, and what it does.
protocol LoadScenario: Sendable {
    /// In the order in which they start.
    var services: [any Service] { get }
    /// Before the services start.
    func prepare() async throws
    /// While they run.
    func run() async throws -> any LoadReport
}

/// A node with every role and its provider, in this process, and the apps that a scenario loads it with.
struct LoadBench: Sendable {
    let node: FreshetNode
    let provider: SampleProvider
    let latency: ReloadLatency
    let logger: Logger

    init(settings: Settings, seed: UInt64, logger: Logger) throws {
        let latency = ReloadLatency()
        self.latency = latency
        self.logger = logger
        node = try FreshetNode(settings: settings, roles: .all, logger: logger) { timeline, cause in
            latency.stored(timeline, cause)
        }
        provider = SampleProvider(seed: seed, port: 0, maximumTracked: 0, logger: logger)
    }

    var services: [any Service] { [provider] + node.services }

    func prepare() async throws {
        try await node.prepare(migrate: true)
        try await node.requireEmptyDatabase()
    }

    /// What a scenario works with once its apps are there and everything is quiet.
    struct Site: Sendable {
        let bench: LoadBench
        let publisher: EventPublisher
        /// The store before the first event.
        let before: Overview.Row

        var node: FreshetNode { bench.node }
        var latency: ReloadLatency { bench.latency }

        func stream(of app: LoadApp, rate: Int, seed: UInt64) -> LoadStream {
            LoadStream(app: app, rate: rate, seed: seed, publisher: publisher, latency: latency)
        }

        /// Waits until everything that the streams have published is applied and rendered.
        ///
        /// - Parameter others: events that were published besides.
        func settled(others: Int = 0) async throws -> LoadLosses {
            let published = latency.counts.sent - latency.counts.failed + others
            let after = try await node.settled(published: published)
            return LoadLosses(
                counts: latency.counts, others: others, applied: try await node.appliedEvents(), before: before,
                after: after)
        }
    }

    /// Registers the apps, imports their widgets, waits until all of them are rendered and everything is quiet, and
    /// lends what a scenario needs.
    func run<Value: Sendable>(
        _ apps: [LoadApp], _ body: @Sendable (Site) async throws -> Value
    ) async throws -> Value {
        let port = try await provider.port()
        try await node.register(apps.map { $0.definition(port: port) })
        _ = try await node.ready()
        for app in apps {
            Terminal.progress("importing \(app.people) widgets of \(app.name)")
            try await node.importWidgets(of: app)
        }
        Terminal.progress("rendering all of them")
        let before = try await node.settled(published: 0)
        guard before.stale == 0, before.stored == before.timelines else {
            throw CommandFailure(.failure, "\(before.stale) of \(before.timelines) timelines could not be rendered")
        }
        var kafka = node.kafka
        // Latencies are measured from the time at which an event was to be sent, not to wait for others.
        kafka.properties["linger.ms"] = "0"
        let producer = try KafkaProducer(
            configuration: kafka, deliveryTimeout: node.settings.kafka.deliveryTimeout, logger: logger)
        do {
            let publisher = EventPublisher(
                producer: producer, topics: node.settings.topicNames, source: "/freshet/load")
            let value = try await body(Site(bench: self, publisher: publisher, before: before))
            await producer.shutdown()
            Terminal.endProgress()
            return value
        } catch {
            await producer.shutdown()
            Terminal.endProgress()
            throw error
        }
    }
}

/// What the workers did in a span of time, for the reports.
struct WorkerSpan: Sendable {
    var requests = 0
    var requestedTimelines = 0
    /// Timelines that providers gave; what was stored last may not be completed yet.
    var fetched = 0
    var seconds = 0.0

    init() {}

    init(from before: WorkerStatistics.Snapshot?, to after: WorkerStatistics.Snapshot?, seconds: Double) {
        self.seconds = seconds
        guard let before, let after else { return }
        requests = after.requests - before.requests
        requestedTimelines = after.requestedTimelines - before.requestedTimelines
        fetched = after.fetched - before.fetched
    }

    var perSecond: Double { Double(fetched) / max(seconds, 0.001) }
    var perRequest: Double { Double(requestedTimelines) / Double(max(requests, 1)) }

    var line: String {
        "\(fetched) reloads in \(DemoScreen.decimal(seconds)) s, \(Int(perSecond)) a second, in \(requests) requests of "
            + "\(DemoScreen.decimal(perRequest)) timelines"
    }

    var json: JSONValue {
        [
            "reloads": .number(JSONNumber(fetched)), "seconds": .rounded(seconds),
            "reloadsPerSecond": .rounded(perSecond), "requests": .number(JSONNumber(requests)),
            "timelinesPerRequest": .rounded(perRequest),
        ]
    }
}
