import ArgumentParser
import Logging

/// The real parts that a scenario is to use instead of the embedded ones.
struct FarmOptions: ParsableArguments {
    @Option(help: "Brokers to use; an embedded broker, in a process of its own, if there are none.")
    var bootstrapServers: String?

    @Option(help: "The URL of the PostgreSQL database to use, which must be empty (setting postgres.url).")
    var database: String?

    @Option(
        help: "The URL of a provider to use, without a path; the sample provider, in a process of its own, if none.")
    var provider: String?
}

extension LoadOptions {
    /// Runs a scenario whose parts are processes of their own, until its end or a signal, and prints its report.
    ///
    /// - Throws: ``CommandFailure`` when it was stopped, or has lost something.
    func run(
        _ farm: FarmOptions, _ plan: Farm.Plan, _ body: @escaping @Sendable (Farm) async throws -> any LoadReport
    ) async throws {
        var given: [String: String] = [:]
        if let database = farm.database { given["postgres.url"] = database }
        var values = try settings.load(options: given, requiring: ["postgres.url"]).settings
        if !settings.assignments.contains(where: { $0.hasPrefix("log.level=") }) { values.log.level = .error }
        let logger = values.log.logger()
        let settings = settings
        let outcome = DemoOutcome()
        try await SignalScope.run(logger: logger) { [self, values] scope in
            let work = BackgroundService("load") {
                let report = try await Farm.with(
                    plan, options: farm, settings: values, settingsOptions: settings, logger: logger, body)
                Terminal.endProgress()
                try emit(report)
                outcome.end(lost: report.lost)
            }
            try await scope.run([work])
        }
        switch outcome.lost {
        case nil: throw CommandFailure(.failure, "stopped before the end")
        case 0?: return
        case let lost?: throw CommandFailure(.failure, "lost: \(lost)")
        }
    }
}
