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

    /// Reads `{"options": […]}` or `{"sections": [{"title"?, "indexTitle"?, "options": […]}]}`, where an option is
    /// `{"identifier" | "value", "display", "subtitle"?}`. Unknown members are ignored.
    package init(_ bytes: [UInt8], of parameter: IntentParameter) throws(JSONError) {
        var transcoder = OptionsTranscoder(bytes, parameter)
        self.init(encoded: try transcoder.transcode())
    }

    /// Writes options.
    struct Encoder {
        private var out = Array("{\"sections\":[".utf8)

        /// - Parameter capacity: expected number of bytes.
        init(capacity: Int = 256) { out.reserveCapacity(capacity) }

        mutating func beginSection() { append(Key.section) }

        /// Begins an option, whose parts the closures write as JSON.
        @inline(__always)
        mutating func beginOption(value: (inout [UInt8]) -> Void, display: (inout [UInt8]) -> Void) {
            append(Key.value)
            value(&out)
            append(Key.display)
            display(&out)
        }

        @inline(__always)
        mutating func append(subtitle: (inout [UInt8]) -> Void) {
            append(Key.subtitle)
            subtitle(&out)
        }

        mutating func endOption() { append(Key.end) }

        mutating func endSection(title: String?, indexTitle: String?) {
            dropComma()
            append(Key.title)
            appendText(title)
            append(Key.indexTitle)
            appendText(indexTitle)
            append(Key.end)
        }

        mutating func finish() -> [UInt8] {
            dropComma()
            out.append(contentsOf: "]}".utf8)
            return out
        }

        private mutating func appendText(_ text: String?) {
            if let text { JSONWriter.append(text, to: &out) } else { out.append(contentsOf: Key.null) }
        }

        @inline(__always)
        private mutating func append(_ key: [UInt8]) { out.append(contentsOf: key) }

        private mutating func dropComma() {
            if out.last == UInt8(ascii: ",") { out.removeLast() }
        }

        private enum Key {
            static let section = Array("{\"options\":[".utf8)
            static let value = Array("{\"value\":".utf8)
            static let display = Array(",\"display\":".utf8)
            static let subtitle = Array(",\"subtitle\":".utf8)
            static let end = Array("},".utf8)
            static let title = Array("],\"title\":".utf8)
            static let indexTitle = Array(",\"indexTitle\":".utf8)
            static let null = Array("null".utf8)
        }
    }
}

/// Checks a provider's options and writes them as ``IntentOptions`` keeps them, in one pass and without a value per option.
private struct OptionsTranscoder {
    private static let maximumTextBytes = 1024

    private var reader: JSONReader
    private let parameter: IntentParameter
    /// Whether any identifier is a value of the parameter as it stands.
    private let takesIdentifiers: Bool
    private var encoder: IntentOptions.Encoder
    private var room = IntentOptions.maximumItems

    init(_ bytes: [UInt8], _ parameter: IntentParameter) {
        reader = JSONReader(bytes)
        self.parameter = parameter
        takesIdentifiers =
            switch parameter.type {
            case .custom, .person: true
            default: false
            }
        encoder = IntentOptions.Encoder(capacity: bytes.count + bytes.count / 2)
    }

    mutating func transcode() throws(JSONError) -> [UInt8] {
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
                encoder.beginSection()
                try items()
                encoder.endSection(title: nil, indexTitle: nil)
            } else {
                var array = try reader.beginArray()
                while try reader.nextElement(&array) { try section() }
            }
        }
        try reader.finish()
        guard hasList else { throw reader.missing("options", inObjectAt: object.start) }
        return encoder.finish()
    }

    private mutating func section() throws(JSONError) {
        var title: JSONStringToken?
        var indexTitle: JSONStringToken?
        var hasItems = false
        encoder.beginSection()
        var object = try reader.beginObject()
        while let key = try reader.nextKey(&object) {
            if reader.matches(key, "title") {
                title = try text()
            } else if reader.matches(key, "indexTitle") {
                indexTitle = try text()
            } else if reader.matches(key, "options") {
                guard !hasItems else { throw reader.failure(.invalidValue, "has options twice", at: object.start) }
                try items()
                hasItems = true
            } else {
                try reader.skip()
            }
        }
        guard hasItems else { throw reader.missing("options", inObjectAt: object.start) }
        encoder.endSection(
            title: title.map { reader.text(of: $0) }, indexTitle: indexTitle.map { reader.text(of: $0) })
    }

    private mutating func items() throws(JSONError) {
        try reader.expect(.array)
        let offset = reader.position
        var array = try reader.beginArray()
        while try reader.nextElement(&array) {
            guard room > 0 else {
                throw reader.failure(.invalidValue, "more than \(IntentOptions.maximumItems) options", at: offset)
            }
            room -= 1
            try item()
        }
    }

    private mutating func item() throws(JSONError) {
        var value: Value?
        var display: JSONStringToken?
        var subtitle: JSONStringToken?
        var object = try reader.beginObject()
        while let key = try reader.nextKey(&object) {
            let isIdentifier = reader.matches(key, "identifier")
            if isIdentifier || reader.matches(key, "value") {
                guard value == nil else {
                    throw reader.failure(.invalidValue, "has both an identifier and a value", at: object.start)
                }
                if isIdentifier { try reader.expect(.string) }
                value = try self.value()
            } else if reader.matches(key, "display") {
                display = try text()
            } else if reader.matches(key, "subtitle") {
                subtitle = try text()
            } else {
                try reader.skip()
            }
        }
        let shown = try reader.require(display, "display", of: object)
        let chosen = try reader.require(value, "identifier", of: object)
        encoder.beginOption(
            value: { out in
                switch chosen {
                case .identifier(let token): reader.append(token, to: &out)
                case .canonical(let json): json.write(to: &out)
                }
            },
            display: { reader.append(shown, to: &$0) })
        if let subtitle { encoder.append(subtitle: { reader.append(subtitle, to: &$0) }) }
        encoder.endOption()
    }

    /// A value as it counts for the identity.
    private enum Value {
        case identifier(JSONStringToken)
        case canonical(JSONValue)
    }

    private mutating func value() throws(JSONError) -> Value {
        if takesIdentifiers, try reader.peek() == .string, let token = try text(Text.maximumIdentifierBytes) {
            return .identifier(token)
        }
        let offset = reader.position
        switch parameter.element(try reader.value()) {
        case .success(let canonical): return .canonical(canonical)
        case .failure(let problem): throw reader.failure(.invalidValue, problem.message, at: offset)
        }
    }

    /// A text to be shown; nil for null.
    private mutating func text(_ maximumBytes: Int = maximumTextBytes) throws(JSONError) -> JSONStringToken? {
        guard try !reader.takeNull() else { return nil }
        let offset = reader.position
        let token = try reader.stringToken()
        if let problem = reader.identifierProblem(token, maximumBytes: maximumBytes) {
            throw reader.failure(.invalidValue, problem, at: offset)
        }
        return token
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

    /// Names of the parameters with a dynamic default that a configuration leaves out. With null the person has decided: there
    /// is no value.
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
        // Two configurations within the limit may exceed it together.
        return (try? WidgetConfiguration(.object(values))) ?? configuration
    }
}
