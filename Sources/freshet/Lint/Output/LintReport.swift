import FreshetService
import WidgetModel

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
        case .json: PrettyJSON.text(json)
        case .sarif: PrettyJSON.text(sarif)
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
}
