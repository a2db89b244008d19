package import JSON

/// Values of a widget's configuration, checked against the definition.
extension IntentDefinition {
    package struct Resolution: Hashable, Sendable {
        /// Given or default values of the shown parameters. Widgets with the same effective values show the same
        /// timeline, whatever their display strings, hidden values and omitted defaults are.
        package let effective: WidgetConfiguration
        /// Errors of given values, which the defaults replace. Pointers are into the configuration.
        package let problems: [ModelError]
    }

    package func resolve(_ given: WidgetConfiguration, family: WidgetFamily) -> Resolution {
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
            let hint = Suggestion.hint(for: key, among: parameters.map(\.name))
            problems.append(
                ModelError(
                    message: "unknown parameter \(Text.quoted(key))\(hint)", pointer: "/" + JSONPointer.escape(key)))
        }
        let shown = hasParents ? JSONObject(values.members.filter { isShown($0.key, values) }) : values
        let effective = WidgetConfiguration(checked: shown)
        return Resolution(effective: effective, problems: problems)
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
            guard let date = IntentDate(text) else {
                return expected("a date such as 2026-06-22 or 2026-06-22T09:41:00Z")
            }
            return .success(.string(date.canonical))
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
            ModelError(message: MemberChecker.unexpected(name, "one of \(names.joined(separator: ", "))", names)))
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

/// A day, or a point in time.
struct IntentDate {
    /// `2026-06-22` or, in UTC, `2026-06-22T07:41:00Z`.
    let canonical: String

    init?(_ text: String) {
        if text.utf8.count == 10, Timestamp(rfc3339: text + "T00:00:00Z") != nil {
            canonical = text
        } else if let time = Timestamp(rfc3339: text) {
            canonical = time.rfc3339
        } else {
            return nil
        }
    }
}
