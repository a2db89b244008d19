package import JSON

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
            return .object(JSONObject(entries.map { JSONObject.Member(key: $0.key, value: json($0.value)) }))
        }
        if !localizations.tables.isEmpty {
            object["localizations"] = sorted(localizations.tables) { sorted($0) { .string($0) } }
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
            localizations: LocalizedTexts(localizations))
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
                members.fail(at: "\(place)/parent/name", MemberChecker.unexpected(parent.name, "a parameter", names))
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
                    MemberChecker.unexpected(name, "a parameter", names))
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
                        limits[family].map { .init(key: family.name, value: .count($0)) }
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
            members.fail("default", problems.first?.message ?? "not a value of the parameter")
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
            members.fail(key, "is a member of parameters of type \(owners.joined(separator: " or ")), not \(type)")
        }
        if let problem = range.problem(control, type) { members.fail(problem.key, problem.message) }
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
                members.fail("cases", "an enumeration has cases, or dynamicOptions")
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
