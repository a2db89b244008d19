import Testing

@testable import freshet

/// Each case is a manifest with what must be said of it, word for word.
@Suite("Manifest problems", .timeLimit(.minutes(5)))
struct ManifestProblemTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var name: String
        var text: String
        var problems: [String]

        var testDescription: String { name }
    }

    /// A kind on line 4, indented by four, whose fields a case adds.
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
            name: "nothing at all", text: "",
            problems: ["kinds.yaml: the file is empty; expected a mapping with app and kinds"]),
        Case(
            name: "comments only", text: "# nothing\n",
            problems: ["kinds.yaml: the file is empty; expected a mapping with app and kinds"]),
        Case(
            name: "not a mapping", text: "- a\n",
            problems: [
                "kinds.yaml:1:1: a list where a mapping belongs; "
                    + "expected a mapping with app, developerMode, provider, signingSecret, kinds"
            ]),
        Case(
            name: "what is required", text: "developerMode: false",
            problems: [
                "kinds.yaml:1:1: app: is missing; expected a bundle identifier such as com.example.bank",
                "kinds.yaml:1:1: kinds: is missing; expected a list of kinds",
            ]),
        Case(
            name: "everything at once",
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
                "kinds.yaml:1:6: app: \"com..bank\" is not a bundle identifier; "
                    + "expected a bundle identifier such as com.example.bank",
                "kinds.yaml:2:16: developerMode: \"yes\" is a string; expected true or false",
                "kinds.yaml:3:1: unknown key \"providers\"; expected \"provider\" (did you mean it?)",
                "kinds.yaml:5:5: kinds[0].placeholder: is missing; expected what the widget shows without data",
                "kinds.yaml:5:5: kinds[0].provider: is missing, and the app names no default; "
                    + "expected {url: …} here or at the app",
                "kinds.yaml:6:15: kinds[0].maxBatch: 0 is out of range; expected 1 to 1000",
                "kinds.yaml:7:11: kinds[1].name: \"A\" is already the name of the kind at line 5; "
                    + "expected every name once",
                "kinds.yaml:9:14: kinds[1].timeout: \"1 hour\" is not a duration; "
                    + "expected a duration such as 250ms, 10s, 5m, 1h or 14d",
                "kinds.yaml:10:21: kinds[1].provider.url: expected an http or https URL, found \"ftp://example.com\"; "
                    + "expected an http or https URL such as https://widgets.example.com/bank",
            ]),
        Case(
            name: "an app twice",
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
            problems: ["kinds.yaml:2:8: kinds: is a mapping; expected a list of kinds"]),
        Case(
            name: "no kinds", text: "app: com.example.bank\nkinds: []",
            problems: ["kinds.yaml:2:8: kinds: 0 kinds; expected 1 to 1000"]),
        Case(
            name: "a wrong default provider is said once",
            text: """
                app: com.example.bank
                provider: http://one.example.com
                kinds: [{name: A, placeholder: {}}, {name: B, placeholder: {}}]
                """,
            problems: [
                "kinds.yaml:2:11: provider: \"http://one.example.com\" where a mapping belongs; "
                    + "expected a mapping with url"
            ]),
    ]

    static let kindCases: [Case] = [
        Case(
            name: "unknown key with a suggestion", text: kind("maxbatch: 5"),
            problems: ["kinds.yaml:6:5: kinds[0]: unknown key \"maxbatch\"; expected \"maxBatch\" (did you mean it?)"]
        ),
        Case(
            name: "number as text", text: kind("maxBatch: \"5\""),
            problems: ["kinds.yaml:6:15: kinds[0].maxBatch: \"5\" is a string; expected a whole number, 1 to 1000"]),
        Case(
            name: "fraction", text: kind("maxBatch: 1.5"),
            problems: [
                "kinds.yaml:6:15: kinds[0].maxBatch: 1.5 is not a whole number of this range; expected 1 to 1000"
            ]),
        Case(
            name: "too large to be a number", text: kind("maxBatch: 99999999999999999999"),
            problems: [
                "kinds.yaml:6:15: kinds[0].maxBatch: 99999999999999999999 is not a whole number of this range; "
                    + "expected 1 to 1000"
            ]),
        Case(
            name: "duration without a unit", text: kind("timeout: 10"),
            problems: [
                "kinds.yaml:6:14: kinds[0].timeout: 10 is a number; "
                    + "expected a duration such as 250ms, 10s, 5m, 1h or 14d, 100ms to 2m"
            ]),
        Case(
            name: "duration out of range", text: kind("timeout: 50ms"),
            problems: ["kinds.yaml:6:14: kinds[0].timeout: 50ms is out of range; expected 100ms to 2m"]),
        Case(
            name: "family", text: kind("families: [systemSmal, systemLarge, systemLarge]"),
            problems: [
                "kinds.yaml:6:16: kinds[0].families[0]: unknown value \"systemSmal\" (did you mean \"systemSmall\"?); "
                    + "expected systemSmall, systemMedium, systemLarge, systemExtraLarge, accessoryCircular, "
                    + "accessoryRectangular, accessoryInline",
                "kinds.yaml:6:41: kinds[0].families[2]: \"systemLarge\" is listed twice; expected every value once",
            ]),
        Case(
            name: "no family", text: kind("families: []"),
            problems: [
                "kinds.yaml:6:15: kinds[0].families: is an empty list; "
                    + "expected at least one family, or no such key for all of them"
            ]),
        Case(
            name: "sharing", text: kind("sharing: everyone"),
            problems: ["kinds.yaml:6:14: kinds[0].sharing: unknown value \"everyone\"; expected perUser, shared"]),
        Case(
            name: "variesBy that is no list", text: kind("variesBy: family"),
            problems: [
                "kinds.yaml:6:15: kinds[0].variesBy: \"family\" is a string; "
                    + "expected a list of family, locale, timeZone"
            ]),
        Case(
            name: "half a budget", text: kind("budget: {minimum: 8}"),
            problems: ["kinds.yaml:6:13: kinds[0].budget.maximum: is missing; expected reloads a day"]),
        Case(
            name: "budget upside down", text: kind("budget: {minimum: 9, maximum: 8}"),
            problems: [
                "kinds.yaml:6:13: kinds[0].budget: the minimum 9 is above the maximum 8; expected minimum ≤ maximum"
            ]),
        Case(
            name: "pointer", text: kind("volatileFields: [generatedAt, /ok, \"/~2\", \"\"]"),
            problems: [
                "kinds.yaml:6:22: kinds[0].volatileFields[0]: \"generatedAt\" is not a JSON pointer; "
                    + "expected a pointer into the content such as /generatedAt",
                "kinds.yaml:6:40: kinds[0].volatileFields[2]: \"/~2\" is not a JSON pointer; "
                    + "expected a pointer into the content such as /generatedAt",
                "kinds.yaml:6:47: kinds[0].volatileFields[3]: is empty; expected 1 to 512 bytes",
            ]),
        Case(
            name: "text that YAML reads as something else", text: kind("displayName: 2048"),
            problems: [
                "kinds.yaml:6:18: kinds[0].displayName: 2048 is a number; expected a string (put it in quotes)"
            ]),
        Case(
            name: "credentials in the URL", text: kind("provider: {url: \"http://me:secret@example.com\"}"),
            problems: [
                "kinds.yaml:6:21: kinds[0].provider.url: URL with user information; "
                    + "expected an http or https URL such as https://widgets.example.com/bank"
            ]),
        Case(
            name: "name with a space",
            text: """
                app: com.example.bank
                provider: {url: "http://one.example.com"}
                kinds: [{name: "Recent purchases", placeholder: {}}]
                """,
            problems: [
                "kinds.yaml:3:16: kinds[0].name: \"Recent purchases\" has white space or a slash; "
                    + "expected a name such as RecentPurchases"
            ]),
        Case(
            name: "placeholder without a value",
            text: """
                app: com.example.bank
                provider: {url: "http://one.example.com"}
                kinds:
                  - name: A
                    placeholder:
                """,
            problems: [
                "kinds.yaml:5:17: kinds[0].placeholder: has no value; expected what the widget shows without data"
            ]),
        Case(
            name: "what only the model knows",
            text: """
                app: com.example.bank
                provider: {url: "http://one.example.com"}
                kinds: [{name: A, placeholder: {a: "\\0"}}]
                """,
            problems: ["kinds.yaml:3:32: kinds[0].placeholder: must not contain U+0000"]),
        Case(
            name: "number that JSON readers cannot take",
            text: """
                app: com.example.bank
                provider: {url: "http://one.example.com"}
                kinds: [{name: A, placeholder: {a: [1, 1e999]}}]
                """,
            problems: [
                "kinds.yaml:3:40: kinds[0].placeholder: 1e999 is out of range; expected a finite number"
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
            try Manifest.read(text: text, file: "kinds.yaml", environment: nil)
        }
        #expect(
            error?.description
                == "kinds.yaml:5:18: kinds[0].placeholder: has 70011 bytes as JSON; expected at most 65536")
    }
}
