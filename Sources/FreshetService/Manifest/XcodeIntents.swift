// SPDX-License-Identifier: Apache-2.0

package import JSON
package import WidgetModel

/// Intents of an Xcode intent definition file (`.intentdefinition`, a property list).
package struct XcodeIntents {
    /// With unique names.
    package private(set) var intents: [(name: String, definition: IntentDefinition)] = []
    /// Parts of the files that are left out or replaced, each with its place.
    package private(set) var notices: [String] = []

    /// Longest notice, in characters.
    private static let maximumNotice = 250

    /// UTF-8 of the intents' names.
    private var names: Set<[UInt8]> = []
    private let strings: [String: [String: String]]
    private var enumerations: [String: [PropertyListEntry]] = [:]
    /// Translations of the intent that is being read.
    private var translations = IntentTranslations([:])

    /// - Throws: a failure for a file that is no intent definition or no table of strings.
    /// - Parameters:
    ///   - data: content of the file.
    ///   - strings: content of its `Intents.strings` files, by locale.
    package init(_ data: [UInt8], strings: [String: [UInt8]] = [:]) throws(CommandFailure) {
        guard let file = PropertyListEntry(propertyList: data), file.has("INIntents") else {
            throw CommandFailure(.failure, "no intent definition: expected a property list with INIntents")
        }
        var tables: [String: [String: String]] = [:]
        for (locale, data) in strings.sorted(by: { $0.key < $1.key }) {
            tables[locale] = try Self.table(data, locale, &notices)
        }
        self.strings = tables
        for enumeration in file.entries("INEnums") {
            enumerations[enumeration.text("INEnumName") ?? ""] = enumeration.entries("INEnumValues")
        }
        let entries = file.entries("INIntents")
        for (index, intent) in entries.enumerated() {
            guard intents.count < AppDefinition.maximumKinds else {
                notices.append(
                    "the last \(entries.count - index) intents are left out: "
                        + "at most \(AppDefinition.maximumKinds) kinds are allowed")
                break
            }
            add(intent)
        }
    }

    /// The kinds with their intents: a manifest, or the part of one without what is nil.
    ///
    /// - Throws: a failure if there is no kind, or if a manifest with these kinds could not be applied.
    package func manifest(
        app: String? = nil, provider: String? = nil, placeholder: JSONValue? = nil
    ) throws(CommandFailure) -> JSONValue {
        guard !intents.isEmpty else { throw CommandFailure(.failure, "there is no custom intent to import") }
        func document(app: String?, provider: String?, placeholder: JSONValue?) -> JSONValue {
            var manifest = JSONObject()
            manifest["app"] = app.map { .string($0) }
            manifest["provider"] = provider.map { ["url": .string($0)] }
            manifest["kinds"] = .array(
                intents.map { name, definition in
                    var kind: JSONObject = ["name": .string(name)]
                    kind["placeholder"] = placeholder
                    kind["intent"] = definition.json()
                    return .object(kind)
                })
            return .object(manifest)
        }
        let whole = document(
            app: app ?? "app", provider: provider ?? "https://localhost", placeholder: placeholder ?? [:])
        do {
            _ = try Manifest.read(text: whole.yaml(), file: "the manifest")
        } catch {
            throw CommandFailure(.failure, "no manifest can have these intents: \(error)")
        }
        return document(app: app, provider: provider, placeholder: placeholder)
    }

    private static func table(
        _ data: [UInt8], _ locale: String, _ notices: inout [String]
    ) throws(CommandFailure) -> [String: String] {
        guard !data.isEmpty else {
            notices.append("the strings of \(locale) are empty")
            return [:]
        }
        guard let entry = PropertyListEntry(propertyList: data) else {
            throw CommandFailure(.failure, "the strings of \(locale) are no table of texts")
        }
        var table: [String: String] = [:]
        for key in entry.keys {
            table[key] = entry.text(key).map(line)
            guard table[key] == nil else { continue }
            notices.append("the strings of \(locale): the value of \(Text.quoted(key)) is no text")
        }
        return table
    }

    /// A text for display, on one line.
    private static func line(_ text: String) -> String { Text.printable(text, maximum: .max) }

    private mutating func note(_ place: String, _ message: String) {
        notices.append(Text.printable("\(place): \(message)", maximum: Self.maximumNotice))
    }

    private mutating func add(_ entry: PropertyListEntry) {
        let name = entry.text("INIntentName") ?? ""
        guard entry.text("INIntentType") == "Custom" else {
            return note(name, "a system intent has no parameters of its own")
        }
        guard !names.contains(Array(name.utf8)) else {
            return note(name, "a second intent of this name is left out")
        }
        translations = IntentTranslations(strings)
        var intent = JSONObject()
        addText(entry, "INIntentTitle", to: &intent, "title", name)
        addText(entry, "INIntentDescription", to: &intent, "description", name, maximumBytes: 4096)
        intent["title"] = intent["title"] ?? .string(name)
        intent["category"] = .string(category(entry, name).name)
        intent["eligibleForWidgets"] = .bool(entry.flag("INIntentEligibleForWidgets") ?? false)
        intent["eligibleForSuggestions"] = .bool(!(entry.flag("INIntentIneligibleForSuggestions") ?? false))
        intent["parameters"] = .array(parameters(entry, name))
        intent["supportedCombinations"] = .array(combinations(entry))
        intent["localizations"] = translations.json
        let admissible = AdmissibleIntent(.object(intent), name: name)
        notices += admissible.notices.map { Text.printable($0, maximum: Self.maximumNotice) }
        guard let definition = admissible.definition else { return }
        intents.append((name, definition))
        names.insert(Array(name.utf8))
    }

    private mutating func category(_ entry: PropertyListEntry, _ place: String) -> IntentDefinition.Category {
        func equivalent(of name: String?) -> IntentDefinition.Category? {
            name.flatMap { IntentDefinition.Category(name: $0.lowercased()) }
        }
        let (verb, name) = (entry.text("INIntentVerb"), entry.text("INIntentCategory"))
        if let category = equivalent(of: verb) { return category }
        let category = equivalent(of: name)
        if verb != nil || name != nil, verb != nil || category == nil {
            let words = [verb, name].compactMap { $0.map { Text.quoted($0) } }.joined(separator: " of the category ")
            note(place, "the verb \(words) has no equivalent: the category is \((category ?? .generic).name)")
        }
        return category ?? .generic
    }

    private func combinations(_ entry: PropertyListEntry) -> [JSONValue] {
        let keys = ["INIntentManagedParameterCombinations", "INIntentParameterCombinations"]
            .flatMap { entry.entry($0)?.keys ?? [] }
        return Set(keys).sorted(by: Text.precedes).map { $0.split(separator: ",").map(String.init) }
            .filter { !$0.isEmpty }.map { .texts($0) }
    }
}

// The rows of the form.
extension XcodeIntents {
    private mutating func parameters(_ entry: PropertyListEntry, _ intent: String) -> [JSONValue] {
        let entries = entry.entries("INIntentParameters").enumerated().map { index, entry in
            (priority: entry.number("INIntentParameterDisplayPriority")?.double ?? 0, index: index, entry: entry)
        }
        let parameters = entries.sorted { ($0.priority, $0.index) < ($1.priority, $1.index) }
            .compactMap { parameter($0.entry, of: intent) }
        let maximum = IntentDefinition.maximumParameters
        if parameters.count > maximum {
            let surplus = parameters.count - maximum
            note(intent, "the last \(surplus) parameters are left out: at most \(maximum) are allowed")
        }
        return Array(parameters.prefix(maximum))
    }

    private mutating func parameter(_ entry: PropertyListEntry, of intent: String) -> JSONValue? {
        let name = entry.text("INIntentParameterName") ?? ""
        let place = "\(intent).\(name)"
        let metadata = entry.entry("INIntentParameterMetadata") ?? PropertyListEntry()
        guard let type = type(entry) else {
            note(place, "type \(entry.text("INIntentParameterType") ?? "?") has no equivalent")
            return nil
        }
        var parameter: JSONObject = ["name": .string(name), "type": .string(type)]
        addText(entry, "INIntentParameterDisplayName", to: &parameter, "displayName", place)
        addMembers(of: type, entry, metadata, to: &parameter, place)
        addCount(entry, to: &parameter, place)
        parameter["default"] = defaultValue(entry, metadata, type, place)
        if parameter["default"] != nil, parameter["several"] ?? parameter["size"] != nil {
            parameter["default"] = parameter["default"].map { $0.arrayValue == nil ? [$0] : $0 }
        }
        if entry.flag("INIntentParameterSupportsDynamicEnumeration") ?? false {
            parameter["dynamicOptions"] = true
            // Code of the app's extension supplies the default of such a parameter, if it has one.
            if parameter["default"] == nil { parameter["dynamicDefault"] = true }
        }
        if entry.flag("INIntentParameterSupportsSearch") ?? false {
            parameter["search"] = .object(search(entry, place))
        }
        if let relationship = entry.entry("INIntentParameterRelationship") {
            parameter["parent"] = parent(relationship, of: place)
        }
        return .object(parameter)
    }

    /// Name of a parameter's type; nil for none.
    private func type(_ entry: PropertyListEntry) -> String? {
        if entry.has("INIntentParameterEnumType") { return "enumeration" }
        return switch entry.text("INIntentParameterType") {
        case "String": "string"
        case "Boolean": "boolean"
        case "Integer", "Long": "integer"
        case "Decimal", "Double": "decimal"
        case "Person": "person"
        case "Placemark": "location"
        case "DateComponents": "date"
        case "URL": "url"
        case "Object": "custom"
        default: nil
        }
    }

    /// Adds the members that only some types have.
    private mutating func addMembers(
        of type: String, _ entry: PropertyListEntry, _ metadata: PropertyListEntry, to parameter: inout JSONObject,
        _ place: String
    ) {
        let form = metadata.text("INIntentParameterMetadataType")
        switch type {
        case "enumeration": parameter["cases"] = .array(cases(of: entry, place))
        case "string":
            let capitalization = metadata.text("INIntentParameterMetadataCapitalization")?.lowercased()
                .filter { $0 != " " }
            parameter["capitalization"] = IntentParameter.Capitalization.allCases
                .first { $0.name.lowercased() == capitalization }.map { .string($0.name) }
            if metadata.flag("INIntentParameterMetadataMultiline") ?? false { parameter["multiline"] = true }
        case "integer", "decimal": addRange(of: type, form?.lowercased(), metadata, to: &parameter, place)
        case "location" where form != nil:
            note(place, "locations of type \(form ?? "") have no equivalent")
        // Xcode leaves out the type of a point in time.
        case "date":
            let components = IntentParameter.DateComponents.allCases
                .first { $0.name.lowercased() == form?.lowercased() ?? "datetime" }
            parameter["components"] = components.map { .string($0.name) }
            if components == nil { note(place, "dates of type \(form ?? "") have no equivalent") }
        case "custom": parameter["typeName"] = entry.text("INIntentParameterObjectType").map { .string($0) }
        default: break
        }
    }

    private mutating func cases(of entry: PropertyListEntry, _ place: String) -> [JSONValue] {
        let values = enumerations[entry.text("INIntentParameterEnumType") ?? ""] ?? []
        // A case without an index stands for an unknown value.
        return values.filter { $0.has("INEnumValueIndex") }.map { value in
            let name = value.text("INEnumValueName") ?? ""
            var member: JSONObject = ["name": .string(name)]
            addText(value, "INEnumValueDisplayName", to: &member, "displayName", "\(place): \(name)")
            return .object(member)
        }
    }

    private mutating func addRange(
        of type: String, _ control: String?, _ metadata: PropertyListEntry, to parameter: inout JSONObject,
        _ place: String
    ) {
        for (bound, key) in [("minimum", "Minimum"), ("maximum", "Maximum")] {
            let key = "INIntentParameterMetadata\(key)Value"
            parameter[bound] = metadata.number(key).map { .number($0) }
            if metadata.has(key), parameter[bound] == nil {
                note(place, "\(bound) is left out: no number that can be kept exactly")
            }
        }
        if let control, IntentParameter.NumberControl(name: control) != nil { parameter["control"] = .string(control) }
        let (minimum, maximum) = (parameter["minimum"]?.numberValue?.double, parameter["maximum"]?.numberValue?.double)
        if let minimum, let maximum, minimum > maximum {
            (parameter["minimum"], parameter["maximum"]) = (nil, nil)
            return note(place, "minimum and maximum are left out: the minimum is greater than the maximum")
        }
        // Xcode leaves out the bounds 0 and 1 of a slider. Those that contradict the file's are not meant.
        if type == "decimal", control == "slider" {
            if minimum == nil, maximum ?? 1 >= 0 { parameter["minimum"] = 0 }
            if maximum == nil, minimum ?? 0 <= 1 { parameter["maximum"] = 1 }
        } else if metadata.flag("INIntentParameterMetadataSupportsNegativeNumbers") == false, minimum == nil {
            guard maximum ?? 0 >= 0 else {
                return note(place, "the minimum of 0 is left out: it is greater than the maximum")
            }
            parameter["minimum"] = 0
        }
    }

    private mutating func addCount(_ entry: PropertyListEntry, to parameter: inout JSONObject, _ place: String) {
        guard entry.flag("INIntentParameterSupportsMultipleValues") ?? false else { return }
        guard entry.flag("INIntentParameterFixedSizeArray") ?? false else {
            parameter["several"] = true
            return
        }
        var limits = JSONObject()
        for size in entry.entries("INIntentParameterArraySizes") {
            let sizeClass = size.text("INIntentParameterArraySizeSizeClass") ?? ""
            let family = WidgetFamily.allCases.first {
                $0.name.lowercased() == "system\(sizeClass)".lowercased()
                    || $0.name.lowercased() == sizeClass.lowercased()
            }
            if let family, let limit = size.number("INIntentParameterArraySizeSize") {
                limits[family.name] = .number(limit)
            } else {
                note(place, "size class \(sizeClass) has no equivalent")
            }
        }
        parameter["size"] = .object(limits)
    }

    private mutating func defaultValue(
        _ entry: PropertyListEntry, _ metadata: PropertyListEntry, _ type: String, _ place: String
    ) -> JSONValue? {
        let key = "INIntentParameterMetadataDefaultValue"
        guard metadata.has(key) else {
            // Xcode leaves out a default of false.
            guard type == "boolean", entry.flag("INIntentParameterSupportsMultipleValues") != true else { return nil }
            return .bool(false)
        }
        let value = metadata.value(key, ofType: type)
        if type == "enumeration", let name = value?.stringValue, isUnknownCase(name, of: entry) { return nil }
        guard let value, value != .null, value != "" else {
            note(place, "default is left out: no value of the parameter")
            return nil
        }
        let others = translations.translations(of: metadata.text("\(key)ID") ?? "").values
        if let text = value.stringValue, !others.allSatisfy({ Text.equal($0, text) }) {
            note(place, "default is \(Text.quoted(text)) in every language: its translations are left out")
        }
        return value
    }

    /// Whether a case of a parameter's enumeration is the one for unknown values, which Xcode writes without an index.
    private func isUnknownCase(_ name: String, of entry: PropertyListEntry) -> Bool {
        let values = enumerations[entry.text("INIntentParameterEnumType") ?? ""] ?? []
        return values.contains { !$0.has("INEnumValueIndex") && Text.equal($0.text("INEnumValueName"), name) }
    }

    /// The prompt is the dialog of the configuration's list.
    private mutating func search(_ entry: PropertyListEntry, _ place: String) -> JSONObject {
        let dialog =
            entry.entries("INIntentParameterPromptDialogs")
            .first { $0.text("INIntentParameterPromptDialogType") == "Configuration" } ?? PropertyListEntry()
        var search = JSONObject()
        addText(dialog, "INIntentParameterPromptDialogFormatString", to: &search, "prompt", place)
        search["prompt"] = search["prompt"] ?? "Search"
        return search
    }

    private mutating func parent(_ relationship: PropertyListEntry, of place: String) -> JSONValue? {
        let predicate = relationship.text("INIntentParameterRelationshipPredicateName") ?? "?"
        guard let name = relationship.text("INIntentParameterRelationshipParentName") else {
            note(place, "the condition \(predicate) is left out: it names no parent")
            return nil
        }
        let key = "INIntentParameterRelationshipPredicateValue"
        let value: JSONValue? =
            switch predicate {
            case "HasAnyValue": nil
            // Xcode leaves out a value of false.
            case "BooleanHasExactValue": .bool(relationship.flag(key) ?? false)
            case "EnumHasExactValue": relationship.text(key).map { .string($0) } ?? .null
            default: .null
            }
        guard value != .null else {
            note(place, "the condition \(predicate) on \(name) has no equivalent")
            return nil
        }
        return ["name": .string(name), value == nil ? "hasAnyValue" : "hasExactly": value ?? true]
    }
}

// Texts for display.
extension XcodeIntents {
    /// Adds a text and, if an equal text has other translations, the identifier under which its own are found.
    private mutating func addText(
        _ entry: PropertyListEntry, _ key: String, to object: inout JSONObject, _ member: String, _ place: String,
        maximumBytes: Int = 1024
    ) {
        guard let text = text(entry, key, place, maximumBytes) else { return }
        object[member] = .string(text)
        let id = entry.text("\(key)ID")
        guard !translations.add(text, id: id) else { return }
        object["\(member)ID"] = id.map { .string($0) }
        if id == nil {
            note(place, "\(key) \(Text.quoted(text)) has the translations of an equal text, since it has no identifier")
        }
    }

    /// Returns nil for no text.
    private mutating func text(
        _ entry: PropertyListEntry, _ key: String, _ place: String, _ maximumBytes: Int
    ) -> String? {
        guard let text = entry.text(key).map(Self.line), !text.isEmpty else { return nil }
        guard text.utf8.count <= maximumBytes else {
            note(place, "\(key) is left out: at most \(maximumBytes) bytes are allowed, found \(text.utf8.count)")
            return nil
        }
        return text
    }
}
