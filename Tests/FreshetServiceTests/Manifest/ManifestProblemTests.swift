// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import FreshetService

/// Manifests with the exact messages about their errors.
@Suite("Manifest problems", .timeLimit(.patience))
struct ManifestProblemTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var name: String
        var text: String
        var problems: [String]

        var testDescription: String { name }
    }

    /// A kind on line 4, indented by four, to which a case adds fields.
    private static func kind(_ fields: String) -> String {
        """
        app: com.example.bank
        provider: {url: "http://one.example.com"}
        kinds:
          - name: A
            placeholder: {}
            \(fields)
        """
    }

    static let appCases: [Case] = [
        Case(
            name: "empty file", text: "",
            problems: ["kinds.yaml: the file is empty; expected a mapping with app and kinds"]),
        Case(
            name: "comments only", text: "# nothing\n",
            problems: ["kinds.yaml: the file is empty; expected a mapping with app and kinds"]),
        Case(
            name: "not a mapping", text: "- a\n",
            problems: ["kinds.yaml:1:1: expected an object, found an array"]),
        Case(
            name: "missing members", text: "developerMode: false",
            problems: [
                "kinds.yaml:1:1: app: required member \"app\" is missing",
                "kinds.yaml:1:1: kinds: required member \"kinds\" is missing",
            ]),
        Case(
            name: "many errors",
            text: """
                app: com..bank
                developerMode: yes
                providers: {}
                kinds:
                  - name: A
                    maxBatch: 0
                  - name: A
                    placeholder: {}
                    timeout: 1 hour
                    provider: {url: "ftp://example.com"}
                """,
            problems: [
                "kinds.yaml:1:1: app: expected a bundle identifier such as com.example.bank, found \"com..bank\"",
                "kinds.yaml:2:1: developerMode: expected a boolean, found a string",
                "kinds.yaml:3:1: providers: unknown member \"providers\"; did you mean \"provider\"?",
                "kinds.yaml:5:5: kinds[0].provider: is missing, and the app names no default",
                "kinds.yaml:5:5: kinds[0].placeholder: required member \"placeholder\" is missing",
                "kinds.yaml:6:5: kinds[0].maxBatch: expected an integer from 1 to 1000, found 0",
                "kinds.yaml:7:5: kinds[1].name: kind \"A\" is already defined at /kinds/0",
                "kinds.yaml:9:5: kinds[1].timeout: expected seconds or a duration such as 250ms, 10s, 5m, 1h or 14d, "
                    + "found \"1 hour\"",
                "kinds.yaml:10:16: kinds[1].provider.url: expected an http or https URL, found \"ftp://example.com\"",
            ]),
        Case(
            name: "an intent, with all its errors",
            text: """
                app: com.example.bank
                provider: {url: "http://one.example.com"}
                kinds:
                  - name: A
                    placeholder: {}
                    intent:
                      title: Recent Purchases
                      parameters:
                        - {name: card, type: kustom}
                        - name: category
                          type: enumeration
                          cases: [{name: all}, {name: groceries}]
                          default: grocerys
                        - name: shop
                          type: string
                          parent: {name: categorie, hasExactly: groceries}
                """,
            problems: [
                "kinds.yaml:9:24: kinds[0].intent.parameters[0].type: expected string or boolean or integer or decimal "
                    + "or person or location or date or url or enumeration or custom, found \"kustom\"; "
                    + "did you mean \"custom\"?",
                "kinds.yaml:13:11: kinds[0].intent.parameters[1].default: expected one of all, groceries, found "
                    + "\"grocerys\"; did you mean \"groceries\"?",
                "kinds.yaml:16:20: kinds[0].intent.parameters[2].parent.name: expected a parameter, found "
                    + "\"categorie\"; did you mean \"category\"?",
            ]),
        Case(
            name: "repeated app",
            text: """
                app: com.example.bank
                provider: {url: "http://one.example.com"}
                kinds: [{name: A, placeholder: {}}]
                ---
                app: com.example.bank
                provider: {url: "http://one.example.com"}
                kinds: [{name: B, placeholder: {}}]
                """,
            problems: [
                "kinds.yaml:5:1: app: \"com.example.bank\" is already declared at line 1; "
                    + "expected one document for each app"
            ]),
        Case(
            name: "kinds of the wrong type", text: "app: com.example.bank\nkinds: {name: A}",
            problems: ["kinds.yaml:2:1: kinds: expected an array, found an object"]),
        Case(
            name: "no kinds", text: "app: com.example.bank\nkinds: []",
            problems: ["kinds.yaml:2:1: kinds: expected at least one kind"]),
        Case(
            name: "invalid default provider is reported once",
            text: """
                app: com.example.bank
                provider: http://one.example.com
                kinds: [{name: A, placeholder: {}}, {name: B, placeholder: {}}]
                """,
            problems: ["kinds.yaml:2:1: provider: expected an object, found a string"]),
    ]

    static let kindCases: [Case] = [
        Case(
            name: "unknown key with a suggestion", text: kind("maxbatch: 5"),
            problems: ["kinds.yaml:6:5: kinds[0].maxbatch: unknown member \"maxbatch\"; did you mean \"maxBatch\"?"]),
        Case(
            name: "number as text", text: kind("maxBatch: \"5\""),
            problems: ["kinds.yaml:6:5: kinds[0].maxBatch: expected an integer, found a string"]),
        Case(
            name: "fraction", text: kind("maxBatch: 1.5"),
            problems: ["kinds.yaml:6:5: kinds[0].maxBatch: expected an integer from 1 to 1000, found 1.5"]),
        Case(
            name: "too large to be a number", text: kind("maxBatch: 99999999999999999999"),
            problems: [
                "kinds.yaml:6:15: kinds[0].maxBatch: 99999999999999999999 is out of range; "
                    + "expected a number that can be kept exactly, or a string in quotes"
            ]),
        Case(
            name: "duration of the wrong type", text: kind("timeout: [10s]"),
            problems: [
                "kinds.yaml:6:5: kinds[0].timeout: expected seconds or a duration such as 250ms, 10s, 5m, 1h or 14d, found an array"
            ]),
        Case(
            name: "duration out of range", text: kind("timeout: 50ms"),
            problems: ["kinds.yaml:6:5: kinds[0].timeout: expected 100ms to 2m, found 50ms"]),
        Case(
            name: "family", text: kind("families: [systemLarge, systemSmal]"),
            problems: [
                "kinds.yaml:6:29: kinds[0].families[1]: expected one of systemSmall, systemMedium, systemLarge, "
                    + "systemExtraLarge, accessoryCircular, accessoryRectangular, accessoryInline, "
                    + "found \"systemSmal\"; did you mean \"systemSmall\"?"
            ]),
        Case(
            name: "sharing", text: kind("sharing: everyone"),
            problems: ["kinds.yaml:6:5: kinds[0].sharing: expected perUser or shared, found \"everyone\""]),
        Case(
            name: "variesBy is not a list", text: kind("variesBy: family"),
            problems: ["kinds.yaml:6:5: kinds[0].variesBy: expected an array, found a string"]),
        Case(
            name: "minimum above maximum", text: kind("budget: {minimum: 9, maximum: 8}"),
            problems: ["kinds.yaml:6:14: kinds[0].budget.minimum: must not be greater than the maximum, 8"]),
        Case(
            name: "pointer", text: kind("volatileFields: [generatedAt, /ok, \"/~2\", \"\"]"),
            problems: [("6:22", 0, "generatedAt"), ("6:40", 2, "/~2"), ("6:47", 3, "")].map { place, index, text in
                "kinds.yaml:\(place): kinds[0].volatileFields[\(index)]: expected a JSON pointer into the content such as "
                    + "/generatedAt, found \"\(text)\""
            }),
        Case(
            name: "text that YAML parses as another type", text: kind("displayName: 2048"),
            problems: ["kinds.yaml:6:5: kinds[0].displayName: expected a string in quotes, found a number"]),
        Case(
            name: "credentials in the URL", text: kind("provider: {url: \"http://me:secret@example.com\"}"),
            problems: ["kinds.yaml:6:16: kinds[0].provider.url: URL with user information"]),
        Case(
            name: "colour that is too long", text: kind("accentColor: \(String(repeating: "x", count: 257))"),
            problems: ["kinds.yaml:6:5: kinds[0].accentColor: must be at most 256 bytes, is 257"]),
        Case(
            name: "placeholder without a value",
            text: """
                app: com.example.bank
                provider: {url: "http://one.example.com"}
                kinds:
                  - name: A
                    placeholder:
                """,
            problems: ["kinds.yaml:5:5: kinds[0].placeholder: required member \"placeholder\" is missing"]),
        Case(
            name: "rules of the model",
            text: """
                app: com.example.bank
                provider: {url: "http://one.example.com"}
                kinds: [{name: A, placeholder: {a: "\\0"}}]
                """,
            problems: ["kinds.yaml:3:19: kinds[0].placeholder: must not contain U+0000"]),
        Case(
            name: "number out of JSON's range",
            text: """
                app: com.example.bank
                provider: {url: "http://one.example.com"}
                kinds: [{name: A, placeholder: {a: [1, 1e999]}}]
                """,
            problems: [
                "kinds.yaml:3:40: kinds[0].placeholder.a[1]: 1e999 is out of range; expected a number that can be kept exactly, or a string in quotes"
            ]),
        Case(
            name: "integer that a double rounds",
            text: """
                app: com.example.bank
                provider: {url: "http://one.example.com"}
                kinds: [{name: A, placeholder: {card: 9007199254740993}}]
                """,
            problems: [
                "kinds.yaml:3:39: kinds[0].placeholder.card: 9007199254740993 is out of range; "
                    + "expected a number that can be kept exactly, or a string in quotes"
            ]),
    ]

    @Test(arguments: appCases + kindCases)
    func says(_ example: Case) {
        let error = #expect(throws: ManifestError.self) {
            try Manifest.read(text: example.text, file: "kinds.yaml", environment: [:])
        }
        let said = error?.description.split(separator: "\n").map(String.init)
        #expect(said == example.problems)
    }

    @Test func placeholderHasABound() {
        let text = Self.kind("accentColor: A").replacing(
            "placeholder: {}", with: "placeholder: {text: \"\(String(repeating: "x", count: 70_000))\"}")
        let error = #expect(throws: ManifestError.self) {
            try Manifest.read(text: text, file: "kinds.yaml", environment: [:])
        }
        #expect(
            error?.description
                == "kinds.yaml:5:5: kinds[0].placeholder: must be at most 65536 bytes, is 70011")
    }
}
