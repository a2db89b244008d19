// SPDX-License-Identifier: Apache-2.0

import Foundation
package import JSON
package import WidgetModel

/// Intents of an Xcode intent definition file (`.intentdefinition`, a property list).
package struct XcodeIntents {
    package private(set) var intents: [(name: String, definition: IntentDefinition)] = []
    /// Parts of the file without an equivalent, each with its place.
    package private(set) var notices: [String] = []

    /// Cases by name of the enumeration.
    private var enumerations: [String: [Entry]] = [:]
    /// Texts by locale and identifier.
    private let translations: [String: [String: String]]
    /// Translations of the intent that is being read.
    private var localizations: [String: [String: String]] = [:]

    /// Part of a manifest: the kinds with their intents.
    package var json: JSONValue {
        ["kinds": .array(intents.map { ["name": .string($0.name), "intent": $0.definition.json()] })]
    }

    /// - Throws: a failure for a file that is no intent definition.
    /// - Parameters:
    ///   - data: content of the file.
    ///   - strings: content of its `Intents.strings` files, by locale.
    package init(_ data: [UInt8], strings: [String: [UInt8]] = [:]) throws(CommandFailure) {
        var translations: [String: [String: String]] = [:]
        for (locale, data) in strings {
            guard let table = Self.propertyList(data) as? [String: String] else {
                throw CommandFailure(.failure, "the strings of \(locale) are no table of texts")
            }
            translations[locale] = table
        }
        self.translations = translations
        guard let root = Self.propertyList(data) as? [String: Any], root["INIntents"] != nil else {
            throw CommandFailure(.failure, "no intent definition: expected a property list with INIntents")
        }
        let file = Entry(root)
        for enumeration in file.entries("INEnums") {
            // A case without an index stands for an unknown value.
            enumerations[enumeration.text("INEnumName") ?? ""] = enumeration.entries("INEnumValues")
                .filter { $0.has("INEnumValueIndex") }
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
        let names = parameters.map(\.name)
        let combinations = Set(
            ["INIntentManagedParameterCombinations", "INIntentParameterCombinations"]
                .flatMap { entry.entry($0)?.keys ?? [] })
        let definition = IntentDefinition(
            title: display(entry, "INIntentTitle") ?? name, description: display(entry, "INIntentDescription") ?? "",
            category: .init(name: verb) ?? .init(name: category) ?? .generic,
            isEligibleForWidgets: entry.flag("INIntentEligibleForWidgets"),
            isEligibleForSuggestions: !entry.flag("INIntentIneligibleForSuggestions"), parameters: parameters,
            supportedCombinations: combinations.sorted().map { $0.split(separator: ",").map(String.init) }
                .filter { !$0.isEmpty && $0.allSatisfy(names.contains) },
            localizations: localizations)
        intents.append((name, definition))
        // Xcode allows more than a manifest does.
        let kind = KindDefinition(name: name, providerURL: "https://localhost", placeholder: [:], intent: definition)
        notices += KindDefinition.validate(kind.json()).errors.map { "\(name): \($0)" }
    }

    private mutating func parameter(_ entry: Entry, of intent: String) -> IntentParameter? {
        let name = entry.text("INIntentParameterName") ?? ""
        let metadata = entry.entry("INIntentParameterMetadata") ?? Entry([:])
        guard let type = type(entry, with: metadata) else {
            notices.append("\(intent).\(name): type \(entry.text("INIntentParameterType") ?? "?") has no equivalent")
            return nil
        }
        var parameter = IntentParameter(
            name: name, displayName: display(entry, "INIntentParameterDisplayName") ?? name, type: type)
        let place = "\(intent).\(name)"
        if case .location = type, let precision = metadata.text("INIntentParameterMetadataType") {
            notices.append("\(place): locations of type \(precision) only have no equivalent")
        }
        parameter.count = count(entry, place)
        parameter.defaultValue = metadata.value("INIntentParameterMetadataDefaultValue", of: type)
        if case .enumeration(let cases) = type, let name = parameter.defaultValue?.stringValue,
            !cases.contains(where: { $0.name == name })
        {
            // The default is the case that stands for an unknown value.
            parameter.defaultValue = nil
        }
        parameter.hasDynamicOptions = entry.flag("INIntentParameterSupportsDynamicEnumeration")
        // Code of the app's extension supplies the default of such a parameter, if it has one.
        parameter.hasDynamicDefault = parameter.hasDynamicOptions && parameter.defaultValue == nil
        if entry.flag("INIntentParameterSupportsSearch") {
            parameter.searchPrompt = display(entry, "INIntentParameterSearchPrompt") ?? "Search"
        }
        if let relationship = entry.entry("INIntentParameterRelationship") {
            parameter.parent = parent(relationship, of: place)
        }
        return parameter
    }

    private mutating func type(_ entry: Entry, with metadata: Entry) -> IntentParameter.ValueType? {
        if let enumeration = entry.text("INIntentParameterEnumType") {
            return .enumeration(
                (enumerations[enumeration] ?? []).map { value in
                    let name = value.text("INEnumValueName") ?? ""
                    return .init(name: name, displayName: display(value, "INEnumValueDisplayName") ?? name)
                })
        }
        let control = metadata.text("INIntentParameterMetadataType").flatMap {
            IntentParameter.NumberControl(name: $0.lowercased())
        }
        var range = IntentParameter.NumberRange(
            minimum: metadata.number("INIntentParameterMetadataMinimumValue"),
            maximum: metadata.number("INIntentParameterMetadataMaximumValue"))
        // Xcode leaves out these bounds.
        if control == .slider {
            range = .init(minimum: range.minimum ?? 0, maximum: range.maximum ?? 1)
        } else if metadata.has("INIntentParameterMetadataSupportsNegativeNumbers"),
            !metadata.flag("INIntentParameterMetadataSupportsNegativeNumbers")
        {
            range.minimum = range.minimum ?? 0
        }
        let capitalization = metadata.text("INIntentParameterMetadataCapitalization").flatMap { text in
            IntentParameter.Capitalization.allCases.first {
                $0.name.lowercased() == text.lowercased().filter { $0 != " " }
            }
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
        let value = "INIntentParameterRelationshipPredicateValue"
        switch predicate {
        // Xcode leaves out a value of false.
        case "BooleanHasExactValue":
            return IntentParameter.Parent(name: name, value: .bool(relationship.flag(value)))
        case "EnumHasExactValue":
            if let text = relationship.text(value) { return IntentParameter.Parent(name: name, value: .string(text)) }
        default: break
        }
        notices.append("\(place): the condition \(predicate) on \(name) has no equivalent")
        return nil
    }

    /// Returns a display text and records its translations.
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

    func has(_ key: String) -> Bool { members[key] != nil }

    /// Returns a value of a parameter's type. The type decides how to read it, since a number in a property list also
    /// reads as a Boolean.
    func value(_ key: String, of type: IntentParameter.ValueType) -> JSONValue? {
        guard has(key) else { return nil }
        switch type {
        case .boolean: return .bool(flag(key))
        case .integer, .decimal: return number(key).flatMap { JSONNumber($0) }.map { .number($0) }
        default: return text(key).map { .string($0) }
        }
    }
}
