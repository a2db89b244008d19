import Foundation
import TestSupport
import Testing
import WidgetModel

@testable import freshet

@Suite("Reports of lint")
struct LintReportTests {
    private static func report(
        evidence: String = "found", manifest: String? = nil, failOn: LintRule.Severity = .warning
    ) -> LintReport {
        LintReport(
            kinds: ["a/One", "a/Two"],
            findings: [
                LintFinding(rule: SignatureRules.wrong, kind: "a/One", evidence: evidence),
                LintFinding(rule: ScheduleRules.roundHour, kind: "a/Two", evidence: evidence),
                LintFinding(rule: ScheduleRules.shortGap, kind: "a/Two", evidence: evidence),
            ], rules: LintRule.all, manifest: manifest,
            skipped: [LintSkip(rule: ScheduleRules.sameTime, kind: "a/One", reason: "few people")], failOn: failOn)
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
                "title": .string(SignatureRules.wrong.title), "evidence": "found",
                "advice": .string(SignatureRules.wrong.advice),
            ])
    }

    @Test("SARIF 2.1.0 has the required members, and results refer to their rules")
    func sarif() throws {
        let log = try JSONValue.parse(Self.report(manifest: "deploy/my kinds.yaml").text(.sarif))
        #expect(log["version"] == "2.1.0" && log["$schema"]?.stringValue?.hasSuffix("sarif-schema-2.1.0.json") == true)
        let run = try #require(log["runs"]?.arrayValue?.first)
        let driver = try #require(run["tool"]?["driver"])
        #expect(driver["name"] == "freshet lint")
        let rules = try #require(driver["rules"]?.arrayValue)
        #expect(rules.map { $0["id"]?.stringValue } == LintRule.all.map(\.id))
        let levels: [JSONValue] = ["none", "note", "warning", "error"]
        #expect(rules.allSatisfy { levels.contains($0["defaultConfiguration"]?["level"] ?? .null) })
        #expect(rules.allSatisfy { $0["shortDescription"]?["text"]?.stringValue?.isEmpty == false })
        let results = try #require(run["results"]?.arrayValue)
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

    @Test(
        "JUnit's failures are the findings that fail the run",
        arguments: zip([LintRule.Severity.note, .error], [3, 1]))
    func junitFailures(failOn: LintRule.Severity, count: Int) throws {
        let document = try Self.document(Self.report(failOn: failOn))
        #expect(document.attributes["failures"] == "\(count)")
        let results = document.children.flatMap(\.children).flatMap(\.children).map(\.name)
        #expect(results.filter { $0 == "failure" }.count == count)
        #expect(document.children[0].attributes["skipped"] == "1" && results.contains("skipped"))
    }

    @Test("JUnit has a test case for each rule and kind; warnings and errors are failures")
    func junit() throws {
        let document = try Self.document(Self.report())
        #expect(document.name == "testsuites" && document.attributes["failures"] == "2")
        #expect(document.children.map { $0.attributes["name"] } == ["a/One", "a/Two"])
        for suite in document.children {
            #expect(suite.children.count == LintRule.all.count)
            #expect(suite.attributes["tests"] == "\(LintRule.all.count)" && suite.attributes["failures"] == "1")
        }
        let failure = try #require(document.children[0].children.flatMap(\.children).first { $0.name == "failure" })
        #expect(failure.name == "failure" && failure.attributes["message"] == "found")
        #expect(document.children[1].children.flatMap(\.children).map(\.name).sorted() == ["failure", "system-out"])
    }

    @Test("Hostile evidence keeps the XML well-formed and is read back unchanged", arguments: HostileTexts.all)
    func hostile(text: String) throws {
        let document = try Self.document(Self.report(evidence: text))
        let message = document.children[0].children.flatMap(\.children).first { $0.name == "failure" }?.attributes[
            "message"]
        #expect(message == text.replacing("\u{0}", with: "\u{FFFD}"))
    }

    // MARK: XML

    private final class Element {
        let name: String
        let attributes: [String: String]
        var children: [Element] = []

        init(_ name: String, _ attributes: [String: String]) { (self.name, self.attributes) = (name, attributes) }
    }

    private struct Malformed: Error { let place: String }

    /// Parses the subset of XML that JUnit needs: elements, attributes and the five entities.
    private static func document(_ report: LintReport) throws -> Element {
        var rest = report.text(.junit)[...]
        func fail() -> Malformed { Malformed(place: String(rest.prefix(80))) }
        guard rest.hasPrefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>") else { throw fail() }
        rest = rest[rest.index(after: try #require(rest.firstIndex(of: ">")))...]
        var open = [Element("", [:])]
        while let start = rest.firstIndex(of: "<") {
            _ = try unescaped(String(rest[..<start]))
            guard let end = rest[start...].firstIndex(of: ">") else { throw fail() }
            var tag = rest[rest.index(after: start)..<end]
            rest = rest[rest.index(after: end)...]
            if tag.hasPrefix("/") {
                guard open.count > 1, open.removeLast().name == tag.dropFirst() else { throw fail() }
                continue
            }
            let isEmpty = tag.hasSuffix("/")
            if isEmpty { tag = tag.dropLast() }
            let element = Element(String(tag.prefix { $0 != " " }), try attributes(tag.drop { $0 != " " }))
            open[open.count - 1].children.append(element)
            if !isEmpty { open.append(element) }
        }
        guard open.count == 1, open[0].children.count == 1 else { throw fail() }
        return open[0].children[0]
    }

    private static func attributes(_ text: Substring) throws -> [String: String] {
        var attributes: [String: String] = [:]
        // Compares scalars, since a combining character may follow a quote.
        var rest = text.unicodeScalars[...]
        while let equals = rest.firstIndex(of: "=") {
            let name = String(rest[..<equals]).trimmingCharacters(in: .whitespaces)
            let start = rest.index(equals, offsetBy: 2)
            guard let end = rest[start...].firstIndex(of: "\"") else { throw Malformed(place: String(rest)) }
            attributes[name] = try unescaped(String(rest[start..<end]))
            rest = rest[rest.index(after: end)...]
        }
        return attributes
    }

    private static func unescaped(_ text: String) throws -> String {
        let names = ["amp": "&", "lt": "<", "gt": ">", "quot": "\"", "apos": "'"]
        // Compares scalars, as above.
        let parts = text.unicodeScalars.split(separator: "&", omittingEmptySubsequences: false)
        return try String(parts[0])
            + parts.dropFirst().map { part in
                guard let end = part.firstIndex(of: ";") else { throw Malformed(place: String(part)) }
                let name = String(part[..<end])
                let number = name.hasPrefix("#") ? UInt32(name.dropFirst()).flatMap(Unicode.Scalar.init) : nil
                guard let value = names[name] ?? number.map(String.init) else { throw Malformed(place: name) }
                return value + String(part[part.index(after: end)...])
            }.joined()
    }
}
