import Foundation
package import WidgetModel

/// Intents of an Xcode intent definition file (`.intentdefinition`, a property list).
package struct XcodeIntents: Sendable {
    package struct Intent: Sendable {
        package let name: String
        package let definition: IntentDefinition
    }

    /// A file that is no intent definition.
    package struct Unreadable: Error, CustomStringConvertible {
        package let description: String
    }

    package private(set) var intents: [Intent] = []
    /// Parts of the file without an equivalent, each with its place.
    package private(set) var notices: [String] = []

    private var enumerations: [String: [IntentParameter.Case]] = [:]
    /// Text by locale and identifier.
    private let translations: [String: [String: String]]
    private var localizations: [String: [String: String]] = [:]

    /// - Parameters:
    ///   - data: content of the file.
    ///   - strings: content of its `Intents.strings` files, by locale.
    package init(_ data: [UInt8], strings: [String: [UInt8]] = [:]) throws(Unreadable) {
        var translations: [String: [String: String]] = [:]
        for (locale, data) in strings {
            guard let table = Self.propertyList(data) as? [String: String] else {
                throw Unreadable(description: "the strings of \(locale) are no table of texts")
            }
            translations[locale] = table
        }
        self.translations = translations
        guard let root = Self.propertyList(data) as? [String: Any], root["INIntents"] != nil else {
            throw Unreadable(description: "no intent definition: expected a property list with INIntents")
        }
        let file = Entry(root)
        for enumeration in file.entries("INEnums") {
            // A case without an index stands for an unknown value.
            let cases = enumeration.entries("INEnumValues").filter { $0.number("INEnumValueIndex") != nil }
            enumerations[enumeration.text("INEnumName") ?? ""] = cases.map { value in
                let name = value.text("INEnumValueName") ?? ""
                return IntentParameter.Case(name: name, displayName: display(value, "INEnumValueDisplayName") ?? name)
            }
        }
        for intent in file.entries("INIntents") { add(intent) }
    }

    private static func propertyList(_ data: [UInt8]) -> Any? {
        try? PropertyListSerialization.propertyList(from: Data(data), format: nil)
    }

    private mutating func add(_ entry: Entry) {
        let name = entry.text("INIntentName") ?? ""
        guard entry.text("INIntentType") == "Custom" else {
            return notices.append("\(name): a system intent has no parameters of its own")
        }
        localizations = [:]
        let verb = entry.text("INIntentVerb")?.lowercased() ?? ""
        let category = entry.text("INIntentCategory") ?? ""
        let parameters = entry.entries("INIntentParameters")
            .sorted {
                $0.number("INIntentParameterDisplayPriority") ?? 0 < $1.number("INIntentParameterDisplayPriority") ?? 0
            }
            .compactMap { parameter($0, of: name) }
        let combinations = Set(
            ["INIntentManagedParameterCombinations", "INIntentParameterCombinations"]
                .flatMap { entry.entry($0)?.keys ?? [] })
        let definition = IntentDefinition(
            title: display(entry, "INIntentTitle") ?? name, description: display(entry, "INIntentDescription") ?? "",
            category: .init(name: verb) ?? .init(name: category) ?? .generic,
            isEligibleForWidgets: entry.flag("INIntentEligibleForWidgets"),
            isEligibleForSuggestions: !entry.flag("INIntentIneligibleForSuggestions"), parameters: parameters,
            supportedCombinations: combinations.sorted().compactMap { key in
                key.isEmpty ? nil : key.split(separator: ",").map(String.init)
            },
            localizations: LocalizedTexts(localizations))
        intents.append(Intent(name: name, definition: definition))
    }

    private mutating func parameter(_ entry: Entry, of intent: String) -> IntentParameter? {
        let name = entry.text("INIntentParameterName") ?? ""
        let metadata = entry.entry("INIntentParameterMetadata") ?? Entry([:])
        guard let type = type(entry, metadata) else {
            notices.append("\(intent).\(name): type \(entry.text("INIntentParameterType") ?? "?") has no equivalent")
            return nil
        }
        var parameter = IntentParameter(
            name: name, displayName: display(entry, "INIntentParameterDisplayName") ?? name, type: type)
        parameter.count = count(entry, "\(intent).\(name)")
        parameter.defaultValue = metadata.value("INIntentParameterMetadataDefaultValue")
        parameter.hasDynamicOptions = entry.flag("INIntentParameterSupportsDynamicEnumeration")
        // Code of the app's extension provides the default of such a parameter, if there is one.
        parameter.hasDynamicDefault = parameter.hasDynamicOptions && parameter.defaultValue == nil
        if entry.flag("INIntentParameterSupportsSearch") {
            parameter.searchPrompt = display(entry, "INIntentParameterSearchPrompt") ?? "Search"
        }
        if let relationship = entry.entry("INIntentParameterRelationship") {
            parameter.parent = parent(relationship, of: "\(intent).\(name)")
        }
        return parameter
    }

    private func type(_ entry: Entry, _ metadata: Entry) -> IntentParameter.ValueType? {
        if let enumeration = entry.text("INIntentParameterEnumType") {
            return .enumeration(enumerations[enumeration] ?? [])
        }
        let range = IntentParameter.NumberRange(
            minimum: metadata.number("INIntentParameterMetadataMinimumValue"),
            maximum: metadata.number("INIntentParameterMetadataMaximumValue"))
        let control = metadata.text("INIntentParameterMetadataType").flatMap {
            IntentParameter.NumberControl(name: $0.lowercased())
        }
        let capitalization = metadata.text("INIntentParameterMetadataCapitalization").flatMap { text in
            IntentParameter.Capitalization.allCases.first { $0.name.lowercased() == text.lowercased() }
        }
        switch entry.text("INIntentParameterType") {
        case "String": return .string(capitalization ?? .sentences)
        case "Boolean": return .boolean
        case "Integer", "Long": return .integer(range, control ?? .field)
        case "Decimal", "Double": return .decimal(range, control ?? .field)
        case "Person": return .person
        case "Placemark": return .location
        case "DateComponents": return .date
        case "URL": return .url
        case "Object": return .custom(typeName: entry.text("INIntentParameterObjectType") ?? "Object")
        default: return nil
        }
    }

    private mutating func count(_ entry: Entry, _ place: String) -> IntentParameter.Count {
        guard entry.flag("INIntentParameterSupportsMultipleValues") else { return .one }
        guard entry.flag("INIntentParameterFixedSizeArray") else { return .any }
        var limits: [WidgetFamily: Int] = [:]
        for size in entry.entries("INIntentParameterArraySizes") {
            let sizeClass = size.text("INIntentParameterArraySizeSizeClass") ?? ""
            let family = WidgetFamily.allCases.first {
                $0.name.lowercased() == "system\(sizeClass)".lowercased()
                    || $0.name.lowercased() == sizeClass.lowercased()
            }
            if let family, let limit = size.number("INIntentParameterArraySizeSize") {
                limits[family] = Int(limit)
            } else {
                notices.append("\(place): size class \(sizeClass) has no equivalent")
            }
        }
        return .fixed(limits)
    }

    private mutating func parent(_ relationship: Entry, of place: String) -> IntentParameter.Parent? {
        guard let name = relationship.text("INIntentParameterRelationshipParentName") else { return nil }
        let predicate = relationship.text("INIntentParameterRelationshipPredicateName") ?? ""
        let value = relationship.value("INIntentParameterRelationshipPredicateValue")
        switch predicate {
        // A value of false is left out.
        case "BooleanHasExactValue": return IntentParameter.Parent(name: name, value: value ?? .bool(false))
        case "EnumHasExactValue":
            if let value { return IntentParameter.Parent(name: name, value: value) }
        default: break
        }
        notices.append("\(place): the condition \(predicate) on \(name) has no equivalent")
        return nil
    }

    /// A display text; its translations are noted.
    private mutating func display(_ entry: Entry, _ key: String) -> String? {
        guard let text = entry.text(key) else { return nil }
        guard let id = entry.text("\(key)ID") else { return text }
        for (locale, table) in translations { localizations[locale, default: [:]][text] = table[id] }
        return text
    }
}

/// A dictionary of a property list.
private struct Entry {
    private let members: [String: Any]

    init(_ members: [String: Any]) { self.members = members }

    var keys: [String] { Array(members.keys) }

    func text(_ key: String) -> String? { members[key] as? String }

    func number(_ key: String) -> Double? { (members[key] as? NSNumber)?.doubleValue ?? text(key).flatMap(Double.init) }

    func flag(_ key: String) -> Bool { members[key] as? Bool ?? false }

    func entry(_ key: String) -> Entry? { (members[key] as? [String: Any]).map(Entry.init) }

    func entries(_ key: String) -> [Entry] { (members[key] as? [[String: Any]] ?? []).map(Entry.init) }

    func value(_ key: String) -> JSONValue? {
        switch members[key] {
        case let text as String: .string(text)
        case let flag as Bool: .bool(flag)
        case let number as NSNumber: JSONNumber(number.doubleValue).map { .number($0) }
        default: nil
        }
    }
}
