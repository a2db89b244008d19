// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import FreshetService
import Logging
import WidgetModel

/// Options of the scenarios that run a service.
struct ScenarioOptions: ParsableArguments {
    @Option(help: "Addresses of the brokers; by default an embedded broker in a process of its own.")
    var bootstrapServers: String?

    @Option(
        help: "URL of the provider, without a path; by default the sample provider in a process of its own.")
    var provider: String?

    @Option(help: "Seed of the stream.")
    var seed: UInt64 = 1

    @Flag(help: "Print the result as JSON (schemas/load-report.json).")
    var json = false

    @Option(
        help: ArgumentHelp(
            "Write a self-contained page with the figures and charts.", valueName: "file.html"))
    var report: String?

    @OptionGroup var settings: SettingsOptions

    /// Prints a report, and writes its page if one is wanted.
    ///
    /// - Throws: ``CommandFailure`` when the page cannot be written; the report is printed before.
    fileprivate func emit(_ result: LoadResult) throws {
        result.printed(asJSON: json)
        guard let report else { return }
        let page = result.page(command: Self.shownCommand(CommandLine.arguments), time: Timestamp.now())
        try LoadResult.write(page, to: report)
    }

    /// The command line as a report shows it: without values of settings, which may be secrets.
    static func shownCommand(_ arguments: [String]) -> String {
        var shown = ["freshet-load"]
        var isSetting = false
        for argument in arguments.dropFirst() {
            let assignment = isSetting ? argument[...] : argument.hasPrefix("--set=") ? argument.dropFirst(6) : nil
            if let assignment {
                if !isSetting { shown.append("--set") }
                shown.append("\(assignment.prefix { $0 != "=" })=…")
            } else {
                shown.append(argument.contains(" ") ? "'\(argument)'" : argument)
            }
            isSetting = argument == "--set"
        }
        return shown.joined(separator: " ")
    }
}

/// A command that runs a service under load and reports what it did.
protocol Scenario: AsyncParsableCommand, Sendable {
    var options: ScenarioOptions { get }
    /// Environment that the scenario needs.
    var plan: LoadTestEnvironment.Plan { get }

    func run(_ environment: LoadTestEnvironment) async throws -> LoadResult
}

extension Scenario {
    /// Runs the scenario until its end or a signal, and prints its report.
    ///
    /// - Throws: ``CommandFailure`` when it was stopped, or has lost something.
    func run() async throws {
        let (options, settings) = (options, options.settings)
        var values = try settings.load(requiring: ["postgres.url"]).settings
        if !settings.assignments.contains(where: { $0.hasPrefix("log.level=") }) { values.logLevel = .error }
        let logger = values.logger()
        let (outcomes, outcome) = AsyncStream.makeStream(of: Int.self)
        let work = BackgroundService("load") { [values] in
            let result = try await LoadTestEnvironment.with(plan, options: options, settings: values, logger: logger) {
                try await run($0)
            }
            Terminal.endProgress()
            try options.emit(result)
            outcome.yield(result.lost)
        }
        try await Program.run([work], logger: logger)
        outcome.finish()
        switch await outcomes.first(where: { _ in true }) {
        case nil: throw CommandFailure(.failure, "stopped before the end")
        case 0?: return
        case let lost?: throw CommandFailure(.failure, "lost: \(lost)")
        }
    }
}

/// Notices that something makes no progress any more.
struct Stall<Progress: Equatable> {
    private let limit: Duration
    private var last: Progress?
    private var since = ContinuousClock.now

    init(after limit: Duration = .seconds(60)) {
        self.limit = limit
    }

    /// Takes over the progress.
    ///
    /// - Returns: whether it has been the same for the limit.
    mutating func update(_ progress: Progress) -> Bool {
        if progress != last { (last, since) = (progress, .now) }
        return since.duration(to: .now) >= limit
    }
}
