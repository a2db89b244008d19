import ArgumentParser
import Logging

struct LoadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "load",
        abstract: "Loads Freshet with synthetic events and counts what they cost.",
        subcommands: [
            LoadDrainCommand.self, LoadIngestCommand.self, LoadFairnessCommand.self, LoadGlobalCommand.self,
            LoadLatencyCommand.self, LoadSoakCommand.self, LoadEventsCommand.self, LoadFillCommand.self,
        ])
}

struct LoadFairnessCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fairness",
        abstract: "A small app's reload latency alone, and beside an app with a hundred times its load.",
        discussion: """
            Needs an empty PostgreSQL database (--database or postgres.url). All roles run in this process; broker and \
            provider are processes of their own. Imports and renders the widgets of both apps, then publishes single \
            reloads at fixed rates. Latencies count from the time at which an event was to be sent until the timeline's \
            content is committed; they are for the ratio within one run, not for absolute speed. The exit code is 1 if anything is lost, \
            whatever the ratio.

            Examples:
              deploy/local/postgres run -- freshet load fairness
              freshet load fairness --duration 120 --rate 5 --json
            """)

    @Option(help: "How long to measure in each of the two phases: seconds, or a duration such as 2m.")
    var duration = LoadDuration(.seconds(60))

    @Option(help: "Events a second of the small app; the big one's are a hundred times as many.")
    var rate = 10

    @Option(help: "Timelines of the big app; the small one has a hundredth of them.")
    var timelines = 20_000

    @OptionGroup var farm: FarmOptions
    @OptionGroup var options: LoadOptions

    func validate() throws {
        try duration.check("--duration", in: .seconds(1)...(.seconds(86_400)))
        try LoadOptions.check("--rate", rate, in: 1...200)
        try LoadOptions.check("--timelines", timelines, in: 1...10_000_000)
    }

    func run() async throws {
        let plan = LoadFairness.Plan(
            rate: rate, length: duration.length, timelines: timelines, seed: options.seed)
        try await options.run(farm, plan.farm) { try await LoadFairness(plan: plan).run($0) }
    }
}

struct LoadGlobalCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "global",
        abstract: "The latency of single reloads alone, and beside one reload of everything.",
        discussion: """
            Needs an empty PostgreSQL database (--database or postgres.url). All roles run in this process; broker and \
            provider are processes of their own. Imports and renders one widget for each timeline, publishes single \
            reloads at a fixed rate, then, while they go on, one reload of everyone and all kinds, until all timelines are \
            regenerated. Latencies count from the time at which an event was to be sent until the timeline's content is committed; \
            they are for the ratio within one run, not for absolute speed. The exit code is 1 if anything is lost, \
            whatever the ratio.

            Examples:
              deploy/local/postgres run -- freshet load global
              freshet load global --timelines 1000000 --rate 500 --json
            """)

    @Option(help: "How long to measure the single reloads alone: seconds, or a duration such as 2m.")
    var duration = LoadDuration(.seconds(30))

    @Option(help: "Single reloads a second, of people chosen at random.")
    var rate = 200

    @Option(help: "How many timelines the reload of everything is for.")
    var timelines = 200_000

    @Option(help: "Of how many kinds they are.")
    var kinds = 20

    @OptionGroup var farm: FarmOptions
    @OptionGroup var options: LoadOptions

    func validate() throws {
        try duration.check("--duration", in: .seconds(1)...(.seconds(86_400)))
        try LoadOptions.check("--rate", rate, in: 1...20_000)
        try LoadOptions.check("--timelines", timelines, in: 1...10_000_000)
        try LoadOptions.check("--kinds", kinds, in: 1...1_000)
    }

    func run() async throws {
        let plan = LoadGlobal.Plan(
            rate: rate, length: duration.length, timelines: timelines, kinds: kinds, seed: options.seed)
        try await options.run(farm, plan.farm) { try await LoadGlobal(plan: plan).run($0) }
    }
}
