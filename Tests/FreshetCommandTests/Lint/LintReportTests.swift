// SPDX-License-Identifier: Apache-2.0

import JSON
import TestSupport
import Testing
import WidgetModel

@testable import ProviderTools

@Suite("Reports of lint")
struct LintReportTests {
    private static func report(
        evidence: String = "found", manifest: String? = nil, failOn: LintRule.Severity = .warning
    ) -> LintReport {
        LintReport(
            kinds: ["a/One", "a/Two"],
            findings: [
                (rule: .signatureWrong, kind: "a/One", evidence: evidence),
                (rule: .scheduleRoundHour, kind: "a/Two", evidence: evidence),
                (rule: .scheduleShortGap, kind: "a/Two", evidence: evidence),
            ], rules: LintRule.all, manifest: manifest,
            skipped: [(rule: .scheduleSameTime, kind: "a/One", reason: "few people")], failOn: failOn)
    }

    @Test("Text contains every kind, finding, evidence, advice and the counts, and control characters are visible")
    func text() {
        let text = Self.report(evidence: "\u{1B}[31mred").text(.text)
        #expect(text.contains("error  signature/wrong") && text.contains("advice: Verify webhook-signature"))
        #expect(!text.contains("\u{1B}"))
        #expect(text.contains("\nnot checked: schedule/same-time of a/One: few people\n"))
        #expect(text.hasSuffix("1 error, 1 warning, 1 note"))
        let clean = LintReport(kinds: ["a/One"], findings: [], rules: LintRule.all, manifest: nil).text(.text)
        #expect(clean == "a/One: no findings\n0 errors, 0 warnings, 0 notes")
    }

    @Test("JSON has the members of every finding")
    func json() throws {
        let json = try JSONValue.parse(Self.report().text(.json))
        #expect(json["kinds"] == ["a/One", "a/Two"])
        #expect(
            json["findings"]?.arrayValue?.first == [
                "kind": "a/One", "rule": "signature/wrong", "severity": "error",
                "title": .string(LintRule.signatureWrong.title), "evidence": "found",
                "advice": .string(LintRule.signatureWrong.advice),
            ])
    }

    /// The only run of a log in SARIF.
    private static func run(_ log: JSONValue) throws -> (rules: [JSONValue], results: [JSONValue]) {
        let run = try #require(log["runs"]?.arrayValue?.first)
        let driver = try #require(run["tool"]?["driver"])
        #expect(driver["name"] == "freshet lint")
        return (try #require(driver["rules"]?.arrayValue), try #require(run["results"]?.arrayValue))
    }

    @Test("SARIF 2.1.0 has the required members, and every rule")
    func sarif() throws {
        let log = try JSONValue.parse(Self.report(manifest: "deploy/my kinds.yaml").text(.sarif))
        #expect(log["version"] == "2.1.0" && log["$schema"]?.stringValue?.hasSuffix("sarif-schema-2.1.0.json") == true)
        let rules = try Self.run(log).rules
        #expect(rules.map { $0["id"]?.stringValue } == LintRule.all.map(\.id))
        let levels: [JSONValue] = ["none", "note", "warning", "error"]
        #expect(rules.allSatisfy { levels.contains($0["defaultConfiguration"]?["level"] ?? .null) })
        #expect(rules.allSatisfy { $0["shortDescription"]?["text"]?.stringValue?.isEmpty == false })
    }

    @Test("Results in SARIF refer to their rules, kinds and the manifest")
    func sarifResults() throws {
        let log = try JSONValue.parse(Self.report(manifest: "deploy/my kinds.yaml").text(.sarif))
        let (rules, results) = try Self.run(log)
        #expect(results.map { $0["level"] } == ["error", "warning", "note"])
        for result in results {
            let index = try #require(result["ruleIndex"]?.numberValue?.int64)
            #expect(rules[Int(index)]["id"] == result["ruleId"])
            #expect(result["message"]?["text"]?.stringValue?.contains("found") == true)
            let location = try #require(result["locations"]?.arrayValue?.first)
            #expect(
                location["logicalLocations"]?.arrayValue?.first?["fullyQualifiedName"]?.stringValue?.hasPrefix("a/")
                    == true)
            #expect(location["physicalLocation"]?["artifactLocation"]?["uri"] == "deploy/my%20kinds.yaml")
        }
    }

    @Test("SARIF without a manifest refers to kinds by relative paths")
    func sarifWithoutManifest() throws {
        let run = try #require(try JSONValue.parse(Self.report().text(.sarif))["runs"]?.arrayValue?.first)
        let places = try #require(run["results"]?.arrayValue).map {
            $0["locations"]?.arrayValue?.first?["physicalLocation"]
        }
        #expect(places.map { $0?["artifactLocation"]?["uri"] } == ["a/One", "a/Two", "a/Two"])
        #expect(places.allSatisfy { $0?["region"]?["startLine"] == 1 })
        let notes = run["invocations"]?.arrayValue?.first?["toolExecutionNotifications"]?.arrayValue
        #expect(notes?.first?["associatedRule"]?["id"] == "schedule/same-time")
    }

    @Test("SARIF stays valid with hostile evidence, which is read back unchanged", arguments: HostileTexts.all)
    func hostile(text: String) throws {
        let log = try JSONValue.parse(Self.report(evidence: text).text(.sarif))
        let result = log["runs"]?.arrayValue?.first?["results"]?.arrayValue?.first
        let rule = LintRule.signatureWrong
        #expect(
            result?["message"]?["text"] == .string("a/One: \(text). Expected: \(rule.title). \(rule.advice)"))
    }

    @Test(
        "A finding fails the run from the severity of --fail-on upwards",
        arguments: zip([LintRule.Severity.note, .warning, .error], [3, 2, 1]))
    func failures(failOn: LintRule.Severity, count: Int) {
        let report = Self.report(failOn: failOn)
        #expect(report.findings.count(where: report.fails) == count)
    }
}
