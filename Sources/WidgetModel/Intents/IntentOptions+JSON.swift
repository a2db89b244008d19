// Requests to a provider's `/options` and `/defaults`, and their answers.

extension OptionsQuestion {
    /// The question with the values that its answer may depend on: those of the other parameters, as they count for the
    /// timeline. Questions with the same answer are equal.
    package func normalized(for intent: IntentDefinition) -> OptionsQuestion {
        var question = self
        var values = intent.resolve(context.values, family: context.family).effective.value.objectValue ?? JSONObject()
        values[parameter] = nil
        question.context.values = WidgetConfiguration(checked: values)
        return question
    }

    /// `{"kind", "user", "family", "environment", "parameter", "values", "search"?}`.
    package func encode(kind: String) -> [UInt8] {
        var body = context.members(kind: kind)
        body.append("parameter", parameter)
        body.append("values", json: context.values.canonical.utf8)
        body.append("search", search)
        return body.finish()
    }
}

extension ConfigurationContext {
    /// `{"kind", "user", "family", "environment"}`: the question for the defaults of a widget.
    package func encode(kind: String) -> [UInt8] { members(kind: kind).finish() }

    fileprivate func members(kind: String) -> JSONObjectWriter {
        var body = JSONObjectWriter()
        body.append("kind", kind)
        body.append("user", user)
        body.append("family", family.name)
        var environment = JSONObjectWriter()
        environment.append("locale", self.environment.locale)
        environment.append("timeZone", self.environment.timeZone)
        body.append("environment", json: environment.finish())
        return body
    }
}

extension IntentOptions {
    /// Most options of an answer.
    package static let maximumItems = 20_000
    private static let maximumTextBytes = 1024

    /// Reads `{"options": […]}` or `{"sections": [{"title"?, "indexTitle"?, "options": […]}]}`, where an option is
    /// `{"identifier" | "value", "display", "subtitle"?}`. Unknown members are ignored.
    package init(_ bytes: [UInt8], of parameter: IntentParameter) throws(JSONError) {
        self.init()
        var reader = JSONReader(bytes)
        var object = try reader.beginObject()
        var hasList = false
        while let key = try reader.nextKey(&object) {
            let isList = reader.matches(key, "options")
            guard isList || reader.matches(key, "sections") else {
                try reader.skip()
                continue
            }
            guard !hasList else {
                throw reader.failure(.invalidValue, "has both options and sections", at: object.start)
            }
            hasList = true
            if isList {
                sections = [Section(items: try readItems(from: &reader, of: parameter))]
            } else {
                var array = try reader.beginArray()
                while try reader.nextElement(&array) { try readSection(from: &reader, of: parameter) }
            }
        }
        try reader.finish()
        guard hasList else { throw reader.missing("options", inObjectAt: object.start) }
    }

    private mutating func readSection(from reader: inout JSONReader, of parameter: IntentParameter) throws(JSONError) {
        var section = Section(items: [])
        var hasItems = false
        var object = try reader.beginObject()
        while let key = try reader.nextKey(&object) {
            if reader.matches(key, "title") {
                section.title = try reader.displayText(maximumBytes: Self.maximumTextBytes)
            } else if reader.matches(key, "indexTitle") {
                section.indexTitle = try reader.displayText(maximumBytes: Self.maximumTextBytes)
            } else if reader.matches(key, "options") {
                section.items = try readItems(from: &reader, of: parameter)
                hasItems = true
            } else {
                try reader.skip()
            }
        }
        guard hasItems else { throw reader.missing("options", inObjectAt: object.start) }
        sections.append(section)
    }

    private func readItems(from reader: inout JSONReader, of parameter: IntentParameter) throws(JSONError) -> [Item] {
        try reader.expect(.array)
        let offset = reader.position
        var room = Self.maximumItems - sections.reduce(0) { $0 + $1.items.count }
        var items: [Item] = []
        var array = try reader.beginArray()
        while try reader.nextElement(&array) {
            guard room > 0 else {
                throw reader.failure(.invalidValue, "more than \(Self.maximumItems) options", at: offset)
            }
            room -= 1
            items.append(try Self.item(from: &reader, of: parameter))
        }
        return items
    }

    private static func item(from reader: inout JSONReader, of parameter: IntentParameter) throws(JSONError) -> Item {
        var value: JSONValue?
        var display: String?
        var subtitle: String?
        var object = try reader.beginObject()
        while let key = try reader.nextKey(&object) {
            let isIdentifier = reader.matches(key, "identifier")
            if isIdentifier || reader.matches(key, "value") {
                guard value == nil else {
                    throw reader.failure(.invalidValue, "has both an identifier and a value", at: object.start)
                }
                if isIdentifier { try reader.expect(.string) } else { _ = try reader.peek() }
                let offset = reader.position
                switch parameter.element(try reader.value()) {
                case .success(let canonical): value = canonical
                case .failure(let problem): throw reader.failure(.invalidValue, problem.message, at: offset)
                }
            } else if reader.matches(key, "display") {
                display = try reader.displayText(maximumBytes: maximumTextBytes)
            } else if reader.matches(key, "subtitle") {
                subtitle = try reader.displayText(maximumBytes: maximumTextBytes)
            } else {
                try reader.skip()
            }
        }
        return Item(
            value: try reader.require(value, "identifier", of: object),
            display: try reader.require(display, "display", of: object), subtitle: subtitle)
    }
}

extension JSONReader {
    /// A text to be shown; nil for null.
    fileprivate mutating func displayText(maximumBytes: Int) throws(JSONError) -> String? {
        guard try !takeNull() else { return nil }
        let offset = position
        let text = try string()
        if let problem = Text.identifierProblem(text, maximumBytes: maximumBytes) {
            throw failure(.invalidValue, problem, at: offset)
        }
        return text
    }
}

extension IntentDefinition {
    /// Reads `{"values": {…}}`, a provider's answer to a question for defaults. Only parameters with a dynamic default may
    /// have one.
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

    /// Names of the parameters with a dynamic default that a configuration leaves out.
    package func undecided(in configuration: WidgetConfiguration) -> [String] {
        let dynamic = parameters.lazy.filter(\.hasDynamicDefault).map(\.name)
        guard !dynamic.isEmpty else { return [] }
        let values = configuration.value
        return dynamic.filter { values[$0] == nil || values[$0] == .null }
    }

    /// The configuration with the values of another one for those parameters with a dynamic default that it leaves out.
    package func completed(_ configuration: WidgetConfiguration, from other: WidgetConfiguration) -> WidgetConfiguration
    {
        let names = undecided(in: configuration)
        guard !names.isEmpty, !other.isEmpty else { return configuration }
        var values = configuration.value.objectValue ?? JSONObject()
        for name in names { values[name] = other.value[name] ?? values[name] }
        // Two configurations within the limit may exceed it together.
        return (try? WidgetConfiguration(.object(values))) ?? configuration
    }
}
