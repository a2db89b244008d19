// SPDX-License-Identifier: Apache-2.0

import JSON
import Randomness
import Testing
import WidgetModel

/// DESIGN.md, D: definitions of configurations.
@Suite("Intent definitions")
struct IntentDefinitionTests {
    /// A parameter of every type and control.
    static let everyType = """
        {"title": "Recent Purchases", "description": "Purchases of a card", "category": "information",
         "eligibleForSuggestions": false,
         "parameters": [
           {"name": "card", "displayName": "Card", "type": "custom", "typeName": "Card", "dynamicOptions": true,
            "dynamicDefault": true},
           {"name": "category", "displayName": "Category", "type": "enumeration", "default": "all",
            "cases": [{"name": "all", "displayName": "All"}, {"name": "groceries", "displayName": "Groceries"}]},
           {"name": "note", "displayName": "Note", "type": "string", "capitalization": "words"},
           {"name": "mirrorCalendarApp", "displayName": "Mirror Calendar App", "type": "boolean", "default": true},
           {"name": "calendars", "displayName": "Calendars", "type": "custom", "typeName": "Calendar", "several": true,
            "parent": {"name": "mirrorCalendarApp", "hasExactly": false}},
           {"name": "count", "displayName": "Count", "type": "integer", "control": "stepper", "minimum": 0,
            "maximum": 10, "step": 2, "default": 4},
           {"name": "volume", "displayName": "Volume", "type": "decimal", "control": "slider", "minimum": 0,
            "maximum": 1},
           {"name": "person", "displayName": "Person", "type": "person"},
           {"name": "place", "displayName": "Place", "type": "location"},
           {"name": "day", "displayName": "Day", "type": "date"},
           {"name": "link", "displayName": "Link", "type": "url"},
           {"name": "items", "displayName": "Items", "type": "string",
            "size": {"systemSmall": 3, "systemMedium": 6}},
           {"name": "symbol", "displayName": "Symbol", "type": "custom", "typeName": "Symbol",
            "search": {"prompt": "Type a symbol"}}],
         "supportedCombinations": [["card"], ["card", "category"]],
         "localizations": {"de": {"Card": "Karte", "Category": "Kategorie"}}}
        """

    private static func kind(intent: String) throws -> (definition: KindDefinition?, errors: [ModelError]) {
        let text = """
            {"name": "Purchases", "providerURL": "https://bank.example", "placeholder": {}, "intent": \(intent)}
            """
        return KindDefinition.validate(try JSONValue.parse(text))
    }

    static func intent(_ text: String) throws -> IntentDefinition {
        try #require(try kind(intent: text).definition?.intent)
    }

    /// Returns an intent with these parameters.
    static func intent(parameters: String) throws -> IntentDefinition {
        try intent(#"{"title": "T", "parameters": [\#(parameters)]}"#)
    }

    @Test(
        "D: a definition has a title, a description, a category and flags; with every type it is read back as written")
    func roundTrip() throws {
        let kind = try #require(Self.kind(intent: Self.everyType).definition)
        let intent = try #require(kind.intent)
        #expect(intent.parameters.map(\.name).prefix(3) == ["card", "category", "note"])
        #expect(intent.category == .information && !intent.isEligibleForSuggestions && intent.isEligibleForWidgets)
        #expect(intent.parameter("items")?.limit(for: .systemSmall) == 3)
        #expect(intent.parameter("items")?.limit(for: .systemMedium) == 6)
        #expect(intent.parameter("items")?.limit(for: .systemLarge) == nil)
        #expect(intent.parameter("symbol")?.hasDynamicOptions == true)
        #expect(try KindDefinition(json: kind.json()) == kind)
    }

    @Test(
        "D: display texts are looked up without one subtag of the locale after the other, ignoring case (RFC 4647)",
        arguments: [
            ("zh-Hans-CN", "卡"), ("zh_hans", "卡"), ("zh-Hant-TW", "Card"), ("zh", "Card"), ("DE", "Karte"),
            ("de-AT", "Karte"), ("pt-br", "Cartão"), ("pt-PT", "Cartao"), ("en-US-u-ca-japanese", "Card US"),
            ("fr-FR", "Card"), ("", "Card"), ("-", "Card"),
        ])
    func localization(locale: String, expected: String) throws {
        let texts = try Self.intent(
            """
            {"title": "Card",
             "localizations": {"zh-Hans": {"Card": "卡"}, "de": {"Card": "Karte"}, "de-AT": {"Note": "Zettel"},
             "pt_BR": {"Card": "Cartão"}, "pt": {"Card": "Cartao"}, "EN-us": {"Card": "Card US"}, "": {"Card": "?"}}}
            """)
        #expect(texts.text("Card", in: locale) == expected)
        #expect(texts.text("Note", in: locale) == (locale == "de-AT" ? "Zettel" : "Note"))
    }

    @Test("All errors of a definition are reported at once, with pointers and suggestions")
    func errors() throws {
        let errors = try Self.kind(
            intent: """
                {"title": "T", "categroy": "view", "parameters": [
                  {"name": "card", "type": "kustom"},
                  {"name": "count", "type": "integer", "minimum": 1, "default": 0},
                  {"name": "count", "type": "boolean"},
                  {"name": "a", "type": "boolean", "parent": {"name": "b", "hasExactly": true}},
                  {"name": "b", "type": "boolean", "parent": {"name": "a", "hasExactly": true}},
                  {"name": "c", "type": "boolean", "parent": {"name": "cuont", "hasExactly": 1}},
                  {"name": "d", "type": "boolean", "parent": {"name": "a", "hasExactly": "x"}}],
                 "supportedCombinations": [["cont"], 1]}
                """
        ).errors
        let found = errors.map { "\($0.pointer): \($0.message)" }
        for expected in [
            "/intent/categroy: unknown member \"categroy\"; did you mean \"category\"?",
            "/intent/parameters/0/type: expected string or boolean",
            "/intent/parameters/1/default: expected an integer from 1, found 0",
            "/intent/supportedCombinations/1: expected an array",
        ] {
            #expect(found.contains { $0.hasPrefix(expected) }, "\(expected) in \(found)")
        }
    }

    @Test(
        "Invalid members of a parameter are refused for its type and control",
        arguments: [
            (#""type": "boolean", "capitalization": "words""#, "capitalization", "type string, not boolean"),
            (#""type": "string", "minimum": 1"#, "minimum", "integer or decimal, not string"),
            (#""type": "string", "components": "time""#, "components", "type date, not string"),
            (#""type": "integer", "multiline": true"#, "multiline", "type string, not integer"),
            (#""type": "integer", "minimum": 2, "maximum": 1"#, "minimum", "greater than the maximum"),
            (#""type": "integer", "step": 0"#, "step", "greater than 0"),
            (#""type": "integer", "control": "slider""#, "control", "a field or a stepper"),
            (#""type": "decimal", "control": "stepper""#, "control", "a field or a slider"),
            (#""type": "decimal", "control": "slider", "minimum": 0"#, "control", "a minimum and a maximum"),
            (#""type": "enumeration""#, "cases", "has cases, or dynamicOptions"),
            (#""type": "enumeration", "cases": [{"name": "a"}, {"name": "a"}]"#, "cases/1/name", "already defined"),
            (#""type": "string", "size": {"systemSmal": 1}"#, "size/systemSmal", "did you mean \"systemSmall\"?"),
            (#""type": "string", "several": true, "default": "a""#, "default", "expected an array, found a string"),
            (#""type": "decimal", "step": 0.25, "default": 0.3"#, "default", "in steps of 0.25, found 0.3"),
            (
                #""type": "string", "parent": {"name": "p"}"#, "parent/hasExactly",
                "expected hasExactly with a value, or hasAnyValue: true"
            ),
            (
                #""type": "string", "parent": {"name": "p", "hasAnyValue": false}"#, "parent/hasAnyValue",
                "expected true"
            ),
            (
                #""type": "string", "parent": {"name": "p", "hasExactly": 1, "hasAnyValue": true}"#,
                "parent/hasAnyValue", "not both"
            ),
            (#""type": "boolean", "default": 1"#, "default", "expected a boolean, found a number"),
        ])
    func members(parameter: String, pointer: String, message: String) throws {
        let errors = try Self.kind(
            intent: #"{"title": "T", "parameters": [{"name": "p", \#(parameter)}]}"#
        ).errors
        #expect(errors.map(\.pointer) == ["/intent/parameters/0/\(pointer)"])
        #expect(errors.first?.message.contains(message) == true, "\(errors)")
    }

    @Test("D: parents and supported combinations name parameters of the definition")
    func references() throws {
        let errors = try Self.kind(
            intent: """
                {"title": "T", "parameters": [
                  {"name": "count", "type": "integer"}, {"name": "count", "type": "boolean"},
                  {"name": "a", "type": "boolean", "parent": {"name": "b", "hasExactly": true}},
                  {"name": "b", "type": "boolean", "parent": {"name": "a", "hasExactly": true}},
                  {"name": "c", "type": "boolean", "parent": {"name": "cuont", "hasExactly": 1}},
                  {"name": "d", "type": "boolean", "parent": {"name": "count", "hasExactly": "x"}},
                  {"name": "e", "type": "boolean", "parent": {"name": "f", "hasAnyValue": true}}],
                 "supportedCombinations": [["cont"]]}
                """
        ).errors
        #expect(
            errors.map(\.pointer) == [
                "/intent/parameters/1/name", "/intent/parameters/2/parent", "/intent/parameters/3/parent",
                "/intent/parameters/4/parent/name", "/intent/parameters/5/parent/hasExactly",
                "/intent/parameters/6/parent/name", "/intent/supportedCombinations/0/0",
            ])
        #expect(errors[3].message.contains("did you mean \"count\"?"))
    }
}

/// DESIGN.md, D: values of a configuration.
@Suite("Configurations under an intent definition")
struct IntentValueTests {
    private static func resolve(
        _ configuration: String, _ intent: IntentDefinition, family: WidgetFamily = .systemSmall
    ) throws -> (effective: WidgetConfiguration, problems: [ModelError]) {
        intent.resolve(try WidgetConfiguration(json: Array(configuration.utf8)), family: family)
    }

    @Test(
        "D: every type accepts its values in a single form",
        arguments: [
            (#""type": "string""#, #""Lunch""#, #""Lunch""#), (#""type": "boolean""#, "false", "false"),
            (#""type": "integer", "minimum": -2, "maximum": 2"#, "-2", "-2"),
            (#""type": "integer""#, "4.0", "4"), (#""type": "decimal", "maximum": 1"#, "0.50", "0.5"),
            (#""type": "decimal", "minimum": -0.7, "step": 0.1"#, "0.3", "0.3"),
            (#""type": "decimal", "step": 0.01"#, "123456.78", "123456.78"),
            (#""type": "person""#, #"{"identifier": "p1", "display": "Ann"}"#, #""p1""#),
            (#""type": "custom""#, #""acme""#, #""acme""#),
            (#""type": "custom""#, #"{"display": "ACME Card", "identifier": "acme"}"#, #""acme""#),
            (
                #""type": "location""#, #"{"display": "Home", "latitude": 37.33, "longitude": -122.01}"#,
                #"{"latitude":37.33,"longitude":-122.01}"#
            ),
            (#""type": "date""#, #""2026-06-22""#, #""2026-06-22""#),
            (#""type": "date""#, #""2026-06-22T09:41:00+02:00""#, #""2026-06-22T07:41:00Z""#),
            (#""type": "date", "components": "date""#, #""2026-06-22""#, #""2026-06-22""#),
            (#""type": "date", "components": "time""#, #""09:41""#, #""09:41""#),
            (
                #""type": "date", "components": "dateTime""#, #""2026-06-22T09:41:00.000+02:00""#,
                #""2026-06-22T07:41:00Z""#
            ),
            (#""type": "string", "multiline": true"#, #""a\nb""#, #""a\nb""#),
            (#""type": "url""#, #""rangers://hero/panda""#, #""rangers://hero/panda""#),
            (#""type": "enumeration", "cases": [{"name": "all"}]"#, #""all""#, #""all""#),
            (#""type": "enumeration", "cases": [{"name": "all"}], "dynamicOptions": true"#, #""new""#, #""new""#),
            (#""type": "string", "several": true"#, #"["b", "a"]"#, #"["b","a"]"#),
        ])
    func accepted(type: String, value: String, effective: String) throws {
        let intent = try IntentDefinitionTests.intent(parameters: #"{"name": "p", \#(type)}"#)
        let resolution = try Self.resolve(#"{"p": \#(value)}"#, intent)
        #expect(resolution.problems == [])
        #expect(resolution.effective.canonical == #"{"p":\#(effective)}"#)
    }

    @Test(
        "D: values that a type does not allow are refused with a pointer",
        arguments: [
            (#""type": "string""#, "1", "/p", "expected a string"),
            (#""type": "boolean""#, #""true""#, "/p", "expected a boolean, found \"true\""),
            (#""type": "integer""#, "1.5", "/p", "expected an integer, found 1.5"),
            (
                #""type": "integer", "minimum": 1, "maximum": 9"#, "10", "/p",
                "expected an integer from 1 to 9, found 10"
            ),
            (#""type": "integer", "minimum": 1, "step": 2"#, "2", "/p", "in steps of 2"),
            (#""type": "decimal", "maximum": 1"#, "1.5", "/p", "expected a number up to 1, found 1.5"),
            (
                #""type": "decimal", "minimum": 0, "maximum": 1, "step": 0.1"#, "0.35", "/p",
                "from 0 to 1 in steps of 0.1, found 0.35"
            ),
            (#""type": "person""#, "7", "/p", "expected an identifier, or an object"),
            (#""type": "custom""#, #"{"display": "ACME"}"#, "/p/identifier", "\"identifier\" is missing"),
            (#""type": "custom""#, #"{"identifier": ""}"#, "/p/identifier", "expected an identifier, found \"\""),
            (
                #""type": "custom""#, #"{"identifier": "a", "dispaly": "A"}"#, "/p/dispaly",
                #"unknown member "dispaly", expected identifier, display; did you mean "display"?"#
            ),
            (
                #""type": "person""#, #"{"identifier": "a", "display": 7}"#, "/p/display",
                "expected a text, found a number"
            ),
            (
                #""type": "location""#, #"{"latitude": 91, "longitude": 0}"#, "/p/latitude",
                "expected a number from -90 to 90, found 91"
            ),
            (#""type": "location""#, #"{"latitude": 1}"#, "/p/longitude", "\"longitude\" is missing"),
            (
                #""type": "location""#, #"{"latitude": 1, "longitude": 2, "display": 3}"#, "/p/display",
                "expected a text, found a number"
            ),
            (#""type": "date""#, #""2026-02-30""#, "/p", "a date such as"),
            (#""type": "date", "components": "date""#, #""2026-06-22T09:41:00Z""#, "/p", "a day such as 2026-06-22"),
            (#""type": "date", "components": "time""#, #""24:00""#, "/p", "a time of day such as 09:41"),
            (#""type": "date", "components": "dateTime""#, #""2026-06-22""#, "/p", "a point in time such as"),
            (#""type": "url""#, #""panda""#, "/p", "expected an absolute URL, found \"panda\""),
            (#""type": "url""#, #""JavaScript:alert(1)""#, "/p", "the scheme javascript is not safe in a link"),
            (
                #""type": "url""#, "\"https://a.example/\(String(repeating: "x", count: 2031))\"", "/p",
                "expected at most 2048 bytes, found 2049"
            ),
            (
                #""type": "enumeration", "cases": [{"name": "groceries"}]"#, #""grocerys""#, "/p",
                "did you mean \"groceries\"?"
            ),
            (#""type": "string", "several": true"#, #""a""#, "/p", "expected an array"),
            (#""type": "boolean", "several": true"#, "[true, 1]", "/p/1", "expected a boolean"),
            (
                #""type": "string", "size": {"systemSmall": 1}"#, #"["a", "b"]"#, "/p",
                "at most 1 values fit systemSmall, found 2"
            ),
            (#""type": "string""#, #""x", "q": 1"#, "/q", "unknown parameter \"q\""),
        ])
    func refused(type: String, value: String, pointer: String, message: String) throws {
        let intent = try IntentDefinitionTests.intent(parameters: #"{"name": "p", \#(type)}"#)
        let problems = try Self.resolve(#"{"p": \#(value)}"#, intent).problems
        #expect(problems.map(\.pointer) == [pointer])
        #expect(problems.first?.message.contains(message) == true, "\(problems)")
    }

    @Test("The default replaces an invalid value")
    func fallback() throws {
        let intent = try IntentDefinitionTests.intent(
            parameters:
                #"{"name": "n", "type": "integer", "maximum": 5, "default": 3}, {"name": "s", "type": "string"}"#)
        let resolution = try Self.resolve(#"{"n": 9, "s": "x"}"#, intent)
        #expect(resolution.problems.count == 1 && resolution.effective.canonical == #"{"n":3,"s":"x"}"#)
    }

    @Test("D: default values: Category = All, omitted or chosen, is the same configuration")
    func defaults() throws {
        let intent = try IntentDefinitionTests.intent(
            parameters: #"{"name": "category", "type": "enumeration", "default": "all", "cases": [{"name": "all"}]}"#)
        #expect(try Self.resolve("{}", intent).effective == Self.resolve(#"{"category": "all"}"#, intent).effective)
        #expect(try Self.resolve(#"{"category": null}"#, intent).effective.canonical == #"{"category":"all"}"#)
    }

    @Test("D: a hidden parameter has no value: Calendar has an effect only if Mirror Calendar App is false")
    func hidden() throws {
        let intent = try IntentDefinitionTests.intent(
            parameters: """
                {"name": "mirror", "type": "boolean", "default": true},
                {"name": "calendar", "type": "custom", "parent": {"name": "mirror", "hasExactly": false}}
                """)
        #expect(try Self.resolve(#"{"calendar": "work"}"#, intent).effective.canonical == #"{"mirror":true}"#)
        #expect(
            try Self.resolve(#"{"calendar": "work", "mirror": false}"#, intent).effective.canonical
                == #"{"calendar":"work","mirror":false}"#)
    }

    @Test("D: a switch without a default is off: a parameter that is shown if it is off is shown while it is unset")
    func switchIsOff() throws {
        let intent = try IntentDefinitionTests.intent(
            parameters: """
                {"name": "mirror", "type": "boolean"},
                {"name": "calendar", "type": "custom", "parent": {"name": "mirror", "hasExactly": false}}
                """)
        let off = #"{"calendar":"work","mirror":false}"#
        #expect(try Self.resolve(#"{"calendar": "work"}"#, intent).effective.canonical == off)
        #expect(try Self.resolve(off, intent).effective.canonical == off)
        let on = try Self.resolve(#"{"calendar": "work", "mirror": true}"#, intent).effective
        #expect(on.canonical == #"{"mirror":true}"#)
    }

    @Test("D: an empty text or list is none, since forms cannot tell them apart, unless there is a default")
    func empty() throws {
        let intent = try IntentDefinitionTests.intent(
            parameters: """
                {"name": "note", "type": "string"}, {"name": "cards", "type": "custom", "several": true},
                {"name": "none", "type": "string", "several": true, "default": []},
                {"name": "shops", "type": "string", "several": true, "default": ["soup"]},
                {"name": "title", "type": "string", "default": "Purchases"}
                """)
        let unset = try Self.resolve("{}", intent).effective
        #expect(unset.canonical == #"{"shops":["soup"],"title":"Purchases"}"#)
        #expect(try Self.resolve(#"{"note": "", "cards": [], "none": []}"#, intent).effective == unset)
        let emptied = try Self.resolve(#"{"shops": [], "title": ""}"#, intent).effective
        #expect(emptied.canonical == #"{"shops":[],"title":""}"#)
    }

    @Test(
        "D: a parameter may be shown only if its parent has any value: chosen or by default, and not empty",
        arguments: [
            (#""type": "custom""#, "{}", false), (#""type": "custom""#, #"{"p": "acme", "c": "x"}"#, true),
            (#""type": "custom""#, #"{"p": null, "c": "x"}"#, false),
            (#""type": "custom", "default": "acme""#, #"{"c": "x"}"#, true),
            (#""type": "custom", "several": true"#, #"{"p": [], "c": "x"}"#, false),
            (#""type": "custom", "several": true, "default": ["acme"]"#, #"{"p": [], "c": "x"}"#, false),
            (#""type": "string""#, #"{"p": "", "c": "x"}"#, false),
            (#""type": "integer", "maximum": 5"#, #"{"p": 9, "c": "x"}"#, false),
            (#""type": "boolean""#, #"{"c": "x"}"#, true),
            (#""type": "custom", "parent": {"name": "q", "hasAnyValue": true}"#, #"{"p": "acme", "c": "x"}"#, false),
        ])
    func anyValue(parent: String, configuration: String, isShown: Bool) throws {
        let intent = try IntentDefinitionTests.intent(
            parameters: """
                {"name": "p", \(parent)}, {"name": "q", "type": "string"},
                {"name": "c", "type": "string", "parent": {"name": "p", "hasAnyValue": true}}
                """)
        let effective = try Self.resolve(configuration, intent).effective.value
        #expect((effective["c"] != nil) == isShown && intent.parameter("c")?.parent == .init(name: "p", value: nil))
        let kind = KindDefinition(name: "K", providerURL: "https://p.example", placeholder: 1, intent: intent)
        #expect(try KindDefinition(json: kind.json()) == kind)
    }

    @Test("A change is checked without the values that the widget has already and that no longer fit")
    func misfits() throws {
        let intent = try IntentDefinitionTests.intent(
            parameters: #"{"name": "limit", "type": "integer", "maximum": 5}, {"name": "hidden", "type": "boolean"}"#)
        let kind = KindDefinition(name: "K", providerURL: "https://p.example", placeholder: 1, intent: intent)
        let stored = try WidgetConfiguration(["limit": 9, "gone": 1])
        func pointers(_ change: JSONValue) throws -> [String] {
            kind.problems(with: try WidgetConfiguration(change), replacing: stored, family: .systemSmall).map(\.pointer)
        }
        #expect(try pointers(["limit": 9, "gone": 1, "hidden": true]) == [])
        #expect(try pointers(["limit": 8, "gone": 1]) == ["/configuration/limit"])
        #expect(try pointers(["limit": 9, "new": 1, "hidden": 7]) == ["/configuration/hidden", "/configuration/new"])
    }

    @Test("Stored definitions with values that are not allowed any more stay readable")
    func stored() throws {
        var intent = try IntentDefinitionTests.intent(
            parameters: #"{"name": "volume", "type": "decimal", "step": 0.25}, {"name": "note", "type": "string"}"#)
        intent.parameters[0].defaultValue = .decimal(0.3)
        intent.parameters[1].parent = .init(name: "volume", value: .decimal(0.3))
        let kind = KindDefinition(
            name: "K", providerURL: "https://p.example", placeholder: 1, widgetURL: "data:x", intent: intent)
        #expect(try KindDefinition(json: kind.json()) == kind)
        #expect(KindDefinition.validate(kind.json()).errors.count == 3)
        #expect(try Self.resolve(#"{"note": "x"}"#, intent).effective == .empty)
    }

    @Test("D: an array may have a fixed size per family: three items fit a small widget, six a medium one")
    func sizes() throws {
        let intent = try IntentDefinitionTests.intent(
            parameters: """
                {"name": "items", "type": "string", "size": {"systemSmall": 3, "systemMedium": 6},
                 "default": ["1", "2", "3", "4", "5", "6"]}
                """)
        #expect(try Self.resolve("{}", intent).effective.canonical == #"{"items":["1","2","3"]}"#)
        #expect(
            try Self.resolve("{}", intent, family: .systemMedium).effective.canonical
                == #"{"items":["1","2","3","4","5","6"]}"#)
        #expect(try Self.resolve(#"{"items": ["1", "2", "3", "4"]}"#, intent).problems.count == 1)
    }

    @Test("Configurations have the same identity exactly if they show the same content", arguments: 0..<300)
    func identity(seed: Int) throws {
        var random = SeededGenerator(seed: UInt64(seed))
        let intent = try IntentDefinitionTests.intent(
            parameters: """
                {"name": "mirror", "type": "boolean", "default": true},
                {"name": "calendar", "type": "custom", "default": "home",
                 "parent": {"name": "mirror", "hasExactly": false}},
                {"name": "count", "type": "integer", "default": 1}
                """)
        /// A configuration and its effective values.
        func any() -> (text: String, shows: String) {
            var members: [String] = []
            var (mirror, calendar, count) = (true, "home", 1)
            if Bool.random(using: &random) {
                mirror = Bool.random(using: &random)
                members.append("\"mirror\": \(mirror)")
            }
            if Bool.random(using: &random) {
                calendar = ["home", "work"].randomElement(using: &random) ?? ""
                members.append(
                    Bool.random(using: &random)
                        ? "\"calendar\": \"\(calendar)\""
                        : "\"calendar\": {\"identifier\": \"\(calendar)\", \"display\": \"D\(Int.random(in: 0...9, using: &random))\"}"
                )
            }
            if Bool.random(using: &random) {
                count = Int.random(in: 0...2, using: &random)
                members.append("\"count\": \(count)" + (Bool.random(using: &random) ? ".0" : ""))
            }
            return (
                "{\(members.shuffled(using: &random).joined(separator: ","))}",
                "\(mirror) \(mirror ? "" : calendar) \(count)"
            )
        }
        let (first, second) = (any(), any())
        let kind = KindDefinition(name: "K", providerURL: "https://bank.example", placeholder: [:], intent: intent)
        func id(_ text: String) throws -> TimelineID {
            kind.identity(
                of: WidgetPlacement(
                    app: "a", widget: "w", user: "u", device: "d", kind: "K", family: .systemSmall,
                    configuration: try WidgetConfiguration(json: Array(text.utf8)),
                    environment: WidgetEnvironment(storedLocale: "en", timeZone: "UTC"))
            ).id
        }
        #expect(try (id(first.text) == id(second.text)) == (first.shows == second.shows), "\(first) \(second)")
    }
}
