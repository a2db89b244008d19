// SPDX-License-Identifier: Apache-2.0

package import ArgumentParser
import Foundation
import FreshetService
import JSON
import ReloadWorkers
import WidgetModel

package struct LintCommand: AsyncParsableCommand {
    package static let configuration = CommandConfiguration(
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
              freshet lint --manifest kinds.yaml --json
              freshet lint --manifest kinds.yaml --format sarif > lint.sarif

            Exit status: 0 no findings of the severity of --fail-on or above; 1 findings; 64 the command line is wrong; \
            78 the settings are wrong.
            """)

    @OptionGroup var options: TrialOptions

    @Option(help: "Form of the report: text, json or sarif (2.1.0).")
    var format = LintReport.Format.text

    @Flag(help: "Print JSON, as --format json does.")
    var json = false

    @Option(help: "Lowest severity that fails: note, warning or error.")
    var failOn = LintRule.Severity.warning

    @Option(help: ArgumentHelp("A rule that is not checked; can be given several times.", valueName: "rule"))
    var ignore: [String] = []

    package init() {}

    package func validate() throws {
        if json, format == .sarif { throw ValidationError("expected one of --json and --format sarif") }
        for id in ignore where !LintRule.all.contains(where: { $0.id == id }) {
            let hint = id.hint(among: LintRule.all.map(\.id))
            throw ValidationError("--ignore: there is no rule \(Text.quoted(id))\(hint)")
        }
    }

    package func run() async throws {
        let settings = try ProviderTrial.settings(options.settings)
        let report = try await report(settings)
        Terminal.print(report.text(json ? .json : format))
        if report.findings.contains(where: report.fails) {
            throw ExitCode(CommandStatus.failure.rawValue)
        }
    }

    private func report(_ settings: Settings) async throws -> LintReport {
        let (users, limit) = (options.users, settings.workers.maximumResponseBytes)
        let observed = try await ProviderTrial.withKinds(of: options, logger: .ofCommands) { kinds in
            try await settings.withProviderClient { client in
                try await settings.withProviderClient(now: { Timestamp.now() - .seconds(600) }) { late in
                    let trial = ProviderTrial(client: client, maximumResponseBytes: limit)
                    var observed: [LintObservation] = []
                    for kind in kinds { observed.append(try await trial.observe(kind, users: users, late: late)) }
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

/// Findings of a run, in the forms for people and for programs.
struct LintReport: Sendable {
    enum Format: String, CaseIterable, Sendable {
        case text, json, sarif
    }

    /// Names of the checked kinds.
    let kinds: [String]
    let findings: [LintFinding]
    /// Rules that were checked.
    let rules: [LintRule]
    /// Path of the manifest, to which SARIF refers.
    let manifest: String?
    /// Rules that could not be checked.
    var skipped: [LintSkip] = []
    /// Lowest severity that fails.
    var failOn = LintRule.Severity.warning

    /// Whether a finding fails the run.
    func fails(_ finding: LintFinding) -> Bool { finding.rule.severity >= failOn }

    func text(_ format: Format) -> String {
        switch format {
        case .text: plain
        case .json: json.pretty
        case .sarif: sarif.pretty
        }
    }

    private var plain: String {
        var lines: [String] = []
        for kind in kinds {
            let own = findings.filter { $0.kind == kind }
            lines.append(own.isEmpty ? "\(kind): no findings" : kind)
            for finding in own {
                lines.append("  \(finding.rule.severity)  \(finding.rule.id): \(finding.rule.title)")
                lines.append("    found:  \(Text.printable(finding.evidence, maximum: 500))")
                lines.append("    advice: \(finding.rule.advice)")
            }
        }
        for skip in skipped { lines.append("not checked: \(skip.rule.id) of \(skip.kind): \(skip.reason)") }
        lines.append(
            LintRule.Severity.allCases.reversed().map { severity in
                let count = findings.count { $0.rule.severity == severity }
                return "\(count) \(severity)\(count == 1 ? "" : "s")"
            }.joined(separator: ", "))
        return lines.joined(separator: "\n")
    }

    var json: JSONValue {
        [
            "kinds": .texts(kinds),
            "findings": .array(
                findings.map { finding in
                    [
                        "kind": .string(finding.kind), "rule": .string(finding.rule.id),
                        "severity": .string(finding.rule.severity.rawValue), "title": .string(finding.rule.title),
                        "evidence": .string(finding.evidence), "advice": .string(finding.rule.advice),
                    ]
                }),
            "notChecked": .array(
                skipped.map {
                    ["kind": .string($0.kind), "rule": .string($0.rule.id), "reason": .string($0.reason)]
                }),
        ]
    }

    /// A log in the Static Analysis Results Interchange Format 2.1.0.
    var sarif: JSONValue {
        let driver: JSONValue = [
            "name": "freshet lint", "version": .string(FreshetNode.version),
            "rules": .array(
                rules.map { rule in
                    [
                        "id": .string(rule.id), "shortDescription": ["text": .string(rule.title)],
                        "help": ["text": .string(rule.advice)],
                        "defaultConfiguration": ["level": .string(rule.severity.rawValue)],
                    ]
                }),
        ]
        return [
            "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
            "version": "2.1.0",
            "runs": [
                [
                    "tool": ["driver": driver], "columnKind": "unicodeCodePoints",
                    "invocations": [
                        ["executionSuccessful": true, "toolExecutionNotifications": .array(skipped.map(notification))]
                    ],
                    "results": .array(findings.map(result)),
                ]
            ],
        ]
    }

    private func result(_ finding: LintFinding) -> JSONValue {
        // Code scanning shows no result without a file and a line: without a manifest the name of the kind is the path.
        let location: JSONValue = [
            "logicalLocations": [["fullyQualifiedName": .string(finding.kind), "kind": "resource"]],
            "physicalLocation": [
                "artifactLocation": ["uri": .string(Self.uri(manifest ?? finding.kind))], "region": ["startLine": 1],
            ],
        ]
        return [
            "ruleId": .string(finding.rule.id),
            "ruleIndex": .count(rules.firstIndex(of: finding.rule) ?? -1),
            "level": .string(finding.rule.severity.rawValue),
            "message": [
                "text": .string(
                    "\(finding.kind): \(finding.evidence). Expected: \(finding.rule.title). \(finding.rule.advice)")
            ],
            "locations": [location],
        ]
    }

    private func notification(_ skip: LintSkip) -> JSONValue {
        [
            "level": "note", "associatedRule": ["id": .string(skip.rule.id)],
            "message": ["text": .string("\(skip.kind): not checked: \(skip.reason)")],
        ]
    }

    /// Relative reference for a path, with its separators.
    private static func uri(_ path: String) -> String {
        path.split(separator: "/", omittingEmptySubsequences: false).map { Text.percentEncoded(String($0)) }
            .joined(separator: "/")
    }
}
