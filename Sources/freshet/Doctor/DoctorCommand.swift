import ArgumentParser
import FreshetService
import WidgetModel

struct DoctorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Checks everything that Freshet needs and gives advice.",
        discussion: """
            Run it where Freshet runs, with the same settings. It checks the settings, Kafka (topics, partitions, retention, \
            compaction, the right to read), PostgreSQL (version, migrations, settings, connections, indexes, vacuum), the \
            clocks, the keys of tokens, the audit's counter of the process on health.port, halted topics, sweeps that \
            wait, rows that are not deleted, and every provider with a signed request for no timelines.

            It changes nothing, so it cannot check rights to write. Every check has a time limit.

            Examples:
              freshet doctor --config freshet.yaml
              freshet doctor --json | jq '.findings[] | select(.severity == "problem")'

            Exit status: 0 no problems, though there may be warnings; 1 problems; 64 the command line is wrong; 78 the \
            settings cannot be read.
            """)

    @Flag(
        help:
            "Print one JSON document: {\"status\", \"findings\": [{\"check\", \"severity\", \"message\", \"advice\"}]}."
    )
    var json = false

    @Option(
        help: ArgumentHelp("Time limit of each check.", valueName: "seconds"), transform: OptionText.number(1...300))
    var timeLimit = 15

    @OptionGroup var settings: SettingsOptions

    func run() async throws {
        let loaded = try settings.load()
        let findings = await Doctor(
            settings: loaded.settings, warnings: loaded.warnings, timeLimit: .seconds(timeLimit)
        ).findings()
        let worst = findings.map(\.severity).max() ?? .ok
        if json {
            Terminal.print(
                [
                    "status": .string("\(worst == .skipped ? .ok : worst)"),
                    "findings": .array(findings.map(\.json)),
                ] as JSONValue)
        } else {
            for finding in findings { Terminal.print(finding.text) }
            let problems = findings.count { $0.severity == .problem }
            let warnings = findings.count { $0.severity == .warning }
            Terminal.print("\(problems) problems, \(warnings) warnings")
        }
        if worst == .problem { throw ExitCode(CommandStatus.failure.rawValue) }
    }
}
