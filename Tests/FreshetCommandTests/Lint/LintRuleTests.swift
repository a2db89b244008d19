// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing
import WidgetModel

@testable import ProviderTools

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
        let one = LintExample.of(timelines).findings.first { $0.rule == LintRule.scheduleRoundHour }
        let two = LintExample.of(timelines + [(other, LintExample.after("2026-06-23T01:00:00Z"))]).findings
            .first { $0.rule == LintRule.scheduleRoundHour }
        #expect(one?.evidence == "user u1, systemMedium, en-US, America/New_York: after 2026-06-23T00:00:00Z")
        #expect(two?.evidence == "\(one?.evidence ?? "") (and 1 more)")
    }

    @Test("Relevance is constant if one widget's score never changes, whatever those of others are")
    func constantRelevance() {
        func isFound(_ scores: [Double], duration: Int = 0, policy: String = "\"never\"", minutes: Int = 60) -> Bool {
            let timelines = scores.enumerated().map { index, score in
                let entry = "\"content\":1,\"relevance\":{\"score\":\(score),\"duration\":\(duration)}"
                let entries = Array(repeating: entry, count: 5)
                return (
                    LintExample.subject(user: "u\(index)"),
                    LintExample.timeline(entries, policy: policy, minutes: minutes)
                )
            }
            return LintExample.of(timelines).findings.contains { $0.rule == LintRule.relevanceConstant }
        }
        #expect(isFound([1, 2, 3]))
        #expect(!isFound([1, 1, 1], duration: 1_800))
        // The relevance ends only after the reload.
        #expect(isFound([1], duration: 1_800, policy: "\"atEnd\"", minutes: 30))
        #expect(!isFound([0, 0, 0]))
    }

    @Test("C: entries in the past with atEnd are a lint, since the next reload is requested at once")
    func pastAtEnd() {
        func rules(_ minutes: Int, _ policy: String) -> [LintRule] {
            let entries = ["\"content\":1", "\"content\":2"]
            return LintExample.of(LintExample.timeline(entries, policy: policy, minutes: minutes)).findings.map(\.rule)
        }
        #expect(rules(-5, "\"atEnd\"").contains(.schedulePast))
        #expect(!rules(60, "\"atEnd\"").contains(.schedulePast) && !rules(-5, "\"never\"").contains(.schedulePast))
    }

    @Test("Reloads at the end of timelines count as those after a time")
    func atEnd() {
        let round =
            "{\"date\":\"2026-06-22T10:00:00Z\",\"content\":1},{\"date\":\"2026-06-23T00:00:00Z\",\"content\":2}"
        let timelines = ["u1", "u2", "u3"].map {
            (LintExample.subject(user: $0), "{\"policy\":\"atEnd\",\"entries\":[\(round)]}")
        }
        let found = LintExample.of(timelines) { $0.rounds.append($0.rounds[0]) }.findings.map(\.rule)
        #expect(found.contains(LintRule.scheduleRoundHour) && found.contains(LintRule.scheduleSameTime))
    }

    @Test("Rules that cannot be checked are named")
    func skipped() {
        func skipped(_ users: [String], isDeclared: Bool = true) -> [LintRule] {
            var kind = LintExample.kind()
            kind.isDeclared = isDeclared
            let timelines = users.map { (LintExample.subject(user: $0), LintExample.content("1")) }
            return LintExample.of(timelines, kind: kind).skipped.map(\.rule)
        }
        #expect(skipped(["u1", "u2", "u3"]) == [])
        #expect(skipped(["u1", "u2"]) == [LintRule.scheduleSameTime])
        #expect(
            skipped(["u1", "u2", "u3"], isDeclared: false)
                == [LintRule.configurationNoOptions, LintRule.configurationNoDefault])
    }

    @Test("Every endpoint that answers has to refuse a wrong signature")
    func endpoints() {
        let observation = LintExample.of(LintExample.content("1")) {
            $0.attempts = [
                LintExample.attempt(.wrongSecret, .options),
                LintExample.attempt(.noSignature),
            ]
        }
        let evidence = observation.findings.filter { $0.rule.id.hasPrefix("signature/") }.map(\.evidence)
        #expect(
            evidence == [
                "POST /options signed with another secret was answered with status 200",
                "POST /timelines without a signature was answered with status 200",
            ])
    }

    @Test("Findings are ordered by severity")
    func order() {
        let severities = LintExample.all.flatMap { [$0.bad.findings, $0.good.findings] }.map { $0.map(\.rule.severity) }
        #expect(severities.allSatisfy { $0 == $0.sorted(by: >) })
    }

    @Test("An unreachable provider has one finding about its contract and none about signatures")
    func unreachable() {
        let observation = LintExample.of("}") {
            $0.attempts = LintManner.allCases.map { LintExample.attempt($0) }
        }
        #expect(observation.findings.map(\.rule) == [LintRule.contractAnswer])
    }
}
