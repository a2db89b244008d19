// SPDX-License-Identifier: Apache-2.0

package import JSON

/// Options of a parameter, as a provider answers them or as its definition lists them.
package struct IntentOptions: Hashable, Sendable {
    /// A value that a person can choose.
    package struct Item: Hashable, Sendable {
        /// Identifier of a custom value or person, name of a case, or the value itself.
        package var value: JSONValue
        package var display: String
        package var subtitle: String?
    }

    package struct Section: Hashable, Sendable {
        /// Nil for the only section of a flat list.
        package var title: String?
        /// Text of the section in the list's index.
        package var indexTitle: String?
        package var items: [Item]
    }

    /// Most options of an answer.
    package static let maximumItems = 20_000

    package let sections: [Section]

    package init(sections: [Section] = []) {
        self.sections = sections
    }

    /// `{"sections": [{"options": [{"value", "display", "subtitle"?}], "title", "indexTitle"}]}`: the form in which
    /// options are answered.
    package var json: JSONValue { ["sections": .array(sections.map(\.json))] }

    package var encoded: [UInt8] { json.encoded }
}

extension IntentOptions.Section {
    fileprivate var json: JSONValue {
        let options = items.map { item -> JSONValue in
            var option: JSONObject = ["value": item.value, "display": .string(item.display)]
            option["subtitle"] = item.subtitle.map { .string($0) }
            return .object(option)
        }
        return ["options": .array(options), "title": .text(title), "indexTitle": .text(indexTitle)]
    }
}

/// Question for the options of a parameter.
package struct OptionsQuestion: Hashable, Sendable {
    package var parameter: String
    /// Text that the person typed; nil when the list opens.
    package var search: String?
    package var context: ConfigurationContext

    package init(parameter: String, search: String? = nil, context: ConfigurationContext) {
        self.parameter = parameter
        self.search = search
        self.context = context
    }
}

/// A widget, placed or not, whose configuration is edited.
package struct ConfigurationContext: Hashable, Sendable {
    package var user: String
    package var family: WidgetFamily
    package var environment: WidgetEnvironment
    /// Values of the parameters so far.
    package var values: WidgetConfiguration

    package init(user: String, family: WidgetFamily, environment: WidgetEnvironment, values: WidgetConfiguration) {
        self.user = user
        self.family = family
        self.environment = environment
        self.values = values
    }
}

// Requests to a provider's `/options` and `/defaults`, and their answers.

extension OptionsQuestion {
    /// The question with only the values that its answer may depend on, those of the other parameters. Questions with
    /// the same answer are equal.
    package func normalized(for intent: IntentDefinition) -> OptionsQuestion {
        var question = self
        var values = intent.resolve(context.values, family: context.family).effective.value.objectValue ?? JSONObject()
        values[parameter] = nil
        question.context.values = WidgetConfiguration(checked: values)
        return question
    }

    /// `{"kind", "user", "family", "environment", "parameter", "values", "search"?}`.
    package func encode(kind: String) -> [UInt8] {
        JSONWriter.object { body in
            context.appendMembers(kind: kind, to: &body)
            body.append("parameter", parameter)
            body.append("values", json: context.values.canonical.utf8)
            body.append("search", search)
        }
    }
}

extension ConfigurationContext {
    /// `{"kind", "user", "family", "environment"}`: the question for the defaults of a widget.
    package func encode(kind: String) -> [UInt8] { JSONWriter.object { appendMembers(kind: kind, to: &$0) } }

    fileprivate func appendMembers(kind: String, to body: inout JSONWriter) {
        body.append("kind", kind)
        body.append("user", user)
        body.append("family", family.name)
        body.append("environment") {
            $0.append("locale", environment.locale)
            $0.append("timeZone", environment.timeZone)
        }
    }
}

extension IntentOptions {
    /// Reads `{"options": […]}` or `{"sections": [{"title"?, "indexTitle"?, "options": […]}]}`, where an option is
    /// `{"identifier" | "value", "display", "subtitle"?}`. Unknown members are ignored.
    package init(_ bytes: [UInt8], of parameter: IntentParameter) throws(JSONError) {
        var reader = JSONReader(bytes)
        var sections: [Section]?
        var room = Self.maximumItems
        let object = try reader.beginObject()
        while let key = try reader.nextKey() {
            switch key {
            case "options", "sections":
                guard sections == nil else {
                    throw reader.failure(.invalidValue, "has both options and sections", at: object)
                }
                sections =
                    try "options" ~= key
                    ? [Section(items: reader.options(of: parameter, &room))]
                    : reader.optionSections(of: parameter, &room)
            default: try reader.skip()
            }
        }
        try reader.finish()
        self.init(sections: try reader.require(sections, "options", ofObjectAt: object))
    }
}

/// Reads and checks a provider's options. `room` is the number of further options that an answer may have.
extension JSONReader {
    fileprivate mutating func optionSections(
        of parameter: IntentParameter, _ room: inout Int
    ) throws(JSONError) -> [IntentOptions.Section] {
        var sections: [IntentOptions.Section] = []
        try beginArray()
        while try nextElement() { sections.append(try optionSection(of: parameter, &room)) }
        return sections
    }

    private mutating func optionSection(
        of parameter: IntentParameter, _ room: inout Int
    ) throws(JSONError) -> IntentOptions.Section {
        var section = IntentOptions.Section(items: [])
        var options: [IntentOptions.Item]?
        let object = try beginObject()
        while let key = try nextKey() {
            switch key {
            case "title": section.title = try optionText()
            case "indexTitle": section.indexTitle = try optionText()
            case "options": options = try self.options(of: parameter, &room)
            default: try skip()
            }
        }
        section.items = try require(options, "options", ofObjectAt: object)
        return section
    }

    fileprivate mutating func options(
        of parameter: IntentParameter, _ room: inout Int
    ) throws(JSONError) -> [IntentOptions.Item] {
        try expect(.array)
        let offset = position
        var items: [IntentOptions.Item] = []
        try beginArray()
        while try nextElement() {
            guard room > 0 else {
                throw failure(.invalidValue, "more than \(IntentOptions.maximumItems) options", at: offset)
            }
            room -= 1
            items.append(try option(of: parameter))
        }
        return items
    }

    private mutating func option(of parameter: IntentParameter) throws(JSONError) -> IntentOptions.Item {
        var value: JSONValue?
        var display: String?
        var subtitle: String?
        let object = try beginObject()
        while let key = try nextKey() {
            switch key {
            case "identifier", "value":
                guard value == nil else {
                    throw failure(.invalidValue, "has both an identifier and a value", at: object)
                }
                if "identifier" ~= key { try expect(.string) }
                value = try optionValue(of: parameter)
            case "display": display = try optionText()
            case "subtitle": subtitle = try optionText()
            default: try skip()
            }
        }
        return IntentOptions.Item(
            value: try require(value, "identifier", ofObjectAt: object),
            display: try require(display, "display", ofObjectAt: object), subtitle: subtitle)
    }

    /// A value for the identity.
    private mutating func optionValue(of parameter: IntentParameter) throws(JSONError) -> JSONValue {
        let isIdentifier =
            switch parameter.type {
            case .custom, .person: true
            default: false
            }
        if isIdentifier, try peek() == .string, let text = try optionText(Text.maximumIdentifierBytes) {
            return .string(text)
        }
        let offset = position
        switch parameter.element(try value()) {
        case .success(let canonical): return canonical
        case .failure(let problem): throw failure(.invalidValue, problem.message, at: offset)
        }
    }

    /// A text for display; nil for null.
    private mutating func optionText(_ maximumBytes: Int = 1024) throws(JSONError) -> String? {
        guard try !takeNull() else { return nil }
        let offset = position
        let token = try stringToken()
        if let problem = identifierProblem(token, maximumBytes: maximumBytes) {
            throw failure(.invalidValue, problem, at: offset)
        }
        return text(of: token)
    }
}

extension IntentDefinition {
    /// Reads `{"values": {…}}`, a provider's answer to a question for defaults. Only parameters with a dynamic default
    /// may have one.
    package func dynamicDefaults(_ bytes: [UInt8], family: WidgetFamily) throws(ModelError) -> WidgetConfiguration {
        let answer: JSONValue
        do throws(JSONError) {
            answer = try JSONValue.parse(bytes)
        } catch {
            throw error.modelError
        }
        guard case .object(let values)? = answer["values"] else {
            throw ModelError(message: "expected an object with the object \"values\"", pointer: "/values")
        }
        var defaults = JSONObject()
        for (name, value) in values.members.map({ ($0.key, $0.value) }) where value != .null {
            let pointer = "/values/" + JSONPointer.foreignToken(name)
            guard let parameter = parameter(name), parameter.hasDynamicDefault else {
                throw ModelError(message: "not a parameter with a dynamic default", pointer: pointer)
            }
            var problems: [ModelError] = []
            _ = parameter.read(value, family: family, at: pointer, &problems)
            if let problem = problems.first { throw problem }
            defaults[name] = value
        }
        do throws(ModelError) {
            return try WidgetConfiguration(.object(defaults))
        } catch {
            throw ModelError(message: error.message, pointer: "/values" + error.pointer)
        }
    }

    /// Names of the parameters with a dynamic default that a configuration leaves out. Null is a decision for no value.
    package func undecided(in configuration: WidgetConfiguration) -> [String] {
        let dynamic = parameters.lazy.filter(\.hasDynamicDefault).map(\.name)
        guard !dynamic.isEmpty else { return [] }
        let values = configuration.value
        return dynamic.filter { values[$0] == nil }
    }

    /// The configuration with the values of another one for those parameters with a dynamic default that it leaves out.
    package func completed(_ configuration: WidgetConfiguration, from other: WidgetConfiguration) -> WidgetConfiguration
    {
        let names = undecided(in: configuration)
        guard !names.isEmpty, !other.isEmpty else { return configuration }
        var values = configuration.value.objectValue ?? JSONObject()
        for name in names { values[name] = other.value[name] ?? values[name] }
        // The union of two configurations may exceed the limit.
        return (try? WidgetConfiguration(.object(values))) ?? configuration
    }
}
