import ArgumentParser
import Logging

struct LoadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "load",
        abstract: "Loads Freshet with synthetic events and counts what they cost.",
        subcommands: [
            LoadIngestCommand.self, LoadFairnessCommand.self, LoadGlobalCommand.self, LoadSharedCommand.self,
            LoadFillCommand.self, LoadGrowthCommand.self, LoadChurnCommand.self,
        ])
}

struct LoadIngestCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ingest",
        abstract: "Ingest alone: events for a number of timelines, from embedded Kafka into PostgreSQL.",
        discussion: """
            Needs an empty PostgreSQL database (postgres.url). Imports one widget for each target, publishes the events \
            from this process, and waits until all are applied. The figures include publishing: for ratios within one \
            run, not for absolute speed. "timelineRows" counts the rows of timeline_state that the batches wrote: events \
            for one timeline are folded into one row a batch.

            Examples:
              deploy/local/postgres run -- freshet load ingest --events 100000 --targets 1000
              freshet load ingest --events 1000000 --targets 10000 --seed 7 --json
            """)

    @Option(help: "How many events to publish.")
    var events = 100_000

    @Option(help: "How many timelines they are for.")
    var targets = 1_000

    @OptionGroup var options: LoadOptions

    func validate() throws {
        try LoadOptions.check("--events", events, in: 1...100_000_000)
        try LoadOptions.check("--targets", targets, in: 1...1_000_000)
    }

    func run() async throws {
        try await options.run(.ingest) { [self] settings, logger in
            LoadIngest(
                node: try FreshetNode(settings: settings, roles: .ingest, logger: logger), events: events,
                targets: targets, seed: options.seed, logger: logger)
        }
    }
}

struct LoadFairnessCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fairness",
        abstract: "A small app's reload latency alone, and beside an app with a hundred times its load.",
        discussion: """
            Needs an empty PostgreSQL database (postgres.url). Embedded Kafka, every role and a sample provider run in \
            this process. Imports and renders the widgets of both apps, then publishes single reloads at fixed rates. \
            Latencies count from the time at which an event was to be sent until the timeline's content is committed; \
            they are for the ratio within one run, not for absolute speed. The exit code is 1 if anything is lost, \
            whatever the ratio.

            Examples:
              deploy/local/postgres run -- freshet load fairness
              freshet load fairness --duration 120 --rate 5 --json
            """)

    @Option(help: "How long to measure in each of the two phases, in seconds.")
    var duration = 60

    @Option(help: "Events a second of the small app; the big one's are a hundred times as many.")
    var rate = 10

    @Option(help: "Timelines of the big app; the small one has a hundredth of them.")
    var timelines = 20_000

    @OptionGroup var options: LoadOptions

    func validate() throws {
        try LoadOptions.check("--duration", duration, in: 1...86_400)
        try LoadOptions.check("--rate", rate, in: 1...200)
        try LoadOptions.check("--timelines", timelines, in: 1...10_000_000)
    }

    func run() async throws {
        let plan = LoadFairness.Plan(
            rate: rate, length: .seconds(duration), timelines: timelines, seed: options.seed)
        try await options.run(.all) { [options] settings, logger in
            LoadFairness(plan: plan, bench: try LoadBench(settings: settings, seed: options.seed, logger: logger))
        }
    }
}

struct LoadGlobalCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "global",
        abstract: "The latency of single reloads alone, and beside one reload of everything.",
        discussion: """
            Needs an empty PostgreSQL database (postgres.url). Embedded Kafka, every role and a sample provider run in \
            this process. Imports and renders one widget for each timeline, publishes single reloads at a fixed rate, \
            then, while they go on, one reload of everyone and all kinds, until all timelines are regenerated. \
            Latencies count from the time at which an event was to be sent until the timeline's content is committed; \
            they are for the ratio within one run, not for absolute speed. The exit code is 1 if anything is lost, \
            whatever the ratio.

            Examples:
              deploy/local/postgres run -- freshet load global
              freshet load global --timelines 1000000 --rate 500 --json
            """)

    @Option(help: "How long to measure the single reloads alone, in seconds.")
    var duration = 30

    @Option(help: "Single reloads a second, of people chosen at random.")
    var rate = 200

    @Option(help: "How many timelines the reload of everything is for.")
    var timelines = 200_000

    @OptionGroup var options: LoadOptions

    func validate() throws {
        try LoadOptions.check("--duration", duration, in: 1...86_400)
        try LoadOptions.check("--rate", rate, in: 1...20_000)
        try LoadOptions.check("--timelines", timelines, in: 1...10_000_000)
    }

    func run() async throws {
        let plan = LoadGlobal.Plan(
            rate: rate, length: .seconds(duration), timelines: timelines, seed: options.seed)
        try await options.run(.all) { [options] settings, logger in
            LoadGlobal(plan: plan, bench: try LoadBench(settings: settings, seed: options.seed, logger: logger))
        }
    }
}
