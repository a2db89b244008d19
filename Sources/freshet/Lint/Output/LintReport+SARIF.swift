import FreshetService
import WidgetModel

extension LintReport {
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
