// SPDX-License-Identifier: Apache-2.0

import JSON
import TestSupport
import Testing

@testable import WidgetModel

/// Requests for options and defaults, and their answers (DESIGN.md, D).
@Suite("Dynamic options and defaults", .timeLimit(.patience))
struct IntentOptionsTests {
    private static let card = IntentParameter(
        name: "card", displayName: "Card", type: .custom(typeName: "Card"), hasDynamicOptions: true,
        hasDynamicDefault: true)
    private static let category = IntentParameter(
        name: "category", displayName: "Category",
        type: .enumeration([.init(name: "all", displayName: "All"), .init(name: "food", displayName: "Food")]),
        defaultValue: "all")
    private static let intent = IntentDefinition(title: "Purchases", parameters: [card, category])

    private func context(_ values: JSONValue = [:]) throws -> ConfigurationContext {
        ConfigurationContext(
            user: "u1", family: .systemSmall,
            environment: try WidgetEnvironment(locale: "en-US", timeZone: "Europe/Berlin"),
            values: try WidgetConfiguration(values))
    }

    private func options(_ text: String, _ parameter: IntentParameter = card) throws(JSONError) -> IntentOptions {
        try IntentOptions(Array(text.utf8), of: parameter)
    }

    @Test("D: dynamic options are flat or in sections, with subtitles and an index")
    func answers() throws {
        let flat = try options(
            #"{"options":[{"identifier":"acme","display":"Acme","subtitle":"4242","icon":1}],"x":[]}"#)
        #expect(
            flat == IntentOptions(sections: [.init(items: [.init(value: "acme", display: "Acme", subtitle: "4242")])]))
        let sections = try options(
            """
            {"sections":[{"title":"Credit","indexTitle":"C","options":[{"identifier":"acme","display":"Acme"}]},
             {"title":"Debit","options":[]}]}
            """)
        #expect(sections.sections.map(\.title) == ["Credit", "Debit"])
        #expect(sections.sections.map(\.indexTitle) == ["C", nil])
        #expect(sections.sections.map(\.items.count) == [1, 0])
        #expect(try options(#"{"options":[]}"#).sections.map(\.items.count) == [0])
    }

    @Test("D: options of other types are values; an enumeration may have more cases than the definition")
    func values() throws {
        let number = IntentParameter(
            name: "days", displayName: "Days", type: .integer(.init(minimum: 1, maximum: 7), .field),
            hasDynamicOptions: true)
        #expect(try options(#"{"options":[{"value":3,"display":"Three"}]}"#, number).sections[0].items[0].value == 3)
        let place = IntentParameter(name: "place", displayName: "Place", type: .location, hasDynamicOptions: true)
        #expect(
            try options(#"{"options":[{"value":{"latitude":1,"longitude":2,"display":"X"},"display":"X"}]}"#, place)
                .sections[0].items[0].value == ["latitude": 1, "longitude": 2])
        var category = Self.category
        category.hasDynamicOptions = true
        #expect(
            try options(#"{"options":[{"identifier":"new","display":"New"}]}"#, category).sections[0].items[0].value
                == "new")
    }

    @Test(
        "An answer that breaks the contract is refused with a pointer",
        arguments: [
            ("[]", ""), ("{}", "/options"), (#"{"options":null}"#, "/options"),
            (#"{"options":[],"sections":[]}"#, ""), (#"{"options":[{"display":"A"}]}"#, "/options/0/identifier"),
            (#"{"options":[{"identifier":"a"}]}"#, "/options/0/display"),
            (#"{"options":[{"identifier":1,"display":"A"}]}"#, "/options/0/identifier"),
            (#"{"options":[{"identifier":"","display":"A"}]}"#, "/options/0/identifier"),
            (#"{"options":[{"identifier":"a","value":"b","display":"A"}]}"#, "/options/0"),
            (#"{"options":[{"identifier":"a","display":""}]}"#, "/options/0/display"),
            (#"{"sections":[{"title":"T"}]}"#, "/sections/0/options"),
            (#"{"sections":[{"options":[{"identifier":"a","display":7}]}]}"#, "/sections/0/options/0/display"),
            (#"{"options":[]"#, "/options"),
        ])
    func broken(text: String, pointer: String) throws {
        let error = #expect(throws: JSONError.self) { try options(text) }
        #expect(error?.pointer == pointer)
    }

    @Test("20,000 options are read, more are refused")
    func many() throws {
        func answer(_ count: Int) -> String {
            #"{"options":["#
                + (0..<count).map { #"{"identifier":"\#($0)","display":"Option \#($0)"}"# }.joined(separator: ",")
                + "]}"
        }
        #expect(try options(answer(IntentOptions.maximumItems)).sections[0].items.count == IntentOptions.maximumItems)
        let error = #expect(throws: JSONError.self) { try options(answer(IntentOptions.maximumItems + 1)) }
        #expect(error?.pointer == "/options")
    }

    @Test("D: a request has the other parameters' values, and a search term if there is one")
    func question() throws {
        let values: JSONValue = ["card": ["identifier": "acme", "display": "Acme"], "category": "food"]
        let question = OptionsQuestion(parameter: "card", context: try context(values)).normalized(for: Self.intent)
        #expect(
            try JSONValue.parse(question.encode(kind: "RecentPurchases")) == [
                "kind": "RecentPurchases", "user": "u1", "family": "systemSmall",
                "environment": ["locale": "en-US", "timeZone": "Europe/Berlin"], "parameter": "card",
                "values": ["category": "food"],
            ])
        let search = OptionsQuestion(parameter: "card", search: "", context: try context())
        #expect(try JSONValue.parse(search.encode(kind: "K"))["search"] == "")
        // A request with an omitted default equals one with the default.
        let left = OptionsQuestion(parameter: "card", context: try context())
        let given = OptionsQuestion(parameter: "card", context: try context(["category": "all"]))
        #expect(left.normalized(for: Self.intent) == given.normalized(for: Self.intent))
    }

    @Test("D: a dynamic default comes from the provider, for the parameters that have one")
    func defaults() throws {
        let intent = Self.intent
        func read(_ text: String) throws(ModelError) -> JSONValue {
            try intent.dynamicDefaults(Array(text.utf8), family: .systemSmall).value
        }
        let card: JSONValue = ["identifier": "acme", "display": "Acme"]
        #expect(try read(#"{"values":{"card":{"identifier":"acme","display":"Acme"}},"more":1}"#) == ["card": card])
        #expect(try read(#"{"values":{"card":null}}"#) == [:])
        for (text, pointer) in [
            ("{}", "/values"), (#"{"values":{"category":"all"}}"#, "/values/category"),
            (#"{"values":{"card":7}}"#, "/values/card"), (#"{"values":{"x/y":7}}"#, "/values/x~1y"),
        ] {
            let error = #expect(throws: ModelError.self) { try read(text) }
            #expect(error?.pointer == pointer)
        }
    }

    @Test("Only parameters with a dynamic default keep a value that a configuration leaves out")
    func completed() throws {
        let intent = Self.intent
        let chosen = try WidgetConfiguration(["card": "acme", "category": "food"])
        #expect(intent.undecided(in: .empty) == ["card"])
        #expect(intent.undecided(in: chosen).isEmpty)
        #expect(intent.completed(.empty, from: chosen).value == ["card": "acme"])
        let soup = try WidgetConfiguration(["card": "soup"])
        #expect(intent.completed(soup, from: chosen) == soup)
        #expect(intent.completed(.empty, from: .empty) == .empty)
        // The person removed the value.
        let none = try WidgetConfiguration(["card": .null])
        #expect(intent.undecided(in: none).isEmpty)
        #expect(intent.completed(none, from: chosen) == none)
    }
}
