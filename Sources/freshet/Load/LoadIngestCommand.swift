import ArgumentParser

struct LoadIngestCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ingest",
        abstract: "Events that wait in Kafka when ingest starts, until all are applied.",
        discussion: """
            Needs an empty PostgreSQL database (--database or postgres.url). Imports one widget for each target and, in \
            rounds, publishes events and lets a service of the role ingest, in a process of its own, apply them. Time \
            counts from its taking the partitions to its last commit. The same once more is the result; the first pass, \
            which writes every page for the first time, is reported as "cold". Broker, service and PostgreSQL are separate \
            processes, and each one's CPU time is reported. That nothing is lost is read back from PostgreSQL: from the \
            positions and from the timelines' counters. The exit code is 1 if anything is.

            Events for one timeline are folded into one row a batch, so few targets cost the database little; with \
            "--targets all" each event is for a timeline of its own.

            Examples:
              deploy/local/postgres run -- freshet load ingest --events 1000000
              freshet load ingest --events 500000 --targets all --database postgresql:///freshet --json
            """)

    @Option(help: "How many events to publish.")
    var events = 2_000_000

    @Option(help: "How many timelines they are for, at random; or `all`: each event is for one of its own.")
    var targets = "10000"

    @OptionGroup var popularity: PopularityOptions

    @Option(help: "Most events that wait at once; the embedded broker keeps them in memory.")
    var roundEvents = 1_000_000

    @Option(help: "Passes of so many events each: the last is the result, the first the cold one.")
    var passes = 2

    @OptionGroup var farm: FarmOptions
    @OptionGroup var options: LoadOptions

    private var targetCount: Int? { targets == "all" ? events : Int(targets) }

    func validate() throws {
        try LoadOptions.check("--events", events, in: 1...100_000_000)
        try LoadOptions.check("--round-events", roundEvents, in: 1...10_000_000)
        try LoadOptions.check("--passes", passes, in: 1...10)
        guard let count = targetCount else {
            throw ValidationError("--targets \(targets): expected a number of timelines, or all")
        }
        try LoadOptions.check("--targets", count, in: 1...10_000_000)
        if targets == "all", try popularity.exponent() != nil {
            throw ValidationError(
                "--distribution: expected without --targets all, where each event is for another timeline")
        }
    }

    func run() async throws {
        let world = LoadWorld(users: targetCount ?? 1, widgetsPerUser: 1, kinds: 20)
        let plan = LoadIngest.Plan(
            world: world, events: events, isDistinct: targets == "all", roundEvents: roundEvents, passes: passes,
            seed: options.seed, exponent: try popularity.exponent())
        try await options.run(farm, plan.farm) { try await LoadIngest(plan: plan, farm: $0).run() }
    }
}
