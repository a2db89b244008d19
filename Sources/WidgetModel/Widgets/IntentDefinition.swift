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
    /// Translations of display texts, by locale and text.
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

        package init(name: String, displayName: String) {
            self.name = name
            self.displayName = displayName
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
        /// Value that the parent must have.
        package var value: JSONValue

        package init(name: String, value: JSONValue) {
            self.name = name
            self.value = value
        }
    }

    package var name: String
    package var displayName: String
    package var type: ValueType
    package var count: Count
    /// Nil for none.
    package var defaultValue: JSONValue?
    /// Whether the provider supplies the options.
    package var hasDynamicOptions: Bool
    /// Prompt of the search, which the provider answers; nil if searching filters the list.
    package var searchPrompt: String?
    /// Whether the provider supplies the default.
    package var hasDynamicDefault: Bool
    /// Nil for a parameter that is always shown.
    package var parent: Parent?

    package init(
        name: String, displayName: String, type: ValueType, count: Count = .one, defaultValue: JSONValue? = nil,
        hasDynamicOptions: Bool = false, searchPrompt: String? = nil, hasDynamicDefault: Bool = false,
        parent: Parent? = nil
    ) {
        self.name = name
        self.displayName = displayName
        self.type = type
        self.count = count
        self.defaultValue = defaultValue
        self.hasDynamicOptions = hasDynamicOptions
        self.searchPrompt = searchPrompt
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

/// Values of a widget's configuration, checked against the definition.
extension IntentDefinition {
    /// Given or default values of the shown parameters, and errors of given values, which the defaults replace, with
    /// pointers into the configuration.
    ///
    /// Widgets with the same effective values show the same timeline, whatever their display strings, hidden values and
    /// omitted defaults are.
    package func resolve(
        _ given: WidgetConfiguration, family: WidgetFamily
    ) -> (effective: WidgetConfiguration, problems: [ModelError]) {
        let given = given.value.objectValue ?? JSONObject()
        var problems: [ModelError] = []
        var values = JSONObject()
        var known = 0
        for parameter in parameters {
            var value: JSONValue?
            if let given = given[parameter.name] {
                known += 1
                if given != .null {
                    value = parameter.read(
                        given, family: family, at: "/" + JSONPointer.escape(parameter.name), &problems)
                }
            }
            values[parameter.name] = value ?? parameter.canonicalDefault(for: family)
        }
        let unknown = known == given.count ? [] : given.keys.filter { parameter($0) == nil }
        for key in unknown {
            let hint = key.hint(among: parameters.map(\.name))
            problems.append(
                ModelError(
                    message: "unknown parameter \(Text.quoted(key))\(hint)", pointer: "/" + JSONPointer.escape(key)))
        }
        let shown = hasParents ? JSONObject(values.members.filter { isShown($0.key, values) }) : values
        return (WidgetConfiguration(checked: shown), problems)
    }

    private var hasParents: Bool { parameters.contains { $0.parent != nil } }

    /// Whether a parameter is shown, given the values of all parameters.
    package func isShown(_ name: String, _ values: JSONObject) -> Bool {
        guard let parent = parameter(name)?.parent else { return true }
        guard let definition = parameter(parent.name) else { return false }
        return isShown(parent.name, values) && values[parent.name] == definition.canonical(parent.value)
    }
}

extension IntentParameter {
    /// The value for the identity; nil, with problems, if the definition does not allow it.
    func read(
        _ value: JSONValue, family: WidgetFamily, at pointer: @autoclosure () -> String,
        _ problems: inout [ModelError]
    ) -> JSONValue? {
        guard count != .one else {
            switch element(value) {
            case .success(let value): return value
            case .failure(let problem):
                problems.append(ModelError(message: problem.message, pointer: pointer() + problem.pointer))
                return nil
            }
        }
        guard case .array(let elements) = value else {
            problems.append(ModelError(message: "expected an array, found \(value.kind.name)", pointer: pointer()))
            return nil
        }
        if let limit = limit(for: family), elements.count > limit {
            problems.append(
                ModelError(
                    message: "at most \(limit) values fit \(family.name), found \(elements.count)", pointer: pointer()))
            return nil
        }
        var values: [JSONValue] = []
        for (index, element) in elements.enumerated() {
            switch self.element(element) {
            case .success(let value): values.append(value)
            case .failure(let problem):
                problems.append(
                    ModelError(message: problem.message, pointer: "\(pointer())/\(index)\(problem.pointer)"))
            }
        }
        return values.count == elements.count ? .array(values) : nil
    }

    /// The default for the identity, cut to the number of values that fit a family.
    func canonicalDefault(for family: WidgetFamily) -> JSONValue? {
        guard let defaultValue, let value = canonical(defaultValue) else { return nil }
        guard case .array(let elements) = value, let limit = limit(for: family) else { return value }
        return .array(Array(elements.prefix(limit)))
    }

    /// A value of the definition itself, for the identity; nil if the definition does not allow it.
    func canonical(_ value: JSONValue) -> JSONValue? {
        guard count != .one else { return try? element(value).get() }
        guard case .array(let elements) = value else { return nil }
        let values = elements.compactMap { try? element($0).get() }
        return values.count == elements.count ? .array(values) : nil
    }

    /// One value for the identity.
    func element(_ value: JSONValue) -> Result<JSONValue, ModelError> {
        func expected(_ what: String) -> Result<JSONValue, ModelError> {
            let found = value.stringValue.map { Text.quoted($0) } ?? value.kind.name
            return .failure(ModelError(message: "expected \(what), found \(found)"))
        }
        switch (type, value) {
        case (.string, .string), (.boolean, .bool): return .success(value)
        case (.string, _): return expected("a string")
        case (.boolean, _): return expected("a boolean")
        case (.integer(let range, _), .number(let number)):
            guard let integer = number.int64 else { return .failure(Self.outside(range, number, "an integer")) }
            return range.problem(with: Double(integer), isInteger: true).map { .failure($0) }
                ?? .success(.count(integer))
        case (.integer, _): return expected("an integer")
        case (.decimal(let range, _), .number(let number)):
            return range.problem(with: number.double, isInteger: false).map { .failure($0) } ?? .success(value)
        case (.decimal, _): return expected("a number")
        case (.date, .string(let text)):
            return Self.date(text).map { .success(.string($0)) }
                ?? expected("a date such as 2026-06-22 or 2026-06-22T09:41:00Z")
        case (.date, _): return expected("a date")
        case (.url, .string(let text)): return Self.isURL(text) ? .success(value) : expected("an absolute URL")
        case (.url, _): return expected("a URL")
        case (.enumeration(let cases), .string(let name)): return choice(name, among: cases)
        case (.enumeration(let cases), _):
            return Self.identifier(of: value).map { choice($0, among: cases) } ?? expected("the name of a case")
        case (.person, _), (.custom, _):
            return Self.identifier(of: value).map { .success(.string($0)) }
                ?? expected("an identifier, or an object with \"identifier\" and \"display\"")
        case (.location, _):
            return Self.place(value).map { .success($0) }
                ?? expected("an object with \"latitude\" and \"longitude\"")
        }
    }

    private func choice(_ name: String, among cases: [Case]) -> Result<JSONValue, ModelError> {
        // The provider may have other cases.
        if hasDynamicOptions || cases.contains(where: { Text.equal($0.name, name) }) { return .success(.string(name)) }
        let names = cases.map(\.name)
        return .failure(
            ModelError(
                message: MemberChecker.unexpected(
                    name, expected: "one of \(names.joined(separator: ", "))", among: names)))
    }
}

extension IntentParameter {
    /// Longest URL, in bytes.
    private static let maximumURLBytes = 2048

    /// Identifier of an object or a person, given alone or with its display string.
    fileprivate static func identifier(of value: JSONValue) -> String? {
        let identifier: String?
        switch value {
        case .string(let text): identifier = text
        case .object(let object):
            guard object.keys.allSatisfy({ $0 == "identifier" || $0 == "display" }),
                object["display"]?.stringValue != nil || object["display"] == nil
            else { return nil }
            identifier = object["identifier"]?.stringValue
        default: identifier = nil
        }
        return identifier.flatMap { $0.isEmpty ? nil : $0 }
    }

    /// Coordinates in degrees, without the place's display string.
    fileprivate static func place(_ value: JSONValue) -> JSONValue? {
        guard case .object(let object) = value,
            object.keys.allSatisfy({ ["latitude", "longitude", "display"].contains($0) }),
            let latitude = object["latitude"]?.numberValue, abs(latitude.double) <= 90,
            let longitude = object["longitude"]?.numberValue, abs(longitude.double) <= 180
        else { return nil }
        return ["latitude": .number(latitude), "longitude": .number(longitude)]
    }

    /// A day, `2026-06-22`, or a point in time in UTC, `2026-06-22T07:41:00Z`; nil for any other text.
    fileprivate static func date(_ text: String) -> String? {
        if text.utf8.count == 10, Timestamp(rfc3339: text + "T00:00:00Z") != nil { return text }
        return Timestamp(rfc3339: text)?.rfc3339
    }

    /// Whether a text is an absolute URL: a scheme, a colon, and characters that a URL may have.
    fileprivate static func isURL(_ text: String) -> Bool {
        text.utf8.count <= maximumURLBytes && hasScheme(text) && text.utf8.drop { $0 != UInt8(ascii: ":") }.count > 1
            && text.utf8.allSatisfy { $0 > 0x20 && $0 != 0x7F && !"\"<>\\^`{|}".utf8.contains($0) }
    }

    /// Whether a text starts with a URL's scheme and its colon.
    package static func hasScheme(_ text: String) -> Bool {
        guard let colon = text.utf8.firstIndex(of: UInt8(ascii: ":")) else { return false }
        let scheme = text.utf8[..<colon]
        return scheme.first?.isASCIILetter == true
            && scheme.allSatisfy { $0.isASCIIAlphanumeric || "+-.".utf8.contains($0) }
    }

    fileprivate static func outside(_ range: NumberRange, _ number: JSONNumber, _ what: String) -> ModelError {
        ModelError(message: "expected \(what)\(range.words), found \(Text.printable(number.text, maximum: 64))")
    }
}

extension IntentParameter.NumberRange {
    /// The bounds in words, with a space before them; empty: there are none.
    var words: String {
        switch (minimum, maximum) {
        case (let minimum?, let maximum?): " from \(Self.text(minimum)) to \(Self.text(maximum))"
        case (let minimum?, nil): " from \(Self.text(minimum))"
        case (nil, let maximum?): " up to \(Self.text(maximum))"
        case (nil, nil): ""
        }
    }

    func problem(with value: Double, isInteger: Bool) -> ModelError? {
        let what = isInteger ? "an integer" : "a number"
        guard value >= minimum ?? -.infinity, value <= maximum ?? .infinity else {
            return ModelError(message: "expected \(what)\(words), found \(Self.text(value))")
        }
        guard isInteger, let step, step > 1, (value - (minimum ?? 0)).truncatingRemainder(dividingBy: step) != 0 else {
            return nil
        }
        return ModelError(
            message: "expected \(what)\(words) in steps of \(Self.text(step)), found \(Self.text(value))")
    }

    private static func text(_ value: Double) -> String { JSONNumber(value)?.text ?? "\(value)" }
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
    static func read(_ members: inout MemberChecker, families: [WidgetFamily]) -> IntentDefinition? {
        let title = members.string("title", isRequired: true, maximumBytes: maximumTextBytes)
        let description = members.string("description", maximumBytes: 4096, mayBeEmpty: true)
        let category: Category? = members.choice("category")
        let forWidgets = members.boolean("eligibleForWidgets")
        let forSuggestions = members.boolean("eligibleForSuggestions")
        let parameters = members.objects("parameters", maximum: maximumParameters) { member in
            IntentParameter.read(&member, families: families)
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
                members.fail(
                    at: "\(place)/name",
                    "parameter \(Text.quoted(parameter.name)) is already defined at \(members.pointer(to: "parameters"))/\(first)"
                )
            }
            guard let parent = parameter.parent else { continue }
            guard let definition = self.parameter(parent.name) else {
                members.fail(
                    at: "\(place)/parent/name",
                    MemberChecker.unexpected(parent.name, expected: "a parameter", among: names))
                continue
            }
            if definition.canonical(parent.value) == nil {
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

extension IntentParameter {
    private static let types = [
        "string", "boolean", "integer", "decimal", "person", "location", "date", "url", "enumeration", "custom",
    ]

    func json() -> JSONValue {
        var object: JSONObject = [
            "name": .string(name), "displayName": .string(displayName), "type": .string(type.name),
        ]
        switch type {
        case .string(let capitalization):
            if capitalization != .sentences { object["capitalization"] = .string(capitalization.name) }
        case .integer(let range, let control), .decimal(let range, let control):
            if control != .field { object["control"] = .string(control.name) }
            for (key, value) in [("minimum", range.minimum), ("maximum", range.maximum), ("step", range.step)] {
                object[key] = value.map { .decimal($0) }
            }
        case .enumeration(let cases):
            object["cases"] = .array(
                cases.map { ["name": .string($0.name), "displayName": .string($0.displayName)] })
        case .custom(let typeName): object["typeName"] = .string(typeName)
        case .boolean, .person, .location, .date, .url: break
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
        if let searchPrompt { object["search"] = ["prompt": .string(searchPrompt)] }
        if hasDynamicDefault { object["dynamicDefault"] = .bool(true) }
        if let parent { object["parent"] = ["name": .string(parent.name), "hasExactly": parent.value] }
        return .object(object)
    }

    static func read(_ members: inout MemberChecker, families: [WidgetFamily]) -> IntentParameter? {
        let name = members.string("name", isRequired: true)
        let displayName = members.string("displayName", maximumBytes: 1024)
        let type = readType(&members)
        let isSeveral = members.boolean("several") ?? false
        let size = members.object("size") { size -> [WidgetFamily: Int]? in
            var limits: [WidgetFamily: Int] = [:]
            for family in families { limits[family] = size.integer(family.name, in: 1...100).map(Int.init) }
            return limits
        }
        let defaultValue = members.optional("default")
        let options = members.boolean("dynamicOptions") ?? false
        let search = members.object("search") { search in
            search.string("prompt", isRequired: true, maximumBytes: 1024)
        }
        let dynamicDefault = members.boolean("dynamicDefault") ?? false
        let parent = members.object("parent") { parent -> Parent? in
            let name = parent.string("name", isRequired: true)
            let value = parent.required("hasExactly")
            guard let name, let value else { return nil }
            return Parent(name: name, value: value)
        }
        // A parameter with errors keeps its index, which pointers to later ones depend on.
        let parameter = IntentParameter(
            name: name ?? "", displayName: displayName ?? name ?? "", type: type ?? .string(.sentences),
            count: size.map { .fixed($0) } ?? (isSeveral ? .any : .one), defaultValue: defaultValue,
            hasDynamicOptions: options || search != nil, searchPrompt: search, hasDynamicDefault: dynamicDefault,
            parent: parent)
        if type != nil, let defaultValue, parameter.canonical(defaultValue) == nil {
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
            return name.map { Case(name: $0, displayName: displayName ?? $0) }
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
        "capitalization": ["string"], "control": ["integer", "decimal"], "minimum": ["integer", "decimal"],
        "maximum": ["integer", "decimal"], "step": ["integer", "decimal"], "cases": ["enumeration"],
        "typeName": ["custom"],
    ]
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
