package import JSON

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
        var reader = OptionsReader(reader: JSONReader(bytes), parameter: parameter)
        self.init(sections: try reader.sections())
    }
}

/// Reads and checks a provider's options.
private struct OptionsReader: ~Copyable {
    private static let maximumTextBytes = 1024

    var reader: JSONReader
    let parameter: IntentParameter
    var room = IntentOptions.maximumItems

    mutating func sections() throws(JSONError) -> [IntentOptions.Section] {
        var sections: [IntentOptions.Section]?
        let object = try reader.beginObject()
        while let key = try reader.nextKey() {
            switch key {
            case "options", "sections":
                guard sections == nil else {
                    throw reader.failure(.invalidValue, "has both options and sections", at: object)
                }
                sections = "options" ~= key ? [IntentOptions.Section(items: try items())] : try sectionList()
            default: try reader.skip()
            }
        }
        try reader.finish()
        return try reader.require(sections, "options", ofObjectAt: object)
    }

    private mutating func sectionList() throws(JSONError) -> [IntentOptions.Section] {
        var sections: [IntentOptions.Section] = []
        try reader.beginArray()
        while try reader.nextElement() { sections.append(try section()) }
        return sections
    }

    private mutating func section() throws(JSONError) -> IntentOptions.Section {
        var section = IntentOptions.Section(items: [])
        var options: [IntentOptions.Item]?
        let object = try reader.beginObject()
        while let key = try reader.nextKey() {
            switch key {
            case "title": section.title = try text()
            case "indexTitle": section.indexTitle = try text()
            case "options": options = try items()
            default: try reader.skip()
            }
        }
        section.items = try reader.require(options, "options", ofObjectAt: object)
        return section
    }

    private mutating func items() throws(JSONError) -> [IntentOptions.Item] {
        try reader.expect(.array)
        let offset = reader.position
        var items: [IntentOptions.Item] = []
        try reader.beginArray()
        while try reader.nextElement() {
            guard room > 0 else {
                throw reader.failure(.invalidValue, "more than \(IntentOptions.maximumItems) options", at: offset)
            }
            room -= 1
            items.append(try item())
        }
        return items
    }

    private mutating func item() throws(JSONError) -> IntentOptions.Item {
        var value: JSONValue?
        var display: String?
        var subtitle: String?
        let object = try reader.beginObject()
        while let key = try reader.nextKey() {
            switch key {
            case "identifier", "value":
                guard value == nil else {
                    throw reader.failure(.invalidValue, "has both an identifier and a value", at: object)
                }
                if "identifier" ~= key { try reader.expect(.string) }
                value = try self.value()
            case "display": display = try text()
            case "subtitle": subtitle = try text()
            default: try reader.skip()
            }
        }
        return IntentOptions.Item(
            value: try reader.require(value, "identifier", ofObjectAt: object),
            display: try reader.require(display, "display", ofObjectAt: object), subtitle: subtitle)
    }

    /// A value for the identity.
    private mutating func value() throws(JSONError) -> JSONValue {
        let isIdentifier =
            switch parameter.type {
            case .custom, .person: true
            default: false
            }
        if isIdentifier, try reader.peek() == .string, let text = try text(Text.maximumIdentifierBytes) {
            return .string(text)
        }
        let offset = reader.position
        switch parameter.element(try reader.value()) {
        case .success(let canonical): return canonical
        case .failure(let problem): throw reader.failure(.invalidValue, problem.message, at: offset)
        }
    }

    /// A text for display; nil for null.
    private mutating func text(_ maximumBytes: Int = maximumTextBytes) throws(JSONError) -> String? {
        guard try !reader.takeNull() else { return nil }
        let offset = reader.position
        let token = try reader.stringToken()
        if let problem = reader.identifierProblem(token, maximumBytes: maximumBytes) {
            throw reader.failure(.invalidValue, problem, at: offset)
        }
        return reader.text(of: token)
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
