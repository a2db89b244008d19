import Foundation
import TestSupport
import Testing
import WidgetModel

@testable import freshet

@Suite("Rules for providers")
struct LintRuleTests {
    @Test("A bad example breaks its rule, with evidence, and a good one does not", arguments: LintExample.all)
    func examples(example: LintExample) {
        let found = example.bad.findings.filter { $0.rule == example.rule }
        #expect(found.count == 1)
        #expect(found.first?.evidence.isEmpty == false && found.first?.kind == "com.example.app/K")
        #expect(!example.good.findings.contains { $0.rule == example.rule })
    }

    @Test("Every rule has an example, a unique ID and advice")
    func rules() {
        #expect(Set(LintExample.all.map(\.rule)) == Set(LintRule.all))
        #expect(Set(LintRule.all.map(\.id)).count == LintRule.all.count)
        #expect(LintRule.all.allSatisfy { !$0.title.isEmpty && $0.advice.hasSuffix(".") })
    }

    @Test("deploy/providers.md lists every rule with its severity and title")
    func documented() throws {
        let path = try #require(Repository.path("deploy/providers.md"))
        let document = try String(contentsOfFile: path, encoding: .utf8)
        for rule in LintRule.all {
            #expect(document.contains("| `\(rule.id)` | \(rule.severity) | \(rule.title) |"), "\(rule.id)")
        }
    }

    @Test("Several places are one finding with a count")
    func places() {
        let other = LintExample.subject(user: "u2")
        let timelines = [(LintExample.subject(), LintExample.after("2026-06-23T00:00:00Z"))]
        let one = LintExample.of(timelines).findings.first { $0.rule == ScheduleRules.roundHour }
        let two = LintExample.of(timelines + [(other, LintExample.after("2026-06-23T01:00:00Z"))]).findings
            .first { $0.rule == ScheduleRules.roundHour }
        #expect(one?.evidence == "user u1, systemMedium, en-US, America/New_York: after 2026-06-23T00:00:00Z")
        #expect(two?.evidence == "\(one?.evidence ?? "") (and 1 more)")
    }

    @Test("Findings are ordered by severity")
    func order() {
        let severities = LintExample.all.flatMap { [$0.bad.findings, $0.good.findings] }.map { $0.map(\.rule.severity) }
        #expect(severities.allSatisfy { $0 == $0.sorted(by: >) })
    }

    @Test("An unreachable provider has one finding about its contract and none about signatures")
    func unreachable() {
        let observation = LintExample.of("}") {
            $0.trials = LintTrial.Manner.allCases.map { LintTrial(manner: $0, failure: nil) }
        }
        #expect(observation.findings.map(\.rule) == [ContractRules.answer])
    }
}
