import ArgumentParser
import WidgetModel

struct LoadLatencyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "latency",
        abstract: "Event produced → timeline committed, at a fixed rate.",
        discussion: """
            Needs an empty PostgreSQL database (--database or postgres.url). Imports and renders the widgets, then \
            publishes reloads of single widgets in an open loop: each at its time, whatever becomes of those before. \
            A latency counts from the time at which the event was to be sent (so a sender that falls behind does not \
            hide the wait) until the timeline's content is committed. All roles run in this process; broker and \
            provider are processes of their own.

            With --separate, ingest and workers are a process each. When another process commits cannot be seen from \
            here, so the latency then ends when this process reads the timeline's message from the output topic: an upper \
            bound, about the broker's fetch time too long. A widget whose reload is waited for is passed over for its \
            neighbour then, since two reloads could not be told apart.

            The exit code is 1 if anything is lost.

            Examples:
              deploy/local/postgres run -- freshet load latency --rate 1000 --duration 30 --report latency.html
              freshet load latency --separate --distribution zipf+bursty --database postgresql:///freshet --json
            """)

    @Option(help: "Events a second.")
    var rate = 1_000.0

    @Option(help: "How long to measure: seconds, or a duration such as 30m.")
    var duration = LoadDuration(.seconds(30))

    @Flag(help: "Ingest and workers in a process each, measured at the output topic.")
    var separate = false

    @OptionGroup var world: LoadWorldOptions
    @OptionGroup var stream: StreamOptions
    @OptionGroup var farm: FarmOptions
    @OptionGroup var options: LoadOptions

    func validate() throws {
        try LoadOptions.check("--rate", rate, in: 0.1...1_000_000)
        try duration.check("--duration", in: .seconds(1)...(.seconds(7 * 86_400)))
        _ = try plan()
    }

    private func plan() throws -> LoadLatency.Plan {
        let world = world.world
        return LoadLatency.Plan(
            world: world, stream: try stream.plan(of: world, rate: rate, seed: options.seed), length: duration.length,
            isSeparate: separate)
    }

    func run() async throws {
        let plan = try plan()
        try await options.run(farm, plan.farm) { try await LoadLatency(plan: plan).run($0) }
    }
}

/// Whose widgets a scenario reloads, on the command line.
struct LoadWorldOptions: ParsableArguments {
    @Option(help: "People.")
    var users = 50_000

    @Option(help: "Widgets of each.")
    var widgetsPerUser = 4

    @Option(help: "Kinds of widgets.")
    var kinds = 20

    func validate() throws {
        try LoadOptions.check("--users", users, in: 1...10_000_000)
        try LoadOptions.check("--widgets-per-user", widgetsPerUser, in: 1...100)
        try LoadOptions.check("--kinds", kinds, in: 1...1_000)
    }

    var world: LoadWorld { LoadWorld(users: users, widgetsPerUser: widgetsPerUser, kinds: kinds) }
}

extension StreamOptions {
    /// A stream whose every event is for one timeline.
    ///
    /// - Throws: `ValidationError` where an event would be for several.
    func plan(of world: LoadWorld, rate: Double, seed: UInt64) throws -> StreamPlan {
        let plan = try plan(of: world.population, rate: rate, seed: seed)
        guard !plan.audiences.contains(.everyone) else {
            throw ValidationError(
                "--audiences \(audiences): each event is to be for one timeline, so none for everyone")
        }
        guard world.widgetsPerUser <= world.kinds || plan.audiences == WeightedChoice(StreamAudience.widget) else {
            throw ValidationError(
                "--widgets-per-user \(world.widgetsPerUser): a person has several widgets of a kind, so an event for a "
                    + "person or a device is for several timelines; expected --audiences widget, or more --kinds")
        }
        return plan
    }
}

/// A length of time on the command line: whole seconds, or with a unit (`90s`, `30m`, `2h`).
struct LoadDuration: ExpressibleByArgument, Sendable {
    var length: Duration

    init(_ length: Duration) {
        self.length = length
    }

    init?(argument: String) {
        if let seconds = Int(argument), (0...1_000_000_000).contains(seconds) {
            length = .seconds(seconds)
        } else if let length = DurationText.parse(argument) {
            self.length = length
        } else {
            return nil
        }
    }

    var defaultValueDescription: String { DurationText.write(length) }

    func check(_ option: String, in range: ClosedRange<Duration>) throws {
        guard range.contains(length) else {
            throw ValidationError(
                "\(option) \(DurationText.write(length)): expected \(DurationText.write(range.lowerBound)) to "
                    + DurationText.write(range.upperBound))
        }
    }
}
