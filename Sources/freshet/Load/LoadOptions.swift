import ArgumentParser
import Logging

/// What all load scenarios can be told, and how they are run.
struct LoadOptions: ParsableArguments {
    @Option(help: "What the stream follows from.")
    var seed: UInt64 = 1

    @Flag(help: "Print the result as JSON (schemas/load-report.json).")
    var json = false

    @Option(
        help: ArgumentHelp(
            "Also write a page with the figures and charts, which needs nothing else.", valueName: "file.html"))
    var report: String?

    @OptionGroup var settings: SettingsOptions

    static func check(_ option: String, _ value: Int, in range: ClosedRange<Int>) throws {
        guard range.contains(value) else {
            throw ValidationError("\(option) \(value): expected \(range.lowerBound) to \(range.upperBound)")
        }
    }

    static func check(_ option: String, _ value: Double, in range: ClosedRange<Double>) throws {
        guard range.contains(value) else {
            throw ValidationError(
                "\(option) \(Figure.digits(value)): expected \(Figure.digits(range.lowerBound)) to "
                    + Figure.digits(range.upperBound))
        }
    }

    /// Prints a report, and writes its page if one is wanted.
    ///
    /// - Throws: ``CommandFailure`` when the page cannot be written; the report is printed before.
    func emit(_ report: any LoadReport) throws {
        if json { Terminal.print(report.json) } else { report.lines.forEach(Terminal.print) }
        guard let file = self.report else { return }
        try LoadPage(
            report: report.json, charts: report.charts, command: ShownCommand.text(CommandLine.arguments),
            time: SampleProvider.systemTime()
        ).write(to: file)
    }

    /// Runs a scenario on embedded Kafka until its end or a signal, and prints its report.
    ///
    /// - Throws: ``CommandFailure`` when it was stopped, or has lost something.
    func run(
        _ role: ProcessRole, _ make: @escaping @Sendable (Settings, Logger) throws -> any LoadScenario
    ) async throws {
        var values = try settings.load(requiring: ["postgres.url"]).settings
        values.role = role
        // Its own cluster, so that what is counted is what the scenario has published.
        values.kafka.bootstrapServers = nil
        values.api.port = 0
        values.providers.allowPrivateNetworks = ["127.0.0.0/8"]
        if !settings.assignments.contains(where: { $0.hasPrefix("log.level=") }) { values.log.level = .warning }
        let logger = values.log.logger()
        let outcome = DemoOutcome()
        try await SignalScope.run(logger: logger) { [self, values] scope in
            let scenario = try make(values, logger)
            try await scenario.prepare()
            let work = BackgroundService("load") {
                let report = try await scenario.run()
                try emit(report)
                outcome.end(lost: report.lost)
            }
            try await scope.run(scenario.services + [work])
        }
        switch outcome.lost {
        case nil: throw CommandFailure(.failure, "stopped before the end")
        case 0?: return
        case let lost?: throw CommandFailure(.failure, "lost: \(lost)")
        }
    }
}
