// SPDX-License-Identifier: Apache-2.0

import Fuzzing
import JSON
import TestSupport
import Testing
import WidgetModel

@testable import FreshetService

/// deploy/providers.md, import from Xcode: what is taken over, replaced or left out.
@Suite("Import of what a manifest has in another form", .timeLimit(.patience))
struct XcodeImportTests {
    private static let enumerations: JSONValue = [
        [
            "Name": "Category",
            "Values": [
                ["Name": "unknown", "DisplayName": "unknown"], ["Name": "all", "DisplayName": "All", "Index": 1],
                ["Name": "groceries", "DisplayName": "Groceries", "Index": 2],
            ],
        ]
    ]

    private static func category(_ metadata: JSONValue = [:]) -> JSONValue {
        ["Name": "category", "Type": "Integer", "EnumType": "Category", "Metadata": metadata]
    }

    /// The only intent of a file, and the notices.
    private static func read(
        _ parameters: JSONValue, intent: JSONObject = [:]
    ) throws -> (intent: IntentDefinition, notices: [String]) {
        let file = try XcodeImport.read(parameters, intent: intent, enumerations: enumerations)
        return (try #require(file.intents.first).definition, file.notices)
    }

    @Test(
        "D: a number that is out of range is left out and listed with the limits",
        arguments: ["1e30", "101", "2.5", "-1"])
    func sizes(size: String) throws {
        let size = JSONValue.number(try #require(JSONNumber(size)))
        let (intent, notices) = try Self.read([
            [
                "Name": "symbols", "Type": "String", "SupportsMultipleValues": true, "FixedSizeArray": 1,
                "ArraySizes": [["SizeClass": "Small", "Size": size], ["SizeClass": "Medium", "Size": 6]],
            ]
        ])
        #expect(intent.parameter("symbols")?.count == .fixed([.systemMedium: 6]))
        let found = "expected an integer from 1 to 100, found"
        #expect(notices.count == 1 && notices[0].hasPrefix("Show.symbols: size/systemSmall is left out: \(found)"))
    }

    @Test("D: a bound or a default that cannot be kept exactly is left out and listed")
    func bounds() throws {
        let (intent, notices) = try Self.read([
            ["Name": "a", "Type": "Decimal", "Metadata": ["MaximumValue": "1e400", "MinimumValue": .decimal(-1e300)]],
            ["Name": "b", "Type": "Integer", "Metadata": ["MaximumValue": "many", "DefaultValue": .decimal(1e30)]],
            ["Name": "c", "Type": "Integer", "Metadata": ["DefaultValue": .number(JSONNumber(Int.min))]],
        ])
        #expect(intent.parameter("a")?.type == .decimal(.init(minimum: -1e300), .field))
        #expect(intent.parameter("b")?.type == .integer(.init(), .field) && intent.parameter("b")?.defaultValue == nil)
        #expect(
            notices == [
                "Show.a: maximum is left out: no number that can be kept exactly",
                "Show.b: maximum is left out: no number that can be kept exactly",
                "Show.c: default is left out: no value of the parameter",
                "Show.b: default is left out: expected an integer, found 1e+30",
            ])
    }

    @Test(
        "D: bounds of an import never contradict each other: those of the file are both left out, none is invented",
        arguments: [
            ("Decimal", ["Type": "Slider", "MinimumValue": 3], (3, nil), ["control is left out: a slider needs"]),
            ("Decimal", ["Type": "Slider", "MaximumValue": -2], (nil, -2), ["control is left out: a slider needs"]),
            (
                "Decimal", ["Type": "Slider", "MinimumValue": 3, "MaximumValue": 1], (nil, nil),
                ["minimum and maximum are left out", "control is left out: a slider needs"]
            ),
            (
                "Integer", ["MinimumValue": 5, "MaximumValue": 1], (nil, nil),
                ["minimum and maximum are left out: the minimum is greater than the maximum"]
            ),
            (
                "Integer", ["SupportsNegativeNumbers": false, "MaximumValue": -1], (nil, -1),
                ["the minimum of 0 is left out: it is greater than the maximum"]
            ),
            ("Decimal", ["Type": "Slider", "MaximumValue": 10], (0, 10), []),
        ] as [(JSONValue, JSONValue, (Double?, Double?), [String])])
    func contradictions(type: JSONValue, metadata: JSONValue, bounds: (Double?, Double?), expected: [String]) throws {
        let (intent, notices) = try Self.read([["Name": "a", "Type": type, "Metadata": metadata]])
        let range: IntentParameter.NumberRange? =
            switch intent.parameter("a")?.type {
            case .decimal(let range, _), .integer(let range, _): range
            default: nil
            }
        #expect(range == .init(minimum: bounds.0, maximum: bounds.1))
        #expect(notices.count == expected.count)
        for (notice, expected) in zip(notices, expected) { #expect(notice.hasPrefix("Show.a: \(expected)")) }
    }

    @Test("D: Calendar is shown only if Mirror Calendar App is false, which Xcode leaves out as a default and a value")
    func booleans() throws {
        let (intent, notices) = try Self.read([
            ["Name": "mirror", "Type": "Boolean"],
            [
                "Name": "calendar", "Type": "String",
                "Relationship": ["ParentName": "mirror", "PredicateName": "BooleanHasExactValue"],
            ],
        ])
        #expect(intent.parameter("mirror")?.defaultValue == .bool(false) && notices.isEmpty)
        #expect(intent.json()["parameters"]?.arrayValue?[0]["default"] == false)
        let values = intent.resolve(try WidgetConfiguration(["calendar": "home"]), family: .systemSmall).effective
        #expect(values.value == ["mirror": false, "calendar": "home"])
    }

    @Test("D: a single default of a parameter with several values is a list")
    func lists() throws {
        let (intent, notices) = try Self.read([
            ["Name": "a", "Type": "String", "SupportsMultipleValues": true, "Metadata": ["DefaultValue": "x"]],
            ["Name": "b", "Type": "Boolean", "SupportsMultipleValues": true],
        ])
        #expect(intent.parameter("a")?.defaultValue == ["x"] && intent.parameter("b")?.defaultValue == nil)
        #expect(notices.isEmpty)
    }

    @Test("D: a decimal with a stepper and an integer with a slider have a field")
    func controls() throws {
        let (intent, notices) = try Self.read([
            ["Name": "a", "Type": "Decimal", "Metadata": ["Type": "Stepper"]],
            ["Name": "b", "Type": "Integer", "Metadata": ["Type": "Slider", "MaximumValue": 5]],
        ])
        #expect(intent.parameter("a")?.type == .decimal(.init(), .field))
        #expect(intent.parameter("b")?.type == .integer(.init(maximum: 5), .field))
        #expect(
            notices == [
                "Show.a: control is left out: a decimal has a field or a slider",
                "Show.b: control is left out: an integer has a field or a stepper",
            ])
    }

    @Test("D: a default that is empty or no value is left out; the unknown case is no default")
    func defaults() throws {
        let (intent, notices) = try Self.read([
            ["Name": "a", "Type": "String", "Metadata": ["DefaultValue": ""]],
            Self.category(["DefaultValue": "cinema"]),
            ["Name": "c", "Type": "Integer", "EnumType": "Category", "Metadata": ["DefaultValue": "unknown"]],
            ["Name": "d", "Type": "Integer", "Metadata": ["DefaultValue": ["x": 1]]],
        ])
        #expect(intent.parameters.map(\.defaultValue) == [nil, nil, nil, nil])
        #expect(
            notices == [
                "Show.a: default is left out: no value of the parameter",
                "Show.d: default is left out: no value of the parameter",
                "Show.category: default is left out: expected one of all, groceries, found \"cinema\"",
            ])
    }

    @Test("D: a condition without a parent, on a parent that is left out or on the value unknown is left out")
    func conditions() throws {
        func child(_ name: String, _ relationship: JSONValue) -> JSONValue {
            ["Name": .string(name), "Type": "String", "Relationship": relationship]
        }
        let (intent, notices) = try Self.read([
            ["Name": "file", "Type": "File"], Self.category(),
            child("a", ["PredicateName": "EnumHasExactValue", "PredicateValue": "all"]),
            child("b", ["ParentName": "file", "PredicateName": "HasAnyValue"]),
            child("c", ["ParentName": "category", "PredicateName": "EnumHasExactValue", "PredicateValue": "unknown"]),
            child("d", ["ParentName": "category", "PredicateName": "ObjectIdentifierValueContains"]),
            child("e", ["ParentName": "category", "PredicateName": "HasAnyValue"]),
        ])
        #expect(intent.parameters.map(\.name) == ["category", "a", "b", "c", "d", "e"])
        #expect(intent.parameters.map(\.parent) == [nil, nil, nil, nil, nil, .init(name: "category", value: nil)])
        #expect(
            notices == [
                "Show.file: type File has no equivalent",
                "Show.a: the condition EnumHasExactValue is left out: it names no parent",
                "Show.d: the condition ObjectIdentifierValueContains on category has no equivalent",
                "Show.b: parent is left out: expected a parameter, found \"file\"",
                "Show.c: parent is left out: not a value of \"category\"",
            ])
    }

    @Test("D: types of dates and texts of several lines are taken over")
    func forms() throws {
        let (intent, notices) = try Self.read([
            ["Name": "a", "Type": "DateComponents", "Metadata": ["Type": "Date"]],
            ["Name": "b", "Type": "DateComponents", "Metadata": ["Type": "Time"]],
            ["Name": "c", "Type": "DateComponents"],
            ["Name": "d", "Type": "String", "Metadata": ["Multiline": true]],
        ])
        #expect(intent.parameters.map(\.components) == [.date, .time, .dateTime, nil])
        #expect(intent.parameters.map(\.isMultiline) == [false, false, false, true] && notices.isEmpty)
    }

    @Test("D: combinations with a parameter that is left out and categories without an equivalent are listed")
    func combinations() throws {
        let (intent, notices) = try Self.read(
            [["Name": "card", "Type": "String"], ["Name": "file", "Type": "File"]],
            intent: [
                "Verb": "Download", "Category": "download",
                "ParameterCombinations": ["card": [:], "card,file": [:], "": [:]],
            ])
        #expect(intent.supportedCombinations == [["card"]] && intent.category == .generic)
        #expect(
            notices == [
                "Show: the verb \"Download\" of the category \"download\" has no equivalent: the category is generic",
                "Show.file: type File has no equivalent",
                "Show: the combination card,file is left out: expected a parameter, found \"file\"",
            ])
    }

    @Test(
        "D: a verb without an equivalent is listed, also if its category has one",
        arguments: [
            ("Book", "order", "order", "\"Book\" of the category \"order\""), ("View", "information", "view", nil),
            ("Play", nil, "generic", "\"Play\""), (nil, "share", "share", nil), (nil, nil, "generic", nil),
        ] as [(String?, String?, String, String?)])
    func verbs(verb: String?, category: String?, expected: String, words: String?) throws {
        let (intent, notices) = try Self.read(
            [], intent: ["Verb": verb.map { .string($0) } ?? .null, "Category": category.map { .string($0) } ?? .null])
        #expect(intent.category.name == expected)
        let notice = words.map { "Show: the verb \($0) has no equivalent: the category is \(expected)" }
        #expect(notices == (notice.map { [$0] } ?? []))
    }

    @Test(
        "D: numbers may be negative unless the file forbids it, in any form of a Boolean",
        arguments: ["YES", true, 1] as [JSONValue])
    func negative(flag: JSONValue) throws {
        func minimum(_ flag: JSONValue) throws -> Double? {
            let (intent, _) = try Self.read([
                ["Name": "a", "Type": "Decimal", "Metadata": ["SupportsNegativeNumbers": flag]]
            ])
            guard case .decimal(let range, _)? = intent.parameter("a")?.type else { return nil }
            return range.minimum
        }
        #expect(try minimum(flag) == nil && minimum("NO") == 0 && minimum(false) == 0)
    }

    @Test("D: what is imported can be applied, and every parameter of the file is in the manifest or listed")
    func corpus() throws {
        var applied = 0
        for seed in UInt64(0)..<300 {
            let file = IntentFile(seed: seed)
            guard let imported = try? XcodeIntents(file.definition, strings: file.strings) else { continue }
            let kept = imported.intents.flatMap { name, intent in intent.parameters.map { "\(name).\($0.name)" } }
            let known = Set(kept)
            for (intent, name) in file.parameters where !known.contains("\(intent).\(name)") {
                // Readers of property lists drop a byte order mark.
                let place = Text.printable(intent.replacing("\u{FEFF}", with: ""), maximum: 200)
                let isListed = imported.notices.contains { $0.hasPrefix(place) }
                #expect(isListed, "seed \(seed): \(intent).\(name)")
            }
            guard !imported.intents.isEmpty else { continue }
            let yaml = try imported.manifest(app: "app", provider: "https://localhost", placeholder: [:]).yaml()
            let kinds = try Manifest.read(text: yaml, file: "kinds.yaml", environment: [:]).flatMap(\.definition.kinds)
            #expect(kinds.map(\.intent) == imported.intents.map(\.definition), "seed \(seed)")
            applied += 1
        }
        #expect(applied > 150)
    }
}

/// deploy/providers.md, import from Xcode: translations.
@Suite("Import of translations", .timeLimit(.patience))
struct XcodeTranslationTests {
    private static let parameters: JSONValue = [
        ["Name": "cards", "DisplayName": "All", "DisplayNameID": "aLL001", "Type": "String"],
        ["Name": "shops", "DisplayName": "All", "DisplayNameID": "aLL002", "Type": "String"],
    ]

    private static func labels(_ strings: [UInt8], _ parameters: JSONValue = parameters) throws -> [String] {
        let file = try XcodeImport.read(parameters, strings: ["de": strings])
        #expect(file.notices.isEmpty)
        let kind = KindDefinition(
            name: "Show", providerURL: "https://localhost", placeholder: [:], intent: file.intents.first?.definition)
        return kind.form(for: .empty, family: .systemSmall, locale: "de")?.rows.map(\.label) ?? []
    }

    @Test("D: two equal texts with different identifiers have their own translations")
    func equalTexts() throws {
        let table = XcodeImport.strings(["aLL001": "Alle", "aLL002": "Alles"])
        #expect(try Self.labels(table) == ["Alle", "Alles"])
        #expect(try Self.labels(XcodeImport.strings(["aLL001": "Alle", "aLL002": "Alle"])) == ["Alle", "Alle"])
    }

    @Test("D: a missing identifier deletes no translation of an equal text")
    func missing() throws {
        #expect(try Self.labels(XcodeImport.strings(["aLL001": "Alle"])) == ["Alle", "All"])
        #expect(try Self.labels(XcodeImport.strings(["aLL002": "Alles"])) == ["All", "Alles"])
    }

    @Test("D: equal texts with translations into different languages stay apart")
    func languages() throws {
        let file = try XcodeImport.read(
            Self.parameters,
            strings: ["de": XcodeImport.strings(["aLL001": "Alle"]), "fr": XcodeImport.strings(["aLL002": "Tout"])])
        let kind = KindDefinition(
            name: "Show", providerURL: "https://localhost", placeholder: [:], intent: file.intents.first?.definition)
        let labels = ["de", "fr"].map { locale in
            kind.form(for: .empty, family: .systemSmall, locale: locale)?.rows.map(\.label)
        }
        #expect(labels == [["Alle", "All"], ["All", "Tout"]] && file.notices.isEmpty)
    }

    @Test("D: a text without an identifier that equals one with translations is listed")
    func withoutIdentifier() throws {
        let file = try XcodeImport.read(
            [
                ["Name": "cards", "DisplayName": "All", "DisplayNameID": "aLL001", "Type": "String"],
                ["Name": "shops", "DisplayName": "All", "Type": "String"],
            ], strings: ["de": XcodeImport.strings(["aLL001": "Alle"])])
        #expect(
            file.notices == [
                "Show.shops: INIntentParameterDisplayName \"All\" has the translations of an equal text, "
                    + "since it has no identifier"
            ])
    }

    @Test("D: cases and prompts have their own translations, too")
    func casesAndPrompts() throws {
        let dialogs: JSONValue = [["Type": "Configuration", "FormatString": "All", "FormatStringID": "aLL003"]]
        let file = try XcodeImport.read(
            [
                [
                    "Name": "cards", "DisplayName": "All", "DisplayNameID": "aLL001", "Type": "Integer",
                    "EnumType": "Card",
                ],
                ["Name": "shops", "Type": "String", "SupportsSearch": true, "PromptDialogs": dialogs],
            ],
            enumerations: [
                [
                    "Name": "Card",
                    "Values": [["Name": "all", "DisplayName": "All", "DisplayNameID": "aLL002", "Index": 1]],
                ]
            ],
            strings: ["de": XcodeImport.strings(["aLL001": "Alle", "aLL002": "Alles", "aLL003": "Suche"])])
        let kind = KindDefinition(
            name: "Show", providerURL: "https://localhost", placeholder: [:], intent: file.intents.first?.definition)
        let form = try #require(kind.form(for: .empty, family: .systemSmall, locale: "de"))
        #expect(form.rows[0].label == "Alle" && form.rows[0].options?.sections[0].items[0].display == "Alles")
        #expect(form.rows[1].searchPrompt == "Suche")
    }

    @Test("D: a text that cannot be told from an equal one is listed")
    func collision() throws {
        let file = try XcodeImport.read(
            intent: [
                "Title": "Card", "TitleID": "cArd01", "Description": "Card", "DescriptionID": "cArd02",
            ],
            strings: ["de": XcodeImport.strings(["cArd01": "Karte", "cArd02": "Kreditkarte"])])
        #expect(file.intents.first?.definition.text("Card", in: "de") == "Karte")
        #expect(file.notices.count == 1 && file.notices[0].hasPrefix("Show: descriptionID is left out: unknown member"))
    }

    @Test("D: strings without a text, and translations of a default, are listed")
    func notices() throws {
        let table = Array("\"aLL001\" = (1, 2); \"dEf001\" = \"Privat\"; \"aLL002\" = \"Alles\";".utf8)
        let parameter: JSONValue = [
            "Name": "note", "Type": "String", "Metadata": ["DefaultValue": "Home", "DefaultValueID": "dEf001"],
        ]
        let file = try XcodeImport.read([parameter], strings: ["de": table, "hy": []])
        #expect(
            file.notices == [
                "the strings of de: the value of \"aLL001\" is no text", "the strings of hy are empty",
                "Show.note: default is \"Home\" in every language: its translations are left out",
            ])
        #expect(throws: CommandFailure.self) { try XcodeImport.read(strings: ["de": Array("{".utf8)]) }
    }

    @Test("D: a second intent of the same name is listed")
    func twice() throws {
        let intent = """
            <dict><key>INIntentName</key><string>Show</string><key>INIntentType</key><string>Custom</string></dict>
            """
        let text = "<plist><dict><key>INIntents</key><array>\(intent)\(intent)</array></dict></plist>"
        let file = try XcodeIntents(Array(text.utf8))
        #expect(file.intents.map(\.name) == ["Show"])
        #expect(file.notices == ["Show: a second intent of this name is left out"])
    }

    @Test("D: a file of 20,000 intents gives the 1000 kinds that an app may have, and the number of the others")
    func thousands() throws {
        func text(_ names: some Sequence<String>) -> String {
            let intents = names.map { name in
                "<dict><key>INIntentName</key><string>\(name)</string>"
                    + "<key>INIntentType</key><string>Custom</string></dict>"
            }
            return "<plist><dict><key>INIntents</key><array>\(intents.joined())</array></dict></plist>"
        }
        let file = try XcodeIntents(Array(text((1...20_000).lazy.map { "Show\($0)" }).utf8))
        #expect(file.intents.count == 1_000 && file.intents.last?.name == "Show1000")
        #expect(file.notices == ["the last 19000 intents are left out: at most 1000 kinds are allowed"])
        #expect(try file.manifest()["kinds"]?.arrayValue?.count == 1_000)
        let same = try XcodeIntents(Array(text(repeatElement("Show", count: 20_000)).utf8))
        #expect(same.intents.count == 1 && same.notices.count == 19_999)
    }

    @Test("A file without a custom intent makes no manifest")
    func none() throws {
        let file = try XcodeImport.read(intent: ["Type": "System"])
        #expect(file.intents.isEmpty)
        #expect(throws: CommandFailure.self) { try file.manifest() }
    }
}
