import ArgumentParser

struct LoadDrainCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "drain",
        abstract: "Reloads that wait in Kafka when the service starts, until all are stored and published.",
        discussion: """
            Needs an empty PostgreSQL database (--database or postgres.url). Imports and renders the widgets, publishes \
            reloads of single widgets chosen at random, writes a checkpoint, starts the service in a process of its own, \
            and measures until every event is applied and every targeted timeline is stored and published; then the same \
            again, which is the result (the first pass is reported as "cold"). Broker, provider, service and PostgreSQL \
            are separate processes, and each one's CPU time is reported. What is stored is compared with what stands on \
            the output topic. The exit code is 1 if anything is lost.

            Examples:
              deploy/local/postgres run -- freshet load drain
              freshet load drain --database postgresql:///freshet --bootstrap-servers kafka:9092 --json
            """)

    @OptionGroup var world: LoadWorldOptions

    @Option(help: "Events, each for one widget chosen by the distribution.")
    var events = 200_000

    @OptionGroup var popularity: PopularityOptions

    @Option(help: "Passes over the events: the last is the result, the first the cold one.")
    var passes = 2

    @Option(help: "Most timelines in one request to the provider (maxBatch of the kinds).")
    var maxBatch = 500

    @Flag(
        help: """
            Use the service that runs already on the database, the topics and the group that the settings name, and do \
            not start one; needs brokers and --provider. It works while the events are published, and that time counts.
            """)
    var runningService = false

    @OptionGroup var farm: FarmOptions
    @OptionGroup var options: LoadOptions

    func validate() throws {
        try LoadOptions.check("--events", events, in: 1...10_000_000)
        try LoadOptions.check("--passes", passes, in: 1...10)
        try LoadOptions.check("--max-batch", maxBatch, in: 1...1_000)
        if runningService, farm.provider == nil {
            throw ValidationError("--running-service: expected with --provider, where the service can reach it")
        }
    }

    func run() async throws {
        var world = world.world
        world.maxBatch = maxBatch
        let plan = LoadDrain.Plan(
            world: world, events: events, seed: options.seed, exponent: try popularity.exponent(), passes: passes,
            usesRunningService: runningService)
        try await options.run(farm, plan.farm) { try await LoadDrain(plan: plan, farm: $0).run() }
    }
}
