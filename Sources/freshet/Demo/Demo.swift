import Foundation
import FreshetClient
import FreshetService
import KafkaClient
import Logging
import ReloadIngest
import SampleProvider
import ServiceLifecycle
import Synchronization
import WidgetModel
import WidgetStore

/// The demo: a node with every role, a sample provider, and the services and devices of its apps.
struct Demo: Sendable {
    private let plan: DemoPlan
    private let settings: Settings
    private let node: FreshetNode
    private let provider: SampleProvider
    private let providerPort = ListeningPort()
    private let latency: DemoLatency
    private let devices: DemoDevices
    /// Token for the console, if it is served.
    private let token: String?
    private let output = DemoOutput()
    private let outcome: RunOutcome
    private let logger: Logger

    init(
        plan: DemoPlan, settings: Settings, devices: DemoDevices, token: String?, logger: Logger, outcome: RunOutcome
    ) throws {
        self.plan = plan
        self.devices = devices
        self.token = token
        self.settings = settings
        self.logger = logger
        self.outcome = outcome
        let latency = DemoLatency()
        self.latency = latency
        node = try FreshetNode(
            settings: settings, logger: logger,
            observer: token.flatMap { _ in Observation.begin(for: settings) },
            onStored: { timeline, cause in latency.stored(timeline, cause) })
        provider = SampleProvider(
            seed: plan.seed, maximumTracked: 1_000_000, logger: logger, onListening: providerPort.listens(on:))
    }

    /// In the order in which they start.
    var services: [any Service] {
        [
            ListeningService(
                description: "provider", service: provider, port: providerPort, place: "the sample provider")
        ] + node.services(migrate: true) + [
            BackgroundService("output") { try await readOutput() },
            BackgroundService("demo") { try await run() },
        ]
    }

    func prepare() async throws {
        try await NodePreparation(pool: node.pool, logger: logger).prepareDatabase(migrate: true)
        try await node.store.requireEmpty()
    }

    private func readOutput() async throws {
        let consumer = try KafkaConsumer(
            configuration: KafkaConsumerConfiguration(kafka: node.kafka, group: "freshet-demo-output"),
            logger: logger)
        try await consumer.read([settings.topics.timelines]) { [output] batch in output.read(batch) }
    }

    // MARK: The run

    private func run() async throws {
        var screen = DemoScreen()
        let start = ContinuousClock.now
        screen.say("Freshet demo: \(plan.world.widgets) widgets of \(plan.world.users) people in three apps")
        let port = try await providerPort.wait()
        let apps = SampleKinds.apps(port: port)
        try await node.store.register(apps)
        let endpoint = try await node.ready()
        screen.say("  Kafka (embedded) \(endpoint.bootstrapServers) · provider http://127.0.0.1:\(port)/stats")

        let watch = DemoWatch(node: node, provider: provider, latency: latency, world: plan.world, start: start)
        screen = try await EventPublisher.withPublisher(
            kafka: node.kafka, deliveryTimeout: settings.kafka.deliveryTimeout, topics: settings.topicNames,
            source: "/freshet/demo", logger: logger
        ) { [screen] publisher in
            let traffic = DemoTraffic(world: plan.world, publisher: publisher, latency: latency)
            return try await phases(traffic, watch, screen, start)
        }
        if plan.keep { try await wait(screen, endpoint) }
    }

    private func phases(
        _ traffic: DemoTraffic, _ watch: DemoWatch, _ screen: DemoScreen, _ start: ContinuousClock.Instant
    ) async throws -> DemoScreen {
        let applied: @Sendable () -> Int = { [node] in
            let ingest = node.statistics().ingest
            return (ingest?.events ?? 0) + (ingest?.deadLetters ?? 0)
        }
        var screen = try await watch.showing("placing widgets", screen, traffic) {
            try await traffic.registerDevices()
            try await traffic.placeAll(applied: applied)
            try await settle(traffic)
        }
        screen.say("  all placed and rendered after \(Figure.digits(start.duration(to: .now) / .seconds(1))) s")
        let stack = DemoStack(plan.world)
        await traffic.arrange(stack)
        try await settle(traffic)
        for line in try await stack.lines(from: node.store) { screen.say(line) }
        screen = try await watch.showing("publishing reloads", screen, traffic) {
            try await traffic.stream(rate: plan.rate, for: .seconds(plan.seconds), seed: plan.seed, applied: applied)
        }
        screen = try await watch.showing("finishing", screen, traffic) { try await settle(traffic) }

        let verdict = try await judge(traffic, start)
        for line in verdict.lines(counts: traffic.counts) { screen.say(line) }
        outcome.end(lost: verdict.lost.count)
        return screen
    }

    /// Waits until all published events are applied and rendered, at most two minutes.
    private func settle(_ traffic: DemoTraffic) async throws {
        let deadline = ContinuousClock.now + .seconds(120)
        while ContinuousClock.now < deadline {
            let isApplied = try await node.store.appliedEvents() >= traffic.counts.events - traffic.failures
            if isApplied, let overview = try await node.store.query(.overview()).first {
                let isQuiet = overview.sweeps == 0 && overview.leased == 0 && overview.due == 0
                let isSeen = output.snapshot.revisions.count >= Int(overview.stored)
                if isQuiet && isSeen && overview.stale == 0 { return }
            }
            try await Task.sleep(for: .milliseconds(200))
        }
    }

    /// Waits until every device was notified of the changes until now, at most two minutes.
    ///
    /// - Returns: the number of devices that were not.
    private func settleDevices() async throws -> Int64 {
        let deadline = ContinuousClock.now + .seconds(120)
        let now = try await node.store.query(.databaseTime()).first ?? WallClock.now()
        while true {
            let waiting: Int64 = try await node.store.query(.waitingDevices(since: now)).first ?? 0
            guard waiting > 0, ContinuousClock.now < deadline else { return waiting }
            try await Task.sleep(for: .milliseconds(200))
        }
    }

    private func judge(_ traffic: DemoTraffic, _ start: ContinuousClock.Instant) async throws -> DemoVerdict {
        guard let overview = try await node.store.query(.overview()).first else {
            throw CommandFailure(.failure, "PostgreSQL answered nothing")
        }
        let waiting = try await settleDevices()
        let applied = try await node.store.appliedEvents()
        let output = output.snapshot
        let totals = try await node.store.query(.deviceTotals(silentFor: .zero)).first
        let lost = DemoVerdict.lost(
            overview: overview, output: output, events: (traffic.counts.events, applied), failures: traffic.failures,
            expectedTimelines: plan.world.distinctTimelines, devicesWaiting: waiting)
        return DemoVerdict(
            eventsPublished: traffic.counts.events, eventsApplied: applied, overview: overview,
            provider: provider.statistics().answered, output: output, lost: lost, latency: latency.overall(),
            devices: Int(totals?.devices ?? 0), pushes: devices.standIn.statistics,
            seconds: start.duration(to: .now) / .seconds(1))
    }

    // MARK: Afterwards

    private func wait(_ screen: DemoScreen, _ endpoint: FreshetNode.Endpoint) async throws {
        var screen = screen
        let program = CommandLine.arguments.first ?? "freshet"
        for line in [
            "",
            "It goes on running; Ctrl-C ends it. In another terminal:",
            "",
            "  export FRESHET_KAFKA_BOOTSTRAP_SERVERS=\(endpoint.bootstrapServers)",
            "  export FRESHET_POSTGRES_URL='\(settings.postgres.url ?? "")'",
            "  alias freshet=\(program)",
            "",
            "  freshet timelines show --app \(SampleWorld.bank) --widget w0",
            "  freshet publish push --app \(SampleWorld.bank) --user u0 --kind RecentPurchases",
            "  " + Self.kcatExample,
            "  freshet timelines show --app \(SampleWorld.bank) --widget w0",
        ] { screen.say(line) }
        if let token, let port = endpoint.apiPort {
            screen.say("\nThe console is at http://127.0.0.1:\(port)/console; sign in with this token:\n\n  \(token)")
        }
        // Until the group is shut down, which cancels this.
        try await Task.sleep(for: .seconds(365 * 86_400))
    }

    /// The README's example line.
    static let kcatExample = """
        echo '{"specversion":"1.0","id":"1","source":"/docs","type":"freshet.push.received.v1","data":{"app":\
        "com.example.bank","audience":{"user":"u0"},"kinds":["RecentPurchases"]}}' | kcat -P -b \
        "$FRESHET_KAFKA_BOOTSTRAP_SERVERS" -t freshet.pushes -k u0
        """
}
