// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import TestSupport
import Testing
import WidgetModel

@testable import FreshetService

/// DESIGN.md, D: intent definitions in Xcode's format.
@Suite("Import of Xcode's intent definitions", .timeLimit(.patience))
struct XcodeIntentsTests {
    private static func read() throws -> XcodeIntents {
        try XcodeIntents(Array(XcodeFixture.intents.utf8), strings: ["de": Array(XcodeFixture.german.utf8)])
    }

    private static func intent() throws -> IntentDefinition {
        let intents = try read().intents
        #expect(intents.map(\.name) == ["ViewRecentPurchases"])
        return try #require(intents.first).definition
    }

    @Test("Flags, category and texts of the intent")
    func intent() throws {
        let intent = try Self.intent()
        #expect(intent.title == "Recent Purchases" && intent.description == "Purchases of a card")
        #expect(intent.category == .view && intent.isEligibleForWidgets && !intent.isEligibleForSuggestions)
        #expect(intent.supportedCombinations == [["card"], ["card", "category"]])
    }

    @Test("Parameters are in the order of the form, with their types and controls")
    func parameters() throws {
        let intent = try Self.intent()
        #expect(
            intent.parameters.map(\.name) == [
                "card", "category", "mirrorCalendarApp", "calendars", "shop", "note", "count", "alpha", "symbols",
                "payee", "place", "since", "page",
            ])
        let types: [String: IntentParameter.ValueType] = [
            "card": .custom(typeName: "Card"), "mirrorCalendarApp": .boolean,
            "calendars": .custom(typeName: "Calendar"), "shop": .string(.words), "note": .string(.allCharacters),
            "count": .integer(.init(minimum: 1, maximum: 10), .stepper),
            "alpha": .decimal(.init(minimum: 0, maximum: 0.5), .slider), "payee": .person, "place": .location,
            "since": .date, "page": .url,
            "category": .enumeration([
                .init(name: "all", displayName: "All"), .init(name: "groceries", displayName: "Groceries"),
            ]),
        ]
        for (name, type) in types { #expect(intent.parameter(name)?.type == type, "\(name)") }
    }

    @Test("Defaults, options and numbers of values")
    func values() throws {
        let intent = try Self.intent()
        #expect(intent.parameter("category")?.defaultValue == "all")
        #expect(intent.parameter("mirrorCalendarApp")?.defaultValue == .bool(true))
        #expect(intent.parameter("count")?.defaultValue == .number(JSONNumber(1)))
        #expect(intent.parameter("card")?.hasDynamicOptions == true)
        #expect(intent.parameter("card")?.hasDynamicDefault == true)
        #expect(intent.parameter("symbols")?.searchPrompt == "Search" && intent.parameter("card")?.searchPrompt == nil)
        #expect(intent.parameter("calendars")?.count == .any)
        #expect(intent.parameter("symbols")?.count == .fixed([.systemSmall: 3, .systemMedium: 6]))
    }

    @Test("A parent requires an exact value: true, false or a case, or any value")
    func parents() throws {
        let intent = try Self.intent()
        #expect(intent.parameter("calendars")?.parent == .init(name: "mirrorCalendarApp", value: .bool(false)))
        #expect(intent.parameter("shop")?.parent == .init(name: "category", value: "groceries"))
        #expect(intent.parameter("note")?.parent == .init(name: "card", value: nil))
    }

    @Test("Translations come from strings files, also for cases")
    func translations() throws {
        let intent = try Self.intent()
        #expect(intent.text("Recent Purchases", in: "de-AT") == "Letzte Einkäufe")
        #expect(intent.text("Card", in: "de") == "Karte" && intent.text("All", in: "de") == "Alle")
        #expect(intent.text("Note", in: "de") == "Note")
    }

    @Test("Parts without an equivalent are listed with their paths")
    func notices() throws {
        #expect(
            try Self.read().notices == [
                "ViewRecentPurchases.place: locations of type City have no equivalent",
                "ViewRecentPurchases.receipt: type File has no equivalent",
                "ViewRecentPurchases: the combination card,receipt is left out: "
                    + "expected a parameter, found \"receipt\"",
                "SendMessage: a system intent has no parameters of its own",
            ])
    }

    @Test("The printed part of a manifest defines the same intent")
    func manifest() throws {
        let yaml = try Self.read().manifest(
            app: "com.example.bank", provider: "http://one.example.com", placeholder: ["title": "-"]
        ).yaml()
        let manifest = try Manifest.read(text: yaml, file: "kinds.yaml", environment: [:])
        #expect(manifest.first?.definition.kinds.first?.intent == (try Self.intent()))
    }

    @Test("Without an app, a provider and a placeholder, the kinds are a part of a manifest")
    func part() throws {
        let part = try Self.read().manifest()
        #expect(part["app"] == nil && part["provider"] == nil && part["kinds"]?.arrayValue?[0]["placeholder"] == nil)
        #expect(throws: CommandFailure.self) { try Self.read().manifest(app: "not an app") }
    }

    @Test(
        "A file that is not an intent definition is refused",
        arguments: ["", "{}", "<plist version=\"1.0\"><dict/></plist>", "INIntents = "])
    func unreadable(text: String) {
        #expect(throws: CommandFailure.self) { try XcodeIntents(Array(text.utf8)) }
    }

    @Test("A binary property list is read, but not one whose references stand for too many values")
    func binary() throws {
        let text = "a text that the file has once"
        let small = try PropertyListSerialization.data(
            fromPropertyList: ["INIntents": [["a": text], ["a": text]]], format: .binary, options: 0)
        #expect(PropertyListEntry(propertyList: Array(small))?.entries("INIntents").count == 2)
        // Each of 40 arrays has the next one twice; the last one is empty.
        let levels: UInt8 = 40
        var data = Array("bplist00".utf8)
        for level in 1..<levels { data += [0xA2, level, level] }
        data += [0xA0, 0, 0]
        let table = UInt8(data.count)
        data += (0..<levels).map { 8 + 3 * $0 }
        data += [0, 0, 0, 0, 0, 0, 1, 1] + [0, 0, 0, 0, 0, 0, 0, levels] + Array(repeating: 0, count: 15) + [table]
        #expect(PropertyListEntry(propertyList: data) == nil)
    }
}
