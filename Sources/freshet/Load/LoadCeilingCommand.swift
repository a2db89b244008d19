import ArgumentParser

struct LoadCeilingCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ceiling",
        abstract: "The limits that the other scenarios are divided by.",
        discussion: """
            Needs an empty PostgreSQL database (--database or postgres.url). The statements of a reload (mark, claim, \
            save, complete) over the timelines of the same events as `load drain`, in the sizes that the service uses, \
            one after the other on one connection, with no Kafka and no HTTP; and the bare consumption of the events.

            Examples:
              deploy/local/postgres run -- freshet load ceiling
              deploy/local/postgres run -- freshet load ceiling --batch 1000 --json
            """)

    @OptionGroup var world: LoadWorldOptions

    @Option(help: "Events, each for one widget chosen by the distribution.")
    var events = 200_000

    @OptionGroup var popularity: PopularityOptions

    @Option(help: "Timelines in one claim, save and completion.")
    var batch = 2_000

    @OptionGroup var farm: FarmOptions
    @OptionGroup var options: LoadOptions

    func validate() throws {
        try LoadOptions.check("--events", events, in: 1...10_000_000)
        try LoadOptions.check("--batch", batch, in: 1...100_000)
    }

    func run() async throws {
        let plan = LoadCeiling.Plan(
            world: world.world, events: events, seed: options.seed,
            exponent: try popularity.exponent(), batch: batch)
        try await options.run(farm, plan.farm) { try await LoadCeiling(plan: plan, farm: $0).run() }
    }
}
