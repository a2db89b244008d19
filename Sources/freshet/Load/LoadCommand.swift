import ArgumentParser

struct LoadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "load",
        abstract: "Loads Freshet with synthetic events and counts what they cost.",
        subcommands: [LoadIngestCommand.self])
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

    @Option(help: "What the stream follows from.")
    var seed: UInt64 = 1

    @Flag(help: "Print the result as JSON.")
    var json = false

    @OptionGroup var settings: SettingsOptions

    func validate() throws {
        guard (1...100_000_000).contains(events) else {
            throw ValidationError("--events \(events): expected 1 to 100000000")
        }
        guard (1...1_000_000).contains(targets) else {
            throw ValidationError("--targets \(targets): expected 1 to 1000000")
        }
    }

    func run() async throws {
        var values = try settings.load(requiring: ["postgres.url"]).settings
        values.role = .ingest
        values.kafka.bootstrapServers = nil
        if !settings.assignments.contains(where: { $0.hasPrefix("log.level=") }) { values.log.level = .warning }
        let logger = values.log.logger()
        let (events, targets, seed, json) = (events, targets, seed, json)
        let outcome = DemoOutcome()
        try await SignalScope.run(logger: logger) { [values] scope in
            let node = try FreshetNode(settings: values, roles: .ingest, logger: logger)
            try await node.prepare(migrate: true)
            let load = LoadIngest(node: node, events: events, targets: targets, seed: seed, logger: logger)
            let work = BackgroundService("load") {
                let result = try await load.run()
                if json { Terminal.print(result.json) } else { result.lines.forEach(Terminal.print) }
                outcome.end(lost: result.lost)
            }
            try await scope.run(node.services + [work])
        }
        switch outcome.lost {
        case nil: throw CommandFailure(.failure, "stopped before all events were applied")
        case 0?: return
        case let lost?: throw CommandFailure(.failure, "\(lost) events are missing")
        }
    }
}
