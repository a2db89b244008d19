import ArgumentParser
import FreshetClient
import PostgresClient
import WidgetEvents
import WidgetModel
import WidgetStore

struct LoadSharedCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "shared",
        abstract: "One reload of a shared kind, whose many widgets show few timelines.",
        discussion: """
            Needs an empty PostgreSQL database (--database or postgres.url). All roles run in this process; broker and \
            provider are processes of their own. Fills in the widgets, then publishes reloads of everyone, one after the other. A reload counts \
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

    @OptionGroup var farm: FarmOptions
    @OptionGroup var options: LoadOptions

    func validate() throws {
        try LoadOptions.check("--widgets", widgets, in: 1...100_000_000)
        try LoadOptions.check("--configurations", configurations, in: 1...min(widgets, 1_000_000))
        try LoadOptions.check("--reloads", reloads, in: 1...1_000)
    }

    func run() async throws {
        let shared = LoadShared(widgets: widgets, configurations: configurations, reloads: reloads)
        try await options.run(farm, .stage(seed: options.seed)) { try await shared.run($0) }
    }
}

/// Reloads of a shared kind: what is done goes with its timelines, not with its widgets.
struct LoadShared: Sendable {
    let widgets: Int
    let configurations: Int
    let reloads: Int

    private static let app = "com.example.shared"
    private static let kind = "Weather"
    private static let environment = WidgetEnvironment(storedLocale: "en-GB", timeZone: "Europe/London")
    private static let patience = Duration.seconds(60)

    func run(_ farm: Farm) async throws -> any LoadReport {
        try await fill(farm)
        return try await LoadStage.with(farm, worlds: [], placement: .here) { stage in
            let beginning = try await stage.begin()
            var times: [Duration] = []
            for index in 0..<reloads {
                stage.monitor.progress.phase("reload \(index + 1) of \(reloads)")
                guard let time = try await reload(stage) else { break }
                times.append(time)
                try await stage.settle()
            }
            let after = try await farm.pool.query(Overview()).first
            return Self.result(
                times, of: self, stale: Int(after?.stale ?? 0), before: beginning.provider,
                after: await farm.providerCounts())
        }
    }

    private static func result(
        _ times: [Duration], of plan: LoadShared, stale: Int, before: (requests: Int, timelines: Int)?,
        after: (requests: Int, timelines: Int)?
    ) -> LoadResult {
        var histogram = LatencyHistogram()
        // The first one is cold.
        for time in times.dropFirst() { histogram.record(time) }
        var result = LoadResult(scenario: "shared")
        result.events = plan.reloads
        result.distinctTimelines = plan.configurations
        result.wallSeconds = times.reduce(.zero, +) / .seconds(1)
        result.timelines = plan.configurations * times.count
        result.latency = LoadResult.Latency(histogram.summary)
        if let before, let after {
            result.providerRequests = after.requests - before.requests
            result.providerTimelines = after.timelines - before.timelines
        }
        result.stale = stale
        result.lost = plan.configurations * (plan.reloads - times.count) + stale
        result.extras = [
            ("widgets", .number(JSONNumber(plan.widgets))),
            ("reloadMilliseconds", .array(times.map { .rounded($0 / .milliseconds(1)) })),
        ]
        return result
    }

    // MARK: The widgets

    /// Before the service starts, since filling leaves the database without indexes for a while.
    private func fill(_ farm: Farm) async throws {
        _ = try await farm.store.apply([Self.definition(farm.providerURL)], secrets: [:]) {
            (0..<32).map { _ in UInt8.random(in: 0...255) }
        }
        let directory = try await DirectoryCache(pool: farm.pool).refresh()
        guard let app = directory.apps[Self.app], let kind = directory.kind(Self.kind, of: app) else {
            throw CommandFailure(.failure, "the kind \(Self.kind) could not be registered")
        }
        Terminal.progress("filling in \(widgets) widgets")
        let configurations = configurations
        let population = FillPopulation(
            timelines: 0..<configurations,
            timeline: { index in
                FilledTimeline(
                    identity: Self.identity(index, kind), kind: kind,
                    content: LoadPopulation.content(index, version: 0, bytes: 650),
                    hash: LoadPopulation.hash(index, version: 0), nextReload: .seconds(86_400))
            },
            widgets: 0..<widgets,
            widget: { index in
                FilledWidget(
                    placement: Self.placement(index, of: configurations), kind: kind,
                    timeline: Self.identity(index % configurations, kind).id)
            })
        do {
            _ = try await farm.store.fill(population, connections: 2)
        } catch FillRefusal.notEmpty {
            throw CommandFailure(.failure, "the database holds timelines already; expected an empty one")
        }
    }

    /// Without spacing, so that one reload can follow another; with the rules, so that views are looked at.
    private static func definition(_ provider: String) -> AppDefinition {
        AppDefinition(
            name: app,
            kinds: [
                KindDefinition(
                    name: kind, sharing: .shared, variesBy: [], providerURL: provider + "/load", maxBatch: 500,
                    timeout: .seconds(10), minimumSpacing: .zero,
                    dailyBudget: DailyBudget(minimum: 1_000, maximum: 1_000), placeholder: ["title": "City"],
                    hasSnapshots: false)
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

    /// Publishes a reload of everyone; answers how long it took until all timelines were stored, nil when they were not.
    private func reload(_ stage: LoadStage) async throws -> Duration? {
        stage.latency.startCountingStored()
        let request = ReloadRequest(app: Self.app, audience: .everyone, kinds: .kinds([Self.kind]), reason: .push)
        let event = FreshetEvent.push(request)
        let start = ContinuousClock.now
        let delivery = try await stage.publisher.publish(OutgoingEvent(event, time: SampleProvider.systemTime()))
        if let position = EventPosition(delivery, of: event) { stage.latency.published(at: position) }
        while stage.latency.distinctStored < configurations {
            guard start.duration(to: .now) < Self.patience else { return nil }
            try await Task.sleep(for: .milliseconds(2))
        }
        return start.duration(to: .now)
    }
}
