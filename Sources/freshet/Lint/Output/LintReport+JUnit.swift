import WidgetModel

extension LintReport {
    /// JUnit's XML: a suite for each kind, a case for each rule; findings that fail the run are failures.
    var junit: String {
        let suites = kinds.map { kind in
            let own = findings.filter { $0.kind == kind }
            let failures = own.count(where: fails)
            let notChecked = skipped.filter { $0.kind == kind }
            let cases = rules.map { rule in
                testCase(rule, kind, own.first { $0.rule == rule }, notChecked.first { $0.rule == rule })
            }
            return """
                <testsuite name="\(Self.escaped(kind))" tests="\(rules.count)" failures="\(failures)" errors="0" skipped="\(notChecked.count)">
                \(cases.joined(separator: "\n"))
                </testsuite>
                """
        }
        let failures = findings.count(where: fails)
        return """
            <?xml version="1.0" encoding="UTF-8"?>
            <testsuites name="freshet lint" tests="\(rules.count * kinds.count)" failures="\(failures)" errors="0">
            \(suites.joined(separator: "\n"))
            </testsuites>
            """
    }

    private func testCase(_ rule: LintRule, _ kind: String, _ finding: LintFinding?, _ skip: LintSkip?) -> String {
        let start =
            "<testcase classname=\"\(Self.escaped(kind))\" name=\"\(Self.escaped("\(rule.id): \(rule.title)"))\""
        if let skip { return "\(start)><skipped message=\"\(Self.escaped(skip.reason))\"/></testcase>" }
        guard let finding else { return start + "/>" }
        let evidence = Self.escaped(finding.evidence)
        guard fails(finding) else {
            return
                "\(start)><system-out>\(rule.severity): \(evidence)\n\(Self.escaped(rule.advice))</system-out></testcase>"
        }
        return """
            \(start)><failure type="\(rule.severity)" message="\(evidence)">\(Self.escaped(rule.advice))</failure></testcase>
            """
    }

    /// Text for elements and quoted attributes. XML has no way to write most control characters; they are replaced.
    static func escaped(_ text: String) -> String {
        var escaped = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": escaped += "&amp;"
            case "<": escaped += "&lt;"
            case ">": escaped += "&gt;"
            case "\"": escaped += "&quot;"
            case "\n", "\t", "\r": escaped += "&#\(scalar.value);"
            case _ where scalar.value < 0x20 || scalar.value == 0xFFFE || scalar.value == 0xFFFF: escaped += "\u{FFFD}"
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }
}
