// SPDX-License-Identifier: Apache-2.0

import JSON
import Testing
import WidgetModel

/// DESIGN.md, D: the form that edits a configuration.
@Suite("Configuration forms")
struct ConfigurationFormTests {
    private static func kind(_ intent: IntentDefinition) -> KindDefinition {
        KindDefinition(
            name: "Purchases", displayName: "Recent Purchases", providerURL: "https://bank.example",
            placeholder: ["a": 1], accentColor: "teal", backgroundColor: "#fff", intent: intent)
    }

    private static func form(
        _ intent: String = IntentDefinitionTests.everyType, _ configuration: String = "{}",
        family: WidgetFamily = .systemSmall, locale: String = "en"
    ) throws -> ConfigurationForm {
        let configuration = try WidgetConfiguration(json: Array(configuration.utf8))
        return try #require(
            Self.kind(try IntentDefinitionTests.intent(intent)).form(
                for: configuration, family: family, locale: locale))
    }

    @Test("D: parameters are an ordered list, one row each, with a label")
    func rows() throws {
        let form = try Self.form()
        let intent = try IntentDefinitionTests.intent(IntentDefinitionTests.everyType)
        #expect(form.rows.map(\.parameter.name) == intent.parameters.map(\.name))
        #expect(form.rows.prefix(2).map(\.label) == ["Card", "Category"])
        #expect(form.displayName == "Recent Purchases" && form.accentColor == "teal" && form.backgroundColor == "#fff")
        #expect(form.title == "Recent Purchases" && form.description == "Purchases of a card")
        #expect(try Self.form(locale: "de-AT").rows.prefix(3).map(\.label) == ["Karte", "Kategorie", "Note"])
    }

    @Test("D: equal texts with identifiers have their own translations; without one in the language, the text is shown")
    func identifiers() throws {
        let intent = """
            {"title": "T", "parameters": [
              {"name": "a", "displayName": "All", "type": "string"},
              {"name": "b", "displayName": "All", "displayNameID": "all2", "type": "enumeration",
               "cases": [{"name": "c", "displayName": "All", "displayNameID": "all3"}]},
              {"name": "d", "type": "custom", "search": {"prompt": "All", "promptID": "all4"}}],
             "localizations": {"de": {"All": "Alle", "all2": "Alles", "all4": "Suche"}}}
            """
        let rows = try Self.form(intent, locale: "de").rows
        #expect(rows.map(\.label) == ["Alle", "Alles", "d"])
        #expect(rows[1].options?.sections[0].items[0].display == "All" && rows[2].searchPrompt == "Suche")
        #expect(try Self.form(intent, locale: "fr").rows.prefix(2).map(\.label) == ["All", "All"])
    }

    @Test("D: a row says that a text may have several lines, and which components a date has")
    func forms() throws {
        let rows = try Self.form(
            """
            {"title": "T", "parameters": [{"name": "note", "type": "string", "multiline": true},
              {"name": "at", "type": "date", "components": "time"}]}
            """
        ).json(optionsPath: { $0 })["rows"]?.arrayValue
        #expect(rows?.map { $0["control"] } == ["textField", "datePicker"])
        #expect(rows?[0]["multiline"] == true && rows?[1]["components"] == "time")
    }

    @Test("D: each type has its control")
    func controls() throws {
        let controls = try Self.form().rows.map { "\($0.parameter.name) \($0.control.name)" }
        #expect(
            controls == [
                "card list", "category list", "note textField", "mirrorCalendarApp switch", "calendars list",
                "count stepper", "volume slider", "person contactPicker", "place locationPicker", "day datePicker",
                "link urlField", "items textField", "symbol list",
            ])
    }

    @Test("D: an array has a fixed size per family: 3 items small, 6 medium")
    func limits() throws {
        func limit(_ name: String, _ family: WidgetFamily) throws -> Int? {
            try #require(try Self.form(family: family).rows.first { $0.parameter.name == name }).limit
        }
        #expect(try limit("items", .systemSmall) == 3 && limit("items", .systemMedium) == 6)
        #expect(try limit("calendars", .systemSmall) == nil && limit("card", .systemLarge) == 1)
    }

    @Test("D: a parameter with a parent is shown only for one value: Calendar if Mirror Calendar App is false")
    func visibility() throws {
        func isShown(_ configuration: String) throws -> Bool? {
            try Self.form(IntentDefinitionTests.everyType, configuration).rows.first {
                $0.parameter.name == "calendars"
            }?.isShown
        }
        #expect(try isShown("{}") == false, "the default is true")
        #expect(try isShown(#"{"mirrorCalendarApp": true}"#) == false)
        #expect(try isShown(#"{"mirrorCalendarApp": false}"#) == true)
        let row = try #require(try Self.form().rows.first { $0.parameter.name == "calendars" })
        #expect(row.parentValue(in: try Self.form().rows) == .bool(false))
    }

    @Test("D: the form shows a switch without a value as off, and the row that depends on it")
    func switchIsOff() throws {
        let intent = """
            {"title": "T", "parameters": [
              {"name": "mirror", "type": "boolean"}, {"name": "card", "type": "custom"},
              {"name": "calendar", "type": "string", "parent": {"name": "mirror", "hasExactly": false}},
              {"name": "limit", "type": "integer", "parent": {"name": "card", "hasAnyValue": true}}]}
            """
        let rows = try Self.form(intent).rows
        #expect(rows.map(\.isShown) == [true, true, true, false] && rows[0].value == false as JSONValue)
        #expect(rows[3].parentValue(in: rows) == nil)
        #expect(try Self.form(intent, #"{"card": "acme"}"#).rows[3].isShown)
        let json = try Self.form(intent).json { $0 }["rows"]?.arrayValue?.last
        #expect(json?["parent"] == ["name": "card", "hasAnyValue": true] && json?["shown"] == false)
    }

    @Test("D: rows have the configured values with display strings, or else the defaults, or none")
    func values() throws {
        let form = try Self.form(
            IntentDefinitionTests.everyType,
            #"{"card": {"identifier": "acme", "display": "ACME"}, "calendars": ["home"], "count": 3, "nothing": 1}"#)
        let values = Dictionary(uniqueKeysWithValues: form.rows.map { ($0.parameter.name, $0.value) })
        #expect(values["card"] == ["identifier": "acme", "display": "ACME"] as JSONValue)
        #expect(values["category"] == "all" as JSONValue && values["mirrorCalendarApp"] == true as JSONValue)
        #expect(values["calendars"] == ["home"] as JSONValue, "a hidden value is kept")
        #expect(values["note"] == .some(nil))
        // An invalid value is reported, and the default replaces it.
        #expect(values["count"] == 4 as JSONValue)
        #expect(form.problems.map(\.pointer) == ["/count", "/nothing"])
    }

    @Test(
        "D: an enumeration's options are those of its definition, in the form's language, and the list filters by search"
    )
    func options() throws {
        let intent = """
            {"title": "T", "localizations": {"de": {"Groceries": "Lebensmittel", "Card": "Karte", "Find": "Suchen"}},
             "parameters": [
               {"name": "category", "type": "enumeration", "cases": [{"name": "all", "displayName": "All"},
                 {"name": "groceries", "displayName": "Groceries"}]},
               {"name": "card", "displayName": "Card", "type": "custom", "search": {"prompt": "Find"}}]}
            """
        let rows = try Self.form(intent, locale: "de").rows
        let options = try #require(rows[0].options)
        #expect(options.sections.flatMap(\.items).map(\.display) == ["All", "Lebensmittel"])
        #expect(options.filtered(by: "LEBENS").sections.flatMap(\.items).map(\.value) == ["groceries"])
        #expect(options.filtered(by: "x").sections.isEmpty)
        #expect(rows[1].options == nil && rows[1].searchPrompt == "Suchen")
    }

    @Test("The form's JSON has the path of options that the provider supplies")
    func json() throws {
        let rows = try Self.form().json { "/options/\($0)" }["rows"]?.arrayValue ?? []
        #expect(rows.count == 13)
        #expect(rows[0]["optionsPath"] == "/options/card" && rows[0]["options"] == nil)
        #expect(rows[1]["optionsPath"] == nil)
        #expect(
            rows[1]["options"]?["sections"]?.arrayValue?.first?["options"]?.arrayValue?.last
                == ["value": "groceries", "display": "Groceries"])
        #expect(rows[4]["parent"] == ["name": "mirrorCalendarApp", "hasExactly": false] && rows[4]["shown"] == false)
        #expect(rows[5]["minimum"] == 0 && rows[5]["maximum"] == 10 && rows[5]["step"] == 2)
        #expect(rows[11]["several"] == true && rows[11]["limit"] == 3)
        #expect(rows[12]["search"] == ["prompt": "Type a symbol"])
    }

    @Test("A kind without an intent has no form")
    func none() {
        let kind = KindDefinition(name: "K", providerURL: "https://bank.example", placeholder: 1)
        #expect(kind.form(for: .empty, family: .systemSmall, locale: "en") == nil)
    }
}
