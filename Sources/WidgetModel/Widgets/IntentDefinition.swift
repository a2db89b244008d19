// SPDX-License-Identifier: Apache-2.0

package import JSON

/// Parameters of a kind's configuration, modelled on Xcode's intent definitions.
package struct IntentDefinition: Hashable, Sendable {
    package enum Category: NamedValue {
        case view, information, order, start, share, create, search, generic

        package static let names = nameTable()
    }

    package var title: String
    package var description: String
    package var category: Category
    package var isEligibleForWidgets: Bool
    package var isEligibleForSuggestions: Bool
    /// In the order of the form's rows, with unique names.
    package var parameters: [IntentParameter]
    /// Sets of parameters that matter for a prediction, each in the order of the parameters.
    package var supportedCombinations: [[String]]
    /// Translations of display texts, by locale, and by the text or its identifier.
    package var localizations: [String: [String: String]]

    package init(
        title: String, description: String = "", category: Category = .view, isEligibleForWidgets: Bool = true,
        isEligibleForSuggestions: Bool = true, parameters: [IntentParameter] = [],
        supportedCombinations: [[String]] = [], localizations: [String: [String: String]] = [:]
    ) {
        self.title = title
        self.description = description
        self.category = category
        self.isEligibleForWidgets = isEligibleForWidgets
        self.isEligibleForSuggestions = isEligibleForSuggestions
        self.parameters = parameters
        self.supportedCombinations = supportedCombinations
        self.localizations = localizations
    }

    package func parameter(_ name: String) -> IntentParameter? {
        parameters.first { Text.equal($0.name, name) }
    }

    /// The translation of a display text for a locale by the lookup of RFC 4647: that of its tag, else that of the tag
    /// without its last subtags, one at a time; else the text itself. Case does not matter, and `_` counts as `-`.
    package func text(_ text: String, in locale: String) -> String {
        var subtags = Self.normalized(locale).split(separator: "-")
        while !subtags.isEmpty {
            let tag = subtags.joined(separator: "-")
            let tables = localizations.filter { $0.key.utf8.count == tag.utf8.count && Self.normalized($0.key) == tag }
            for table in tables.sorted(by: { Text.precedes($0.key, $1.key) }) {
                if let translation = table.value[text] { return translation }
            }
            subtags.removeLast()
            // A single letter begins an extension, and means nothing without it.
            if subtags.last?.utf8.count == 1 { subtags.removeLast() }
        }
        return text
    }

    private static func normalized(_ locale: String) -> String { locale.lowercased().replacing("_", with: "-") }
}

/// A row of a configuration form.
package struct IntentParameter: Hashable, Sendable {
    /// A case of an enumeration.
    package struct Case: Hashable, Sendable {
        package var name: String
        package var displayName: String
        /// Key of the display name's translations; nil for the name itself.
        package var displayNameID: String?

        package init(name: String, displayName: String, displayNameID: String? = nil) {
            self.name = name
            self.displayName = displayName
            self.displayNameID = displayNameID
        }
    }

    package struct NumberRange: Hashable, Sendable {
        package var minimum: Double?
        package var maximum: Double?
        /// Distance of adjacent values of a stepper or slider.
        package var step: Double?

        package init(minimum: Double? = nil, maximum: Double? = nil, step: Double? = nil) {
            self.minimum = minimum
            self.maximum = maximum
            self.step = step
        }
    }

    package enum Capitalization: NamedValue {
        case none, words, sentences, allCharacters

        package static let names = nameTable()
    }

    /// Control of a number.
    package enum NumberControl: NamedValue {
        case field, stepper, slider

        package static let names = nameTable()
    }

    package enum ValueType: Hashable, Sendable {
        case string(Capitalization)
        case boolean
        case integer(NumberRange, NumberControl)
        case decimal(NumberRange, NumberControl)
        case person
        case location
        case date
        case url
        case enumeration([Case])
        /// Objects of the app, each with an identifier and a display string.
        case custom(typeName: String)

        /// Name of the type in documents, which is that of its case.
        package var name: String { Mirror(reflecting: self).children.first?.label ?? "\(self)" }
    }

    /// Number of values of a parameter that has several.
    package enum Count: Hashable, Sendable {
        case one
        case any
        /// Largest number by family; other families have no limit.
        case fixed([WidgetFamily: Int])
    }

    /// Condition under which a parameter is shown.
    package struct Parent: Hashable, Sendable {
        package var name: String
        /// Value that the parent must have; nil: any value.
        package var value: JSONValue?

        package init(name: String, value: JSONValue?) {
            self.name = name
            self.value = value
        }
    }

    package var name: String
    package var displayName: String
    /// Key of the display name's translations; nil for the name itself.
    package var displayNameID: String?
    package var type: ValueType
    package var count: Count
    /// Whether a text may have several lines.
    package var isMultiline: Bool
    /// Components of a date; nil for a day or a point in time.
    package var components: DateComponents?
    /// Nil for none.
    package var defaultValue: JSONValue?
    /// Whether the provider supplies the options.
    package var hasDynamicOptions: Bool
    /// Prompt of the search, which the provider answers; nil if searching filters the list.
    package var searchPrompt: String?
    /// Key of the prompt's translations; nil for the prompt itself.
    package var searchPromptID: String?
    /// Whether the provider supplies the default.
    package var hasDynamicDefault: Bool
    /// Nil for a parameter that is always shown.
    package var parent: Parent?

    package init(
        name: String, displayName: String, displayNameID: String? = nil, type: ValueType, count: Count = .one,
        isMultiline: Bool = false, components: DateComponents? = nil, defaultValue: JSONValue? = nil,
        hasDynamicOptions: Bool = false, searchPrompt: String? = nil,
        searchPromptID: String? = nil, hasDynamicDefault: Bool = false, parent: Parent? = nil
    ) {
        self.name = name
        self.displayName = displayName
        self.displayNameID = displayNameID
        self.type = type
        self.count = count
        self.isMultiline = isMultiline
        self.components = components
        self.defaultValue = defaultValue
        self.hasDynamicOptions = hasDynamicOptions
        self.searchPrompt = searchPrompt
        self.searchPromptID = searchPromptID
        self.hasDynamicDefault = hasDynamicDefault
        self.parent = parent
    }

    /// Largest number of values in a widget of a family; nil for no limit.
    package func limit(for family: WidgetFamily) -> Int? {
        switch count {
        case .one: 1
        case .any: nil
        case .fixed(let limits): limits[family]
        }
    }
}

extension IntentDefinition {
    package static let maximumParameters = 50
    private static let maximumTextBytes = 1024

    /// Stored and served form.
    package func json() -> JSONValue {
        var object: JSONObject = ["title": .string(title)]
        if !description.isEmpty { object["description"] = .string(description) }
        if category != .view { object["category"] = .string(category.name) }
        if !isEligibleForWidgets { object["eligibleForWidgets"] = .bool(false) }
        if !isEligibleForSuggestions { object["eligibleForSuggestions"] = .bool(false) }
        object["parameters"] = .array(parameters.map { $0.json() })
        if !supportedCombinations.isEmpty {
            object["supportedCombinations"] = .array(supportedCombinations.map { .texts($0) })
        }
        func sorted<Value>(_ table: [String: Value], _ json: (Value) -> JSONValue) -> JSONValue {
            let entries = table.sorted { Text.precedes($0.key, $1.key) }
            return .object(JSONObject(entries.map { (key: $0.key, value: json($0.value)) }))
        }
        if !localizations.isEmpty {
            object["localizations"] = sorted(localizations) { sorted($0) { .string($0) } }
        }
        return .object(object)
    }

    /// Reads the `intent` of a kind.
    static func read(_ members: inout MemberChecker) -> IntentDefinition? {
        let title = members.string("title", isRequired: true, maximumBytes: maximumTextBytes)
        let description = members.string("description", maximumBytes: 4096, mayBeEmpty: true)
        let category: Category? = members.choice("category")
        let forWidgets = members.boolean("eligibleForWidgets")
        let forSuggestions = members.boolean("eligibleForSuggestions")
        let parameters = members.objects("parameters", maximum: maximumParameters) { member in
            IntentParameter.read(&member)
        }
        var combinations: [[String]] = []
        members.forEachElement("supportedCombinations") { value, pointer, errors in
            guard let names = value.arrayValue?.map(\.stringValue), !names.contains(nil) else {
                errors.append(ModelError(message: "expected an array of names of parameters", pointer: pointer))
                return
            }
            combinations.append(names.compactMap { $0 })
        }
        var localizations: [String: [String: String]] = [:]
        _ = members.object("localizations") { tables in
            for locale in tables.keys { localizations[locale] = tables.texts(locale) }
        }
        guard let title else { return nil }
        let intent = IntentDefinition(
            title: title, description: description ?? "", category: category ?? .view,
            isEligibleForWidgets: forWidgets ?? true, isEligibleForSuggestions: forSuggestions ?? true,
            parameters: parameters, supportedCombinations: combinations,
            localizations: localizations)
        intent.checkReferences(&members)
        return intent
    }

    /// Checks references to parameters by name.
    private func checkReferences(_ members: inout MemberChecker) {
        let names = parameters.map(\.name)
        for (index, parameter) in parameters.enumerated() {
            let place = "parameters/\(index)"
            if !parameter.name.isEmpty, let first = names.firstIndex(where: { Text.equal($0, parameter.name) }),
                first < index
            {
                let pointer = "\(members.pointer(to: "parameters"))/\(first)"
                members.fail(
                    at: "\(place)/name", "parameter \(Text.quoted(parameter.name)) is already defined at \(pointer)")
            }
            guard let parent = parameter.parent else { continue }
            guard let definition = self.parameter(parent.name) else {
                members.fail(
                    at: "\(place)/parent/name",
                    MemberChecker.unexpected(parent.name, expected: "a parameter", among: names))
                continue
            }
            if let value = parent.value, definition.canonical(value) == nil, !members.isStored {
                members.fail(at: "\(place)/parent/hasExactly", "not a value of \(Text.quoted(parent.name))")
            }
            if isItsOwnAncestor(parameter) {
                members.fail(at: "\(place)/parent", "a parameter must not depend on itself")
            }
        }
        for (index, combination) in supportedCombinations.enumerated() {
            for (position, name) in combination.enumerated() where parameter(name) == nil {
                members.fail(
                    at: "supportedCombinations/\(index)/\(position)",
                    MemberChecker.unexpected(name, expected: "a parameter", among: names))
            }
        }
    }

    private func isItsOwnAncestor(_ parameter: IntentParameter) -> Bool {
        var next = parameter.parent?.name
        for _ in parameters.indices {
            guard let name = next else { return false }
            if Text.equal(name, parameter.name) { return true }
            next = self.parameter(name)?.parent?.name
        }
        return next != nil
    }
}

extension IntentParameter.Case {
    fileprivate func json() -> JSONValue {
        var object: JSONObject = ["name": .string(name), "displayName": .string(displayName)]
        object["displayNameID"] = displayNameID.map { .string($0) }
        return .object(object)
    }
}

extension IntentParameter {
    private static let types = [
        "string", "boolean", "integer", "decimal", "person", "location", "date", "url", "enumeration", "custom",
    ]

    func json() -> JSONValue {
        var object: JSONObject = ["name": .string(name), "displayName": .string(displayName)]
        object["displayNameID"] = displayNameID.map { .string($0) }
        object["type"] = .string(type.name)
        switch type {
        case .string(let capitalization):
            if capitalization != .sentences { object["capitalization"] = .string(capitalization.name) }
            if isMultiline { object["multiline"] = true }
        case .integer(let range, let control), .decimal(let range, let control):
            if control != .field { object["control"] = .string(control.name) }
            for (key, value) in [("minimum", range.minimum), ("maximum", range.maximum), ("step", range.step)] {
                object[key] = value.map { .decimal($0) }
            }
        case .enumeration(let cases):
            object["cases"] = .array(cases.map { $0.json() })
        case .custom(let typeName): object["typeName"] = .string(typeName)
        case .date: object["components"] = components.map { .string($0.name) }
        case .boolean, .person, .location, .url: break
        }
        switch count {
        case .one: break
        case .any: object["several"] = .bool(true)
        case .fixed(let limits):
            object["size"] = .object(
                JSONObject(
                    WidgetFamily.allCases.compactMap { family in
                        limits[family].map { (key: family.name, value: .count($0)) }
                    }))
        }
        object["default"] = defaultValue
        if hasDynamicOptions { object["dynamicOptions"] = .bool(true) }
        if let searchPrompt {
            var search: JSONObject = ["prompt": .string(searchPrompt)]
            search["promptID"] = searchPromptID.map { .string($0) }
            object["search"] = .object(search)
        }
        if hasDynamicDefault { object["dynamicDefault"] = .bool(true) }
        if let parent {
            object["parent"] = JSONValue.object(["name": .string(parent.name)]).adding(
                parent.value == nil ? "hasAnyValue" : "hasExactly", parent.value ?? true)
        }
        return .object(object)
    }

    static func read(_ members: inout MemberChecker) -> IntentParameter? {
        let name = members.string("name", isRequired: true)
        let displayName = members.string("displayName", maximumBytes: 1024)
        let displayNameID = members.string("displayNameID")
        let type = readType(&members)
        let isMultiline = members.boolean("multiline") ?? false
        let components: DateComponents? = members.choice("components")
        let isSeveral = members.boolean("several") ?? false
        let size = members.object("size") { size -> [WidgetFamily: Int]? in
            var limits: [WidgetFamily: Int] = [:]
            // Also of families that the kind does not offer: they take effect once it offers them.
            for family in WidgetFamily.allCases {
                limits[family] = size.integer(family.name, in: 1...100).map(Int.init)
            }
            return limits
        }
        let defaultValue = members.optional("default")
        let options = members.boolean("dynamicOptions") ?? false
        let search = members.object("search") { search in
            let id = search.string("promptID")
            return search.string("prompt", isRequired: true, maximumBytes: 1024).map { (prompt: $0, id: id) }
        }
        let dynamicDefault = members.boolean("dynamicDefault") ?? false
        let parent = members.object("parent", Parent.read)
        // A parameter with errors keeps its index, which pointers to later ones depend on.
        let parameter = IntentParameter(
            name: name ?? "", displayName: displayName ?? name ?? "", displayNameID: displayNameID,
            type: type ?? .string(.sentences), count: size.map { .fixed($0) } ?? (isSeveral ? .any : .one),
            isMultiline: isMultiline, components: components, defaultValue: defaultValue,
            hasDynamicOptions: options || search != nil, searchPrompt: search?.prompt, searchPromptID: search?.id,
            hasDynamicDefault: dynamicDefault, parent: parent)
        if type != nil, let defaultValue, parameter.canonical(defaultValue) == nil, !members.isStored {
            var problems: [ModelError] = []
            _ = parameter.read(defaultValue, family: .systemSmall, at: "", &problems)
            members.fail(in: "default", problems.first?.message ?? "not a value of the parameter")
        }
        return parameter
    }

    private static func readType(_ members: inout MemberChecker) -> ValueType? {
        let capitalization: Capitalization? = members.choice("capitalization")
        let control: NumberControl? = members.choice("control")
        let range = NumberRange(
            minimum: members.number("minimum"), maximum: members.number("maximum"), step: members.number("step"))
        let cases = members.objects("cases", maximum: 1000) { member -> Case? in
            let name = member.string("name", isRequired: true)
            let displayName = member.string("displayName", maximumBytes: 1024)
            let id = member.string("displayNameID")
            return name.map { Case(name: $0, displayName: displayName ?? $0, displayNameID: id) }
        }
        let typeName = members.string("typeName")
        _ = members.required("type")
        guard let type = members.choice("type", among: types, { types.contains($0) ? $0 : nil }) else { return nil }
        for (key, owners) in memberTypes where !owners.contains(type) && members.optional(key) != nil {
            members.fail(in: key, "is a member of parameters of type \(owners.joined(separator: " or ")), not \(type)")
        }
        if let problem = range.problem(control, type) { members.fail(in: problem.key, problem.message) }
        switch type {
        case "string": return .string(capitalization ?? .sentences)
        case "boolean": return .boolean
        case "integer": return .integer(range, control ?? .field)
        case "decimal": return .decimal(range, control ?? .field)
        case "person": return .person
        case "location": return .location
        case "date": return .date
        case "url": return .url
        case "enumeration":
            if cases.isEmpty, members.optional("dynamicOptions") != .bool(true), members.optional("search") == nil {
                members.fail(in: "cases", "an enumeration has cases, or dynamicOptions")
            }
            for (index, name) in cases.map(\.name).enumerated()
            where cases[..<index].contains(where: { Text.equal($0.name, name) }) {
                members.fail(at: "cases/\(index)/name", "case \(Text.quoted(name)) is already defined")
            }
            return .enumeration(cases)
        default: return .custom(typeName: typeName ?? "Object")
        }
    }

    /// Members of only some types.
    private static let memberTypes: KeyValuePairs<String, [String]> = [
        "capitalization": ["string"], "multiline": ["string"], "components": ["date"],
        "control": ["integer", "decimal"], "minimum": ["integer", "decimal"],
        "maximum": ["integer", "decimal"], "step": ["integer", "decimal"], "cases": ["enumeration"],
        "typeName": ["custom"],
    ]
}

extension IntentParameter.Parent {
    fileprivate static func read(_ members: inout MemberChecker) -> Self? {
        let name = members.string("name", isRequired: true)
        let value = members.optional("hasExactly")
        let hasAnyValue = members.boolean("hasAnyValue")
        switch (value, hasAnyValue) {
        case (nil, nil): members.fail(in: "hasExactly", "expected hasExactly with a value, or hasAnyValue: true")
        case (nil, false?): members.fail(in: "hasAnyValue", "expected true, or to be left out")
        case (_?, _?): members.fail(in: "hasAnyValue", "expected hasExactly or hasAnyValue, not both")
        case (nil, true?), (_?, nil): return name.map { Self(name: $0, value: value) }
        }
        return nil
    }
}

extension IntentParameter.NumberRange {
    fileprivate func problem(
        _ control: IntentParameter.NumberControl?, _ type: String
    ) -> (key: String, message: String)? {
        if let minimum, let maximum, minimum > maximum { return ("minimum", "must not be greater than the maximum") }
        if let step, step <= 0 { return ("step", "must be greater than 0") }
        switch control {
        case .stepper where type == "decimal": return ("control", "a decimal has a field or a slider")
        case .slider where type == "integer": return ("control", "an integer has a field or a stepper")
        case .slider where minimum == nil || maximum == nil:
            return ("control", "a slider needs a minimum and a maximum")
        default: return nil
        }
    }
}
