import ArgumentParser

struct LoadSoakCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "soak",
        abstract: "A steady load for a long time: what grows, and what comes back.",
        discussion: """
            Needs an empty PostgreSQL database (--database or postgres.url). Publishes reloads of single widgets in an \
            open loop, while every few seconds throughput, latency, the size of the hot table and of its indexes, dead \
            row versions, WAL and the service's memory are sampled ("samples" in the JSON, and the charts of --report). \
            In the middle a transaction is held open for a while (--hold-xmin), as a forgotten session or a long report \
            would, so that nothing can be cleaned up. At the end the hot table is rewritten by VACUUM FULL, for \
            its compact size.

            The service is one process with all roles; an event waits up to 25 ms for others that share its way to Kafka, \
            and latencies end when this process reads a timeline's message from the output topic, for which it asks every \
            50 ms. With --rate 60% the drain rate is measured first, and the load is that part of it. The stream waits where \
            more events wait than an embedded broker keeps; their latencies count from when they were to be sent. The exit \
            code is 1 if anything is lost.

            Examples:
              deploy/local/postgres run --memory 8 -- freshet load soak --rate 60% --duration 30m --hold-xmin 10m --report soak.html
              freshet load soak --rate 2000 --duration 2h --database postgresql:///freshet --json
            """)

    @Option(help: "Events a second, or a part of the drain rate, such as 60%.")
    var rate = LoadRate(.share(0.6))

    @Option(help: "How long: seconds, or a duration such as 30m.")
    var duration = LoadDuration(.seconds(1_800))

    @Option(help: "How long a transaction is held open in the middle; 0 for none.")
    var holdXmin = LoadDuration(.zero)

    @OptionGroup var world: LoadWorldOptions
    @OptionGroup var stream: StreamOptions
    @OptionGroup var farm: FarmOptions
    @OptionGroup var options: LoadOptions

    func validate() throws {
        try duration.check("--duration", in: .seconds(2)...(.seconds(30 * 86_400)))
        try holdXmin.check("--hold-xmin", in: .zero...duration.length)
        _ = try plan()
    }

    private func plan() throws -> LoadSoak.Plan {
        let world = world.world
        return LoadSoak.Plan(
            world: world, stream: try stream.plan(of: world, rate: 1, seed: options.seed), rate: rate.rate,
            length: duration.length, hold: holdXmin.length)
    }

    func run() async throws {
        let plan = try plan()
        try await options.run(farm, plan.farm) { try await LoadSoak(plan: plan).run($0) }
    }
}

/// A rate on the command line.
struct LoadRate: ExpressibleByArgument, Sendable {
    var rate: LoadSoak.Rate

    init(_ rate: LoadSoak.Rate) {
        self.rate = rate
    }

    init?(argument: String) {
        if argument.hasSuffix("%"), let percent = Double(argument.dropLast()), percent >= 1, percent <= 200 {
            rate = .share(percent / 100)
        } else if let value = Double(argument), value >= 0.1, value <= 1_000_000 {
            rate = .absolute(value)
        } else {
            return nil
        }
    }

    var defaultValueDescription: String {
        switch rate {
        case .absolute(let rate): "\(rate)"
        case .share(let share): "\(Figure.digits(share * 100))%"
        }
    }
}
