// SPDX-License-Identifier: Apache-2.0

import JSON
import TestSupport
import Testing

@testable import WidgetModel

@Suite(.timeLimit(.patience))
struct KindDefinitionTests {
    @Test("D: sizes for families that the kind does not offer are allowed and noted")
    func sizes() throws {
        var kind = KindDefinition(
            name: "K", families: [.systemSmall, .systemMedium], providerURL: "https://p.example", placeholder: 1,
            intent: IntentDefinition(
                title: "T",
                parameters: [
                    IntentParameter(
                        name: "items", displayName: "Items", type: .string(.none),
                        count: .fixed([.systemSmall: 3, .systemLarge: 9]))
                ]))
        #expect(KindDefinition.validate(kind.json()).errors == [])
        #expect(try KindDefinition(json: kind.json()) == kind)
        #expect(
            kind.notices == [
                "K.items: the size for systemLarge has no effect: the kind offers systemSmall, systemMedium"
            ])
        kind.families = WidgetFamily.allCases
        #expect(kind.notices == [])
    }

    @Test("D: a kind that is not eligible for widgets cannot be placed; all errors of a placement are reported")
    func placement() throws {
        var kind = KindDefinition(
            name: "K", families: [.systemSmall], providerURL: "https://p.example", placeholder: 1,
            intent: IntentDefinition(
                title: "T", isEligibleForWidgets: false,
                parameters: [IntentParameter(name: "on", displayName: "On", type: .boolean)]))
        func pointers(_ family: WidgetFamily, _ configuration: JSONValue) throws -> [String] {
            let placement = WidgetPlacement(
                app: "a", widget: "w", user: "u", device: "d", kind: "K", family: family,
                configuration: try WidgetConfiguration(configuration),
                environment: WidgetEnvironment(reportedLocale: "?", timeZone: "UTC"))
            return kind.problems(with: kind.resolve(placement)).map(\.pointer)
        }
        #expect(
            try pointers(.systemLarge, ["on": 1, "off": 1]) == [
                "/kind", "/family", "/environment/locale", "/configuration/on", "/configuration/off",
            ])
        kind.intent?.isEligibleForWidgets = true
        kind.variesBy = []
        #expect(try pointers(.systemSmall, ["on": true]) == [])
    }

    private let smallest: JSONValue = [
        "name": "Weather", "providerURL": "HTTP://Provider.Example:80/freshet/", "placeholder": ["sky": "–"],
    ]

    private let largest: JSONValue = [
        "name": "RecentPurchases", "displayName": "Recent purchases", "description": "What was bought last.",
        "families": ["systemMedium", "systemSmall"], "sharing": "shared", "variesBy": ["locale"],
        "providerURL": "https://bank.example/freshet", "maxBatch": 250, "timeout": "2500ms", "minimumSpacing": "1m",
        "dailyBudget": ["minimum": 4, "maximum": 40], "placeholder": ["lines": []],
        "volatileFields": ["/now", "/a~1b/0"],
        "accentColor": "Gold", "backgroundColor": "Night", "dormantAfter": "7d",
    ]

    private func changed(_ json: JSONValue, _ key: String, _ value: JSONValue?) -> JSONValue {
        var object = json.objectValue ?? JSONObject()
        object[key] = value
        return .object(object)
    }

    @Test func defaults() throws {
        let kind = try #require(KindDefinition.validate(smallest).definition)
        #expect(
            kind
                == KindDefinition(
                    name: "Weather", providerURL: "http://provider.example/freshet", placeholder: ["sky": "–"]))
        #expect(kind.displayName == "Weather")
        #expect(kind.families == WidgetFamily.allCases)
        #expect(kind.sharing == .perUser && kind.variesBy == .all)
        #expect(kind.maxBatch == 100 && kind.timeout == .seconds(10) && kind.minimumSpacing == .seconds(300))
        #expect(kind.dailyBudget == nil && kind.dormantAfter == .seconds(1_209_600))
        #expect(DailyBudget() == DailyBudget(minimum: 8, maximum: 70))
    }

    @Test func everything() throws {
        let kind = try #require(KindDefinition.validate(largest).definition)
        #expect(kind.families == [.systemSmall, .systemMedium])
        #expect(kind.sharing == .shared && kind.variesBy == .locale)
        #expect(kind.timeout == .milliseconds(2500) && kind.minimumSpacing == .seconds(60))
        #expect(kind.dailyBudget == DailyBudget(minimum: 4, maximum: 40))
        #expect(kind.volatilePointers.map(\.tokens) == [["now"], ["a/b", "0"]])
        #expect(kind.accentColor == "Gold" && kind.backgroundColor == "Night" && kind.dormantAfter == .seconds(604_800))
        #expect(kind.maxBatch == 250)
    }

    @Test func storedAndRead() throws {
        for json in [smallest, largest, changed(largest, "variesBy", []), changed(largest, "minimumSpacing", 0)] {
            let kind = try #require(KindDefinition.validate(json).definition)
            #expect(try KindDefinition(json: kind.json()) == kind)
            // PostgreSQL's jsonb has its own order of members.
            #expect(try KindDefinition(json: JSONValue.parse(kind.json().canonical)) == kind)
        }
        #expect(
            try KindDefinition(json: changed(smallest, "later", 1)).name == "Weather", "a member of a newer version")
        #expect(throws: ModelError(message: #"required member "name" is missing"#, pointer: "/name")) {
            try KindDefinition(json: changed(smallest, "name", nil))
        }
        #expect(throws: ModelError(message: "expected an object, found an array")) { try KindDefinition(json: []) }
    }

    @Test(
        arguments: [
            ("name", JSONValue.null, "required member \"name\" is missing"), ("name", "", "must not be empty"),
            ("name", 5, "expected a string in quotes, found a number"),
            ("name", "a\nb", "must not contain control characters"),
            ("displayName", "", "must not be empty"),
            ("placeholder", nil, "required member \"placeholder\" is missing"),
            ("placeholder", ["a": "\u{0}"], "must not contain U+0000"),
            ("placeholder", .string(String(repeating: "x", count: 65_535)), "must be at most 65536 bytes, is 65537"),
            ("families", "systemSmall", "expected an array, found a string"),
            ("sharing", "public", "expected perUser or shared, found \"public\""),
            ("sharing", 1, "expected a string in quotes, found a number"),
            ("providerURL", "ftp://x", "expected an http or https URL, found \"ftp://x\""),
            ("maxBatch", 0, "expected an integer from 1 to 1000, found 0"),
            ("maxBatch", 1001, "expected an integer from 1 to 1000, found 1001"),
            ("maxBatch", "9", "expected an integer, found a string"),
            ("timeout", "99ms", "expected 100ms to 2m, found 99ms"),
            ("timeout", 121, "expected 100ms to 2m, found 121s"),
            ("timeout", "fast", "expected seconds or a duration such as 250ms, 10s, 5m, 1h or 14d, found \"fast\""),
            ("minimumSpacing", -1, "expected seconds or a duration such as 250ms, 10s, 5m, 1h or 14d, found a number"),
            ("dormantAfter", "1m", "expected 1h to 3650d, found 1m"),
            ("dailyBudget", 5, "expected an object, found a number"),
            ("colour", "red", "unknown member \"colour\""),
        ] as [(String, JSONValue, String)])
    func refused(key: String, value: JSONValue, message: String) {
        let (definition, errors) = KindDefinition.validate(changed(smallest, key, value))
        #expect(definition == nil && errors == [ModelError(message: message, pointer: "/\(key)")])
    }

    @Test func allErrorsAtOnce() {
        let manifest: JSONValue = [
            "app": "com..example", "developerMode": "yes",
            "kinds": [
                [
                    "name": "A", "provider": ["url": "http://a/?q"], "families": ["systemTiny", 5],
                    "variesBy": ["user"], "budget": ["minimum": 9, "maximum": 3, "weekly": 1],
                    "volatileFields": ["now"], "placeholder": [:],
                ],
                5,
                ["name": "A", "provider": ["url": "http://a"], "placeholder": [:]],
            ],
            "kind": [],
        ]
        let errors = AppDefinition.validate(manifest: manifest).errors
        #expect(
            errors.map(\.description) == [
                "/app: expected a bundle identifier such as com.example.bank, found \"com..example\"",
                "/developerMode: expected a boolean, found a string",
                "/kinds/0/families/0: expected one of systemSmall, systemMedium, systemLarge, systemExtraLarge, "
                    + "accessoryCircular, accessoryRectangular, accessoryInline, found \"systemTiny\"",
                "/kinds/0/families/1: expected a string in quotes, found a number",
                "/kinds/0/variesBy/0: expected one of family, locale, timeZone, found \"user\"",
                "/kinds/0/provider/url: URL with a query",
                "/kinds/0/budget/minimum: must not be greater than the maximum, 3",
                "/kinds/0/budget/weekly: unknown member \"weekly\"",
                "/kinds/0/volatileFields/0: expected a JSON pointer into the content such as /generatedAt, found \"now\"",
                "/kinds/1: expected an object, found a number",
                "/kinds/2/name: kind \"A\" is already defined at /kinds/0",
                "/kind: unknown member \"kind\"; did you mean \"kinds\"?",
            ])
    }

    @Test func apps() throws {
        let provider: JSONValue = ["url": "https://bank.example/freshet"]
        let manifest: JSONValue = [
            "app": "com.example.bank", "developerMode": true, "provider": provider,
            "kinds": [
                ["name": "Weather", "placeholder": [:], "provider": ["url": "http://weather.example"]],
                ["name": "Stocks", "placeholder": [:], "budget": ["minimum": 4]],
            ],
        ]
        let app = try #require(AppDefinition.validate(manifest: manifest).definition)
        #expect(app.name == "com.example.bank" && app.developerMode)
        #expect(app.kinds.map(\.name) == ["Weather", "Stocks"])
        #expect(app.kinds.map(\.providerURL) == ["http://weather.example", "https://bank.example/freshet"])
        #expect(app.kinds[1].dailyBudget == DailyBudget(minimum: 4))
        for (json, message) in [
            ([], "expected an object, found an array"),
            (["app": "a", "kinds": []], "/kinds: expected at least one kind"),
            (["app": "a", "kinds": 1], "/kinds: expected an array, found a number"),
            (["app": "a"], "/kinds: required member \"kinds\" is missing"),
        ] as [(JSONValue, String)] {
            let errors = AppDefinition.validate(manifest: json).errors
            #expect(errors.map(\.description) == [message])
        }
        for name in ["a", "com.example.bank", "com.Example-2.my_app"] {
            #expect(AppDefinition.isBundleIdentifier(name))
        }
        for name in ["", ".a", "a.", "a..b", "a b", "a/b", "é"] { #expect(!AppDefinition.isBundleIdentifier(name)) }
    }

    @Test(arguments: [
        ("100ms", 100, "100ms"), ("1500ms", 1500, "1500ms"), ("90s", 90_000, "90s"), ("5m", 300_000, "5m"),
        ("24h", 86_400_000, "1d"), ("007s", 7_000, "7s"), ("14d", 1_209_600_000, "14d"), ("0s", 0, "0s"),
        ("36h", 129_600_000, "36h"),
    ])
    func durations(text: String, milliseconds: Int, written: String) {
        #expect(Duration(text: text) == .milliseconds(milliseconds))
        #expect(Duration.milliseconds(milliseconds).text == written)
        #expect(Duration(text: written) == .milliseconds(milliseconds))
    }

    @Test(arguments: [
        "", "s", "5", "-5s", "+5s", "5 s", "5w", "5S", "5sec", "5m30s", "1.5s", "1e3s", "0x5s", "infs", "٣s",
        "9999999999999d", "99999999999999999999d",
    ])
    func badDurations(text: String) {
        #expect(Duration(text: text) == nil)
    }
}
