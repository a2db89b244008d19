import ArgumentParser
import Foundation
import FreshetService
import ReloadWorkers
import WidgetModel

struct LintCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "lint",
        abstract: "Checks a timeline provider as its developer sees it: contract, signatures, schedule and content.",
        discussion: """
            Asks the provider for timelines, snapshots, placeholders, options and defaults, for several families, \
            environments and people, with valid and with wrong signatures, and reports what breaks the contract or is \
            unwise. The answers are read as the service reads them. Neither a database nor Kafka is needed, and a \
            provider on this machine may always be called. Rules that could not be checked are listed. \
            deploy/providers.md lists all rules.

            Examples:
              freshet lint --sample
              freshet lint --manifest kinds.yaml --kind RecentPurchases --user u42
              freshet lint --provider http://127.0.0.1:8090/bank --kind DueDate --secret-file bank.secret
              freshet lint --manifest kinds.yaml --format sarif > lint.sarif

            Exit status: 0 no findings of the severity of --fail-on or above; 1 findings; 64 the command line is wrong; \
            78 the settings are wrong.
            """)

    @OptionGroup var options: TrialOptions

    @Option(help: "Form of the report: text, json or sarif (2.1.0).")
    var format = LintReport.Format.text

    @Option(help: "Lowest severity that fails: note, warning or error.")
    var failOn = LintRule.Severity.warning

    @Option(help: ArgumentHelp("A rule that is not checked; can be given several times.", valueName: "rule"))
    var ignore: [String] = []

    func validate() throws {
        for id in ignore where !LintRule.all.contains(where: { $0.id == id }) {
            let meant = Suggestion.word(for: id, among: LintRule.all.map(\.id))
            throw ValidationError("--ignore: there is no rule \(Text.quoted(id))\(meant)")
        }
    }

    func run() async throws {
        let settings = try ProviderTrial.settings(options.settings)
        let report = try await report(settings)
        Terminal.print(report.text(format))
        if report.findings.contains(where: report.fails) {
            throw ExitCode(CommandStatus.failure.rawValue)
        }
    }

    private func report(_ settings: Settings) async throws -> LintReport {
        let (probe, limit) = (ProviderProbe(settings), settings.workers.maximumResponseBytes)
        let users = options.users
        let observed = try await ProviderTrial.withKinds(of: options, logger: LogSettings.ofCommands) { kinds in
            try await probe.withClient { client in
                try await probe.withClient(now: { WallClock.now() - .seconds(600) }) { late in
                    let lint = LintProbe(
                        trial: ProviderTrial(client: client, maximumResponseBytes: limit),
                        late: ProviderTrial(client: late, maximumResponseBytes: limit), users: users)
                    var observed: [LintObservation] = []
                    for kind in kinds { observed.append(try await lint.observe(kind)) }
                    return observed
                }
            }
        }
        return LintReport(
            kinds: observed.map(\.kind.name),
            findings: observed.flatMap(\.findings).filter { !ignore.contains($0.rule.id) },
            rules: LintRule.all.filter { !ignore.contains($0.id) }, manifest: options.manifest,
            skipped: observed.flatMap(\.skipped).filter { !ignore.contains($0.rule.id) }, failOn: failOn)
    }
}

extension LintReport.Format: ExpressibleByArgument {}
extension LintRule.Severity: ExpressibleByArgument {}
