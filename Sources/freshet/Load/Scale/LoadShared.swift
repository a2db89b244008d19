import ArgumentParser
import FreshetClient
import KafkaClient
import Logging
import PostgresClient
import ServiceLifecycle
import WidgetEvents
import WidgetModel
import WidgetStore

struct LoadSharedCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "shared",
        abstract: "One reload of a shared kind, whose many widgets show few timelines.",
        discussion: """
            Needs an empty PostgreSQL database (postgres.url). Embedded Kafka, every role and a sample provider run in \
            this process. Fills in the widgets, then publishes reloads of everyone, one after the other. A reload counts \
            from when its event was to be sent until the last of the kind's timelines is stored. The first one is the cold \
            one. The exit code is 1 if a timeline is left out.

            Examples:
              deploy/local/postgres run -- freshet load shared
              freshet load shared --widgets 100000 --configurations 500 --json
            """)

    @Option(help: "How many widgets, each of a person of its own.")
    var widgets = 1_000_000

    @Option(help: "How many configurations they have between them: so many timelines.")
    var configurations = 5_000

    @Option(help: "How many reloads.")
    var reloads = 6

    @OptionGroup var options: LoadOptions

    func validate() throws {
        try LoadOptions.check("--widgets", widgets, in: 1...100_000_000)
        try LoadOptions.check("--configurations", configurations, in: 1...min(widgets, 1_000_000))
        try LoadOptions.check("--reloads", reloads, in: 1...1_000)
    }

    func run() async throws {
        let plan = LoadShared.Plan(widgets: widgets, configurations: configurations, reloads: reloads)
        try await options.run(.all) { [options] settings, logger in
            LoadShared(plan: plan, bench: try LoadBench(settings: settings, seed: options.seed, logger: logger))
        }
    }
}

/// Reloads of a shared kind: what is done goes with its timelines, not with its widgets.
struct LoadShared: LoadScenario {
    struct Plan: Sendable {
        var widgets: Int
        var configurations: Int
        var reloads: Int
    }

    private static let app = DemoWorld.weather
    private static let kind = "Weather"
    private static let environment = WidgetEnvironment(storedLocale: "en-GB", timeZone: "Europe/London")
    private static let patience = Duration.seconds(60)

    let plan: Plan
    let bench: LoadBench

    var services: [any Service] { bench.services }

    /// Before the services start, since filling leaves the database without indexes for a while.
    func prepare() async throws {
        try await bench.prepare()
        try await bench.node.register([Self.definition(port: 9)])
        let directory = try await DirectoryCache(pool: bench.node.pool).refresh()
        guard let app = directory.apps[Self.app], let kind = directory.kind(Self.kind, of: app) else {
            throw CommandFailure(.failure, "the kind \(Self.kind) could not be registered")
        }
        Terminal.progress("filling in \(plan.widgets) widgets")
        let configurations = plan.configurations
        _ = try await bench.node.store.fill(
            FillPopulation(
                timelines: 0..<configurations,
                timeline: { index in
                    FilledTimeline(
                        identity: Self.identity(index, kind), kind: kind,
                        content: LoadPopulation.content(index, version: 0, bytes: 650),
                        hash: LoadPopulation.hash(index, version: 0), nextReload: .seconds(86_400))
                },
                widgets: 0..<plan.widgets,
                widget: { index in
                    FilledWidget(
                        placement: Self.placement(index, of: configurations), kind: kind,
                        timeline: Self.identity(index % configurations, kind).id)
                }),
            connections: 2)
    }

    /// Without spacing, so that one reload can follow another; with the rules, so that views are looked at.
    private static func definition(port: Int) -> AppDefinition {
        AppDefinition(
            name: app,
            kinds: [
                KindDefinition(
                    name: kind, sharing: .shared, variesBy: [], providerURL: "http://127.0.0.1:\(port)/weather",
                    maxBatch: 100, timeout: .seconds(10), minimumSpacing: .zero, placeholder: ["city": "City"])
            ])
    }

    private static func placement(_ index: Int, of configurations: Int) -> WidgetPlacement {
        WidgetPlacement(
            app: app, widget: "w\(index)", user: "u\(index)", device: "d\(index)", kind: kind, family: .systemSmall,
            configuration: WidgetConfiguration(storedCanonical: #"{"city":"City \#(index % configurations)"}"#),
            environment: environment)
    }

    private static func identity(_ index: Int, _ kind: RegisteredKind) -> TimelineIdentity {
        let placement = placement(index, of: .max)
        return TimelineIdentity(
            app: app, kind: placement.kind, sharing: .shared, variesBy: kind.definition.variesBy,
            family: placement.family, configuration: placement.configuration, environment: environment,
            user: placement.user)
    }

    func run() async throws -> any LoadReport {
        let node = bench.node
        try await node.register([Self.definition(port: try await bench.provider.port())])
        _ = try await node.ready()
        let producer = try KafkaProducer(
            configuration: node.kafka, deliveryTimeout: node.settings.kafka.deliveryTimeout, logger: bench.logger)
        do {
            let publisher = EventPublisher(
                producer: producer, topics: node.settings.topicNames, source: "/freshet/load")
            var report = Report(plan: plan)
            for index in 0..<plan.reloads {
                Terminal.progress("reload \(index + 1) of \(plan.reloads)")
                guard let time = try await reload(publisher) else { break }
                report.reloads.append(time)
            }
            report.lost = plan.configurations * (plan.reloads - report.reloads.count)
            if report.lost == 0 { report.lost = Int(try await node.settled(published: plan.reloads).stale) }
            await producer.shutdown()
            Terminal.endProgress()
            return report
        } catch {
            await producer.shutdown()
            Terminal.endProgress()
            throw error
        }
    }

    /// Publishes a reload of everyone; answers how long it took until all timelines were stored, nil when they were not.
    private func reload(_ publisher: EventPublisher) async throws -> Duration? {
        bench.latency.startCountingStored()
        let request = ReloadRequest(app: Self.app, audience: .everyone, kinds: .kinds([Self.kind]), reason: .push)
        let start = ContinuousClock.now
        _ = try await publisher.publish(OutgoingEvent(.push(request), time: SampleProvider.systemTime()))
        while bench.latency.distinctStored < plan.configurations {
            guard start.duration(to: .now) < Self.patience else { return nil }
            try await Task.sleep(for: .milliseconds(2))
        }
        return start.duration(to: .now)
    }

    struct Report: LoadReport {
        let plan: Plan
        var reloads: [Duration] = []
        var lost = 0

        private var milliseconds: [Double] { reloads.map { $0 / .milliseconds(1) } }

        /// Of those after the first.
        private var median: Double? {
            let warm = milliseconds.dropFirst().sorted()
            return warm.isEmpty ? milliseconds.first : warm[warm.count / 2]
        }

        var lines: [String] {
            [
                "\(plan.widgets) widgets show \(plan.configurations) timelines of one shared kind",
                "reload of everyone, event sent → last timeline stored (ms): "
                    + milliseconds.map(DemoScreen.decimal).joined(separator: ", ")
                    + "; median after the first \(median.map(DemoScreen.decimal) ?? "none")",
                "lost: \(lost)",
            ]
        }

        var json: JSONValue {
            let warm = LatencyHistogram.of(reloads.dropFirst()).summary
            return [
                "scenario": "shared", "events": .number(JSONNumber(plan.reloads)),
                "distinctTimelines": .number(JSONNumber(plan.configurations)),
                "widgets": .number(JSONNumber(plan.widgets)),
                "wallSeconds": .rounded(reloads.reduce(.zero, +) / .seconds(1)),
                "timelinesPerSecond": .rounded(median.map { Double(plan.configurations) / max($0, 0.001) * 1_000 }),
                "reloadMilliseconds": .array(milliseconds.map { .rounded($0) }), "latencyMilliseconds": warm.json,
                "lost": .number(JSONNumber(lost)),
            ]
        }
    }
}

extension LatencyHistogram {
    fileprivate static func of(_ latencies: some Sequence<Duration>) -> LatencyHistogram {
        var histogram = LatencyHistogram()
        for latency in latencies { histogram.record(latency) }
        return histogram
    }
}
