// SPDX-License-Identifier: Apache-2.0

package import JSON

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
            values[parameter.name] = parameter.distinct(value ?? parameter.canonicalDefault(for: family))
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

    /// Whether the form shows a parameter. One with a parent is shown while the parent is, and while the parent's value
    /// meets the parameter's condition.
    ///
    /// - Parameter values: of all parameters.
    package func isShown(_ name: String, _ values: JSONObject) -> Bool {
        guard let parent = parameter(name)?.parent else { return true }
        guard let definition = parameter(parent.name), isShown(parent.name, values) else { return false }
        let value = values[parent.name]
        guard let wanted = parent.value else { return value.map { !IntentParameter.isEmpty($0) } ?? false }
        guard let exact = definition.canonical(wanted) else { return false }
        return value == definition.distinct(exact)
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
        guard let initialValue, let value = canonical(initialValue) else { return nil }
        guard case .array(let elements) = value, let limit = limit(for: family) else { return value }
        return .array(Array(elements.prefix(limit)))
    }

    /// The default, or the value that the control shows without one: a switch is off.
    var initialValue: JSONValue? {
        guard defaultValue == nil, count == .one, !hasDynamicOptions, case .boolean = type else { return defaultValue }
        return .bool(false)
    }

    /// The value, or nil for an empty text or list where there is no default: a form cannot tell it from none.
    func distinct(_ value: JSONValue?) -> JSONValue? {
        guard let value, Self.isEmpty(value), initialValue.map(Self.isEmpty) ?? true else { return value }
        return nil
    }

    static func isEmpty(_ value: JSONValue) -> Bool { value == .string("") || value == .array([]) }

    /// A value of the definition itself, for the identity; nil if the definition does not allow it.
    func canonical(_ value: JSONValue) -> JSONValue? {
        guard count != .one else { return try? element(value).get() }
        guard case .array(let elements) = value else { return nil }
        let values = elements.compactMap { try? element($0).get() }
        return values.count == elements.count ? .array(values) : nil
    }

    /// One value for the identity.
    func element(_ value: JSONValue) -> Result<JSONValue, ModelError> {
        func expected(_ what: String) -> Result<JSONValue, ModelError> { .failure(Self.unexpected(value, what)) }
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
            return Self.date(text, components).map { .success(.string($0)) } ?? expected(Self.dateForm(components))
        case (.date, _): return expected(Self.dateForm(components))
        case (.url, .string(let text)): return Self.urlProblem(text).map { .failure($0) } ?? .success(value)
        case (.url, _): return expected("a URL")
        case (.enumeration(let cases), .string(let name)): return choice(name, among: cases)
        case (.enumeration(let cases), .object(let object)):
            return Self.identifier(of: object).flatMap { choice($0, among: cases) }
        case (.enumeration, _): return expected("the name of a case")
        case (.person, .object(let object)), (.custom, .object(let object)):
            return Self.identifier(of: object).map { .string($0) }
        case (.person, .string(let text)), (.custom, .string(let text)):
            return text.isEmpty ? expected("an identifier") : .success(value)
        case (.person, _), (.custom, _):
            return expected("an identifier, or an object with \"identifier\" and \"display\"")
        case (.location, .object(let object)): return Self.place(object)
        case (.location, _): return expected("an object with \"latitude\" and \"longitude\"")
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

    private static func unexpected(_ value: JSONValue, _ expected: String, at pointer: String = "") -> ModelError {
        let found = value.stringValue.map { Text.quoted($0) } ?? value.kind.name
        return ModelError(message: "expected \(expected), found \(found)", pointer: pointer)
    }

    /// The first error of the members of a value besides a required one: unknown ones, and a display that is no text.
    private static func problem(with object: JSONObject, members: [String]) -> ModelError? {
        let members = members + ["display"]
        if let key = object.keys.first(where: { !members.contains($0) }) {
            return ModelError(
                message: "unknown member \(Text.quoted(key)), expected \(members.joined(separator: ", "))"
                    + key.hint(among: members),
                pointer: "/" + JSONPointer.foreignToken(key))
        }
        guard let display = object["display"], display != .null, display.stringValue == nil else { return nil }
        return unexpected(display, "a text", at: "/display")
    }

    private static func missing(_ member: String) -> ModelError {
        ModelError(message: "required member \(Text.quoted(member)) is missing", pointer: "/" + member)
    }

    /// Identifier of an object, a person or a case, given with its display string.
    private static func identifier(of object: JSONObject) -> Result<String, ModelError> {
        if let problem = problem(with: object, members: ["identifier"]) { return .failure(problem) }
        guard let value = object["identifier"] else { return .failure(missing("identifier")) }
        guard let text = value.stringValue, !text.isEmpty else {
            return .failure(unexpected(value, "an identifier", at: "/identifier"))
        }
        return .success(text)
    }

    /// Coordinates in degrees, without the place's display string.
    private static func place(_ object: JSONObject) -> Result<JSONValue, ModelError> {
        if let problem = problem(with: object, members: ["latitude", "longitude"]) { return .failure(problem) }
        var place = JSONObject()
        for (key, limit) in [("latitude", 90), ("longitude", 180.0)] {
            guard let value = object[key] else { return .failure(missing(key)) }
            guard let number = value.numberValue else {
                return .failure(unexpected(value, "a number", at: "/" + key))
            }
            let range = NumberRange(minimum: -limit, maximum: limit)
            if let problem = range.problem(with: number.double, isInteger: false) {
                return .failure(problem.moved(below: "/" + key))
            }
            place[key] = value
        }
        return .success(.object(place))
    }

    /// The error of a text that is no absolute URL: a scheme, a colon, and characters that a URL may have.
    private static func urlProblem(_ text: String) -> ModelError? {
        guard text.utf8.count <= maximumURLBytes else {
            return ModelError(message: "expected at most \(maximumURLBytes) bytes, found \(text.utf8.count)")
        }
        let isURL =
            hasScheme(text) && text.utf8.drop { $0 != UInt8(ascii: ":") }.count > 1
            && text.utf8.allSatisfy { $0 > 0x20 && $0 != 0x7F && !"\"<>\\^`{|}".utf8.contains($0) }
        return isURL ? unsafeScheme(of: text) : unexpected(.string(text), "an absolute URL")
    }

    /// The error of a URL whose scheme runs a script, or shows content of the URL itself, where a link is opened.
    package static func unsafeScheme(of url: String) -> ModelError? {
        guard let colon = url.firstIndex(of: ":") else { return nil }
        let scheme = url[..<colon].lowercased()
        guard unsafeSchemes.contains(scheme) else { return nil }
        return ModelError(message: "the scheme \(scheme) is not safe in a link")
    }

    private static let unsafeSchemes: Set<String> = ["javascript", "vbscript", "data"]

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
        guard let step, !isInteger || step > 1 else { return nil }
        let base = minimum ?? 0
        let rest = abs((value - base).truncatingRemainder(dividingBy: step))
        // Decimal fractions such as 0.1 have no exact binary form.
        let tolerance = isInteger ? 0 : step * 1e-9 + (abs(value) + abs(base)) * 4 * .ulpOfOne
        guard min(rest, step - rest) > tolerance else { return nil }
        return ModelError(
            message: "expected \(what)\(words) in steps of \(Self.text(step)), found \(Self.text(value))")
    }

    private static func text(_ value: Double) -> String { JSONNumber(value)?.text ?? "\(value)" }
}
