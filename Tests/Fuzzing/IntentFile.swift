// SPDX-License-Identifier: Apache-2.0

/// An intent definition file with its strings, in the form that Xcode writes, with parts that Xcode would not allow.
package struct IntentFile: Sendable {
    package private(set) var definition: [UInt8] = []
    /// By locale.
    package private(set) var strings: [String: [UInt8]] = [:]
    /// Names of the parameters of all custom intents, with the names of the intents.
    package private(set) var parameters: [(intent: String, name: String)] = []

    package init(seed: UInt64) {
        var random = InputGenerator(seed: seed)
        self.init(&random)
    }

    init(_ random: inout InputGenerator) {
        let enumerations = (0..<random.below(3)).map { _ in Self.enumeration(&random) }
        var intents: [PropertyListTree] = []
        for _ in 0..<1 + random.below(3) {
            let name = random.any(["Show", "View", "Order", "Card", "Show", "a/b~c", "1e5", random.awkwardText()])
            let names = (0..<random.below(random.chance(1, of: 30) ? 70 : 7)).map { _ in random.parameterName() }
            intents.append(Self.intent(name, names, &random))
            parameters += names.map { (name, $0) }
        }
        let root: PropertyListTree = .dictionary([
            "INEnums": .array(enumerations), "INIntents": .array(intents),
            "INIntentDefinitionModelVersion": .text("1.2"),
        ])
        definition = root.document
        for locale in ["de", "zh-Hans"] where random.chance(1, of: 2) { strings[locale] = Self.table(&random) }
    }

    private static func table(_ random: inout InputGenerator) -> [UInt8] {
        if random.chance(1, of: 10) { return [] }
        var lines = ["/* Strings */"]
        for id in InputGenerator.ids where random.chance(2, of: 3) {
            let value = random.chance(1, of: 12) ? "(1, 2)" : "\"\(random.any(["Alle", "Alles", "Karte", "\\n", ""]))\""
            lines.append("\"\(id)\" = \(value);")
        }
        return Array(lines.joined(separator: "\n").utf8)
    }

    private static func enumeration(_ random: inout InputGenerator) -> PropertyListTree {
        let cases = (0..<random.below(5)).map { index -> PropertyListTree in
            var value = random.texts("INEnumValueDisplayName")
            if index > 0 { value["INEnumValueIndex"] = .integer(index) }
            value["INEnumValueName"] = .text(index == 0 ? "unknown" : random.any(InputGenerator.cases))
            return .dictionary(value)
        }
        return .dictionary([
            "INEnumName": .text(random.any(InputGenerator.enumerations)), "INEnumValues": .array(cases),
        ])
    }

    private static func intent(_ name: String, _ names: [String], _ random: inout InputGenerator) -> PropertyListTree {
        var intent = random.texts("INIntentTitle").merging(random.texts("INIntentDescription")) { $1 }
        intent["INIntentName"] = .text(name)
        intent["INIntentType"] = .text("Custom")
        intent["INIntentCategory"] = .text(random.any(["information", "generic", "download", "order", ""]))
        intent["INIntentVerb"] = .text(random.any(["View", "Open", "Do", "Download", "Order"]))
        intent["INIntentEligibleForWidgets"] = random.flag()
        intent["INIntentIneligibleForSuggestions"] = random.flag()
        intent["INIntentParameters"] = .array(names.map { parameter($0, among: names, &random) })
        var combinations: [String: PropertyListTree] = [:]
        for _ in 0..<random.below(4) {
            let members = (0..<random.below(3)).map { _ in random.any(names + ["dropped"]) }
            combinations[members.joined(separator: ",")] = .dictionary([:])
        }
        intent["INIntentParameterCombinations"] = .dictionary(combinations)
        return .dictionary(intent)
    }

    private static func parameter(
        _ name: String, among names: [String], _ random: inout InputGenerator
    ) -> PropertyListTree {
        let key = "INIntentParameter"
        var parameter = random.texts("\(key)DisplayName")
        parameter["\(key)Name"] = .text(name)
        parameter["\(key)DisplayPriority"] = random.number()
        parameter["\(key)Type"] = .text(
            random.any([
                "String", "Boolean", "Integer", "Decimal", "Person", "Placemark", "DateComponents", "URL", "Object",
                "File", "Integer", "Decimal",
            ]))
        if random.chance(1, of: 4) { parameter["\(key)EnumType"] = .text(random.any(InputGenerator.enumerations)) }
        if random.chance(1, of: 2) {
            parameter["\(key)ObjectType"] = .text(random.any(["Card", "", random.awkwardText()]))
        }
        for flag in ["SupportsMultipleValues", "FixedSizeArray", "SupportsDynamicEnumeration", "SupportsSearch"]
        where random.chance(1, of: 3) {
            parameter[key + flag] = random.flag()
        }
        if random.chance(1, of: 3) {
            parameter["\(key)ArraySizes"] = .array(
                ["Small", "Medium", "AccessoryInline", "Huge"].map { sizeClass in
                    .dictionary([
                        "\(key)ArraySizeSizeClass": .text(sizeClass), "\(key)ArraySizeSize": random.number(),
                    ])
                })
        }
        if random.chance(1, of: 3) {
            var dialog = random.texts("\(key)PromptDialogFormatString")
            dialog["\(key)PromptDialogType"] = .text(random.any(["Configuration", "Primary"]))
            parameter["\(key)PromptDialogs"] = .array([.dictionary(dialog)])
        }
        parameter["\(key)Metadata"] = metadata(&random)
        if random.chance(1, of: 3) { parameter["\(key)Relationship"] = relationship(among: names, &random) }
        return .dictionary(parameter)
    }

    private static func metadata(_ random: inout InputGenerator) -> PropertyListTree {
        let key = "INIntentParameterMetadata"
        var metadata: [String: PropertyListTree] = [:]
        func sometimes(_ member: String, _ value: PropertyListTree) {
            if random.chance(1, of: 3) { metadata[key + member] = value }
        }
        sometimes("DefaultValue", random.value())
        sometimes("DefaultValueID", .text(random.any(InputGenerator.ids)))
        sometimes("MinimumValue", random.number())
        sometimes("MaximumValue", random.number())
        sometimes("SupportsNegativeNumbers", random.flag())
        sometimes("Type", .text(random.any(["Field", "Stepper", "Slider", "Date", "DateTime", "Time", "City", "?"])))
        sometimes("Capitalization", .text(random.any(["Words", "Sentences", "All Characters", "?"])))
        sometimes("Multiline", random.flag())
        return .dictionary(metadata)
    }

    private static func relationship(among names: [String], _ random: inout InputGenerator) -> PropertyListTree {
        let key = "INIntentParameterRelationship"
        var relationship: [String: PropertyListTree] = [:]
        relationship["\(key)PredicateName"] = .text(
            random.any(["HasAnyValue", "BooleanHasExactValue", "EnumHasExactValue", "ObjectIdentifierValueContains"]))
        if random.chance(5, of: 6) { relationship["\(key)ParentName"] = .text(random.any(names + ["dropped"])) }
        if random.chance(3, of: 4) {
            relationship["\(key)PredicateValue"] =
                random.chance(1, of: 2) ? random.flag() : .text(random.any(InputGenerator.cases))
        }
        return .dictionary(relationship)
    }
}

extension InputGenerator {
    fileprivate static let ids = ["iD0001", "iD0002", "iD0003", "iD0004"]
    fileprivate static let enumerations = ["Category", "Size", "Elsewhere"]
    fileprivate static let cases = ["all", "groceries", "unknown", "all", "", "é"]
    /// Texts that YAML, JSON or a database may take for something else.
    private static let awkwardTexts = [
        "", " ", "yes", "null", "~", "1e5", "0x1F", "1_000", "12:30", "2026-06-22", "- a", "a: b", "#a", "&a", "*a",
        "!a", "%a", "@a", "`a", "\"", "'", "\\", "\n", "a\nb\n", "\t", "\u{0}", "\u{1}", "\u{7F}", "\u{85}",
        "\u{2028}", "\u{FEFF}", "\u{202E}", "e\u{301}", "😀", "<&>", "---", "...", "=", "<<", "true", "-0", "1.", ".5",
        "{", "[a]",
    ]

    fileprivate mutating func awkwardText() -> String {
        chance(1, of: 20) ? String(repeating: "x", count: below(5_000)) : any(Self.awkwardTexts)
    }

    fileprivate mutating func parameterName() -> String {
        chance(1, of: 12)
            ? awkwardText() : any(["card", "category", "count", "alpha", "isOn", "note", "place", "since"])
    }

    /// A display text with the identifier of its translations, under a key.
    fileprivate mutating func texts(_ key: String) -> [String: PropertyListTree] {
        var texts: [String: PropertyListTree] = [:]
        if chance(7, of: 8) { texts[key] = .text(chance(1, of: 6) ? awkwardText() : any(["All", "Card", "Category"])) }
        if chance(3, of: 4) { texts["\(key)ID"] = .text(any(Self.ids)) }
        return texts
    }

    fileprivate mutating func flag() -> PropertyListTree {
        any([.flag(true), .flag(false), .text("YES"), .text("NO"), .integer(1), .integer(0), .text("?")])
    }

    fileprivate mutating func number() -> PropertyListTree {
        any([
            .integer(0), .integer(1), .integer(3), .integer(-1), .integer(100), .integer(101), .integer(.max),
            .integer(.min), .real("0.5"), .real("1e30"), .real("-1e308"), .real("1e400"), .real("nan"), .real("-0.0"),
            .text("7"), .text("1e9"), .text("nan"), .text("many"), .flag(true),
        ])
    }

    fileprivate mutating func value() -> PropertyListTree {
        switch below(6) {
        case 0: flag()
        case 1: number()
        case 2: .text(awkwardText())
        case 3: .array((0..<below(3)).map { _ in .text(any(Self.cases)) })
        case 4: .dictionary([:])
        default: .text(any(Self.cases + ["https://example.com", "2026-06-22"]))
        }
    }
}

/// A property list in XML.
private enum PropertyListTree {
    case text(String)
    case integer(Int)
    case real(String)
    case flag(Bool)
    case array([PropertyListTree])
    case dictionary([String: PropertyListTree])

    var document: [UInt8] {
        Array("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<plist version=\"1.0\">\n\(xml)</plist>\n".utf8)
    }

    private var xml: String {
        switch self {
        case .text(let text): "<string>\(Self.escaped(text))</string>\n"
        case .integer(let value): "<integer>\(value)</integer>\n"
        case .real(let value): "<real>\(value)</real>\n"
        case .flag(let value): "<\(value)/>\n"
        case .array(let elements): "<array>\n\(elements.map(\.xml).joined())</array>\n"
        case .dictionary(let members):
            "<dict>\n"
                + members.sorted { $0.key < $1.key }.map { "<key>\(Self.escaped($0.key))</key>\n\($0.value.xml)" }
                .joined() + "</dict>\n"
        }
    }

    private static func escaped(_ text: String) -> String {
        text.unicodeScalars.map { scalar in
            switch scalar {
            case "<": "&lt;"
            case ">": "&gt;"
            case "&": "&amp;"
            case "\n", "\t": String(scalar)
            default: scalar.value < 0x20 ? "&#\(scalar.value);" : String(scalar)
            }
        }.joined()
    }
}
