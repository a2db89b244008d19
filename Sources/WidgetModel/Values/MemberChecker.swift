// SPDX-License-Identifier: Apache-2.0

package import JSON

/// Violation of a rule of the model, with its place in the document.
package struct ModelError: Error, Hashable, Sendable, CustomStringConvertible {
    /// Expected and found value. Holds no control character, so it can be logged and stored.
    package let message: String
    /// JSON pointer (RFC 6901) to the offending value; empty for the whole document.
    package let pointer: String

    package init(message: String, pointer: String = "") {
        self.message = message
        self.pointer = pointer
    }

    package var description: String { pointer.isEmpty ? message : "\(pointer): \(message)" }

    /// Several errors as one: with the place of the first, and those of the others in the message. Nil for none.
    package init?(joining errors: [ModelError]) {
        guard let first = errors.first else { return nil }
        self.init(
            message: ([first.message] + errors.dropFirst().map(\.description)).joined(separator: "; "),
            pointer: first.pointer)
    }

    /// The error with its place below another one.
    package func moved(below pointer: String) -> ModelError {
        ModelError(message: message, pointer: pointer + self.pointer)
    }
}

extension JSONError {
    /// The error as an error of the model.
    package var modelError: ModelError { ModelError(message: message, pointer: pointer) }
}

/// Reads the members of a JSON object and collects their errors.
struct MemberChecker {
    private let object: JSONObject
    private let pointer: String
    /// Whether the document comes from the database. Another version may have written it, so that unknown members are
    /// ignored at every depth, and so are values that only an older version allowed.
    let isStored: Bool
    private var known: [String] = []
    private(set) var errors: [ModelError] = []

    /// Returns nil, with an error, if `value` is not an object.
    init?(_ value: JSONValue, at pointer: String, isStored: Bool = false, errors: inout [ModelError]) {
        guard case .object(let object) = value else {
            errors.append(
                ModelError(message: "expected an object, found \(value.kind.name)", pointer: pointer))
            return nil
        }
        self.object = object
        self.pointer = pointer
        self.isStored = isStored
    }

    var keys: [String] { object.keys }

    func pointer(to key: String) -> String { pointer + "/" + JSONPointer.escape(key) }

    mutating func fail(in key: String, _ message: String) {
        errors.append(ModelError(message: message, pointer: pointer(to: key)))
    }

    /// - Parameter place: pointer below the object, without its first slash.
    mutating func fail(at place: String, _ message: String) {
        errors.append(ModelError(message: message, pointer: "\(pointer)/\(place)"))
    }

    mutating func append(_ more: [ModelError]) {
        errors.append(contentsOf: more)
    }

    /// The member's value; null counts as absent.
    mutating func optional(_ key: String) -> JSONValue? {
        known.append(key)
        guard let value = object[key], value != .null else { return nil }
        return value
    }

    /// The member's value, with an error when it is absent.
    mutating func required(_ key: String) -> JSONValue? {
        if let value = optional(key) { return value }
        fail(in: key, "required member \(Text.quoted(key)) is missing")
        return nil
    }

    mutating func string(
        _ key: String, isRequired: Bool = false, maximumBytes: Int = Text.maximumIdentifierBytes,
        mayBeEmpty: Bool = false
    ) -> String? {
        guard let value = isRequired ? required(key) : optional(key) else { return nil }
        guard case .string(let text) = value else {
            fail(in: key, Self.expectedString(value))
            return nil
        }
        let problem: String? =
            if text.isEmpty {
                mayBeEmpty ? nil : "must not be empty"
            } else {
                Text.identifierProblem(text, maximumBytes: maximumBytes)
            }
        if let problem { fail(in: key, problem) }
        return problem == nil ? text : nil
    }

    /// The converted value of a member, with an error if `convert` returns nil.
    private mutating func value<Value>(
        _ key: String, expected: String, _ convert: (JSONValue) -> Value?
    ) -> Value? {
        guard let value = optional(key) else { return nil }
        let converted = convert(value)
        if converted == nil { fail(in: key, "expected \(expected), found \(value.kind.name)") }
        return converted
    }

    mutating func boolean(_ key: String) -> Bool? {
        value(key, expected: "a boolean") { if case .bool(let flag) = $0 { flag } else { nil } }
    }

    mutating func integer(_ key: String, in range: ClosedRange<Int64>) -> Int64? {
        guard let number = value(key, expected: "an integer", \.numberValue) else { return nil }
        if let integer = number.int64, range.contains(integer) { return integer }
        let found = Text.printable(number.text, maximum: 64)
        fail(in: key, "expected an integer from \(range.lowerBound) to \(range.upperBound), found \(found)")
        return nil
    }

    mutating func number(_ key: String) -> Double? {
        value(key, expected: "a number", \.numberValue)?.double
    }

    /// A duration: a text such as `90s`, or a number of seconds.
    mutating func duration(_ key: String, in range: ClosedRange<Duration>) -> Duration? {
        guard let value = optional(key) else { return nil }
        let duration: Duration?
        switch value {
        case .number(let number): duration = Duration(jsonSeconds: number.double)
        case .string(let text): duration = Duration(text: text)
        default: duration = nil
        }
        guard let duration else {
            let found = value.stringValue.map { Text.quoted($0) } ?? value.kind.name
            fail(in: key, "expected seconds or \(Duration.textForm), found \(found)")
            return nil
        }
        guard range.contains(duration) else {
            let bounds = "\(range.lowerBound.text) to \(range.upperBound.text)"
            fail(in: key, "expected \(bounds), found \(duration.text)")
            return nil
        }
        return duration
    }

    /// The URL of a provider, in its normal form.
    mutating func providerURL(_ key: String) -> String? {
        guard let text = string(key, isRequired: true, maximumBytes: ProviderURL.maximumBytes) else { return nil }
        do throws(ModelError) {
            return try ProviderURL(text).description
        } catch {
            fail(in: key, error.message)
            return nil
        }
    }

    /// The members of an object, read by `read`.
    mutating func object<Value>(_ key: String, _ read: (inout MemberChecker) -> Value?) -> Value? {
        guard let value = optional(key),
            var members = MemberChecker(
                value, at: pointer(to: key), isStored: isStored, errors: &errors)
        else {
            return nil
        }
        let result = read(&members)
        members.refuseUnknown()
        append(members.errors)
        return result
    }

    /// Passes the elements of an array to `body`, each with its pointer.
    mutating func forEachElement(
        _ key: String, maximum: Int = 1000, _ body: (JSONValue, _ pointer: String, inout [ModelError]) -> Void
    ) {
        guard let values = value(key, expected: "an array", \.arrayValue) else { return }
        guard values.count <= maximum else {
            return fail(in: key, "at most \(maximum) are allowed, found \(values.count)")
        }
        for (index, value) in values.enumerated() { body(value, "\(pointer(to: key))/\(index)", &errors) }
    }

    /// The elements of an array of objects, read by `read`.
    mutating func objects<Value>(
        _ key: String, maximum: Int, _ read: (inout MemberChecker) -> Value?
    ) -> [Value] {
        var values: [Value] = []
        let isStored = isStored
        forEachElement(key, maximum: maximum) { value, pointer, errors in
            guard
                var members = MemberChecker(value, at: pointer, isStored: isStored, errors: &errors)
            else { return }
            if let value = read(&members) { values.append(value) }
            members.refuseUnknown()
            errors.append(contentsOf: members.errors)
        }
        return values
    }

    /// The members of an object whose values are texts.
    mutating func texts(_ key: String) -> [String: String] {
        guard let object = value(key, expected: "an object", \.objectValue) else { return [:] }
        var texts: [String: String] = [:]
        for member in object.members {
            guard case .string(let text) = member.value else {
                fail(
                    at: "\(JSONPointer.escape(key))/\(JSONPointer.escape(member.key))",
                    Self.expectedString(member.value))
                continue
            }
            texts[member.key] = text
        }
        return texts
    }

    /// A list of names.
    ///
    /// - Parameter skipsUnknown: leaves other names out instead of reporting them.
    mutating func list<Element>(
        _ key: String, among names: [String], skipsUnknown: Bool = false, _ convert: (String) -> Element?
    ) -> [Element]? {
        list(
            key, expected: "one of \(names.joined(separator: ", "))", names, skipsUnknown: skipsUnknown, convert)
    }

    /// A list of strings that `convert` accepts.
    mutating func list<Element>(
        _ key: String, expected: String, _ names: [String] = [], skipsUnknown: Bool = false,
        _ convert: (String) -> Element?
    ) -> [Element]? {
        guard let values = value(key, expected: "an array", \.arrayValue) else { return nil }
        var elements: [Element] = []
        for (index, value) in values.enumerated() {
            guard case .string(let text) = value, let element = convert(text) else {
                if skipsUnknown, value.stringValue != nil { continue }
                let message =
                    value.stringValue.map { Self.unexpected($0, expected: expected, among: names) }
                    ?? Self.expectedString(value)
                errors.append(ModelError(message: message, pointer: pointer(to: key) + "/\(index)"))
                continue
            }
            elements.append(element)
        }
        return elements
    }

    /// The name of an enumeration's value.
    mutating func choice<Value: NamedValue>(_ key: String) -> Value? {
        choice(key, among: Value.allCases.map(\.name), Value.init(name:))
    }

    /// A name out of a list.
    mutating func choice<Value>(_ key: String, among names: [String], _ convert: (String) -> Value?) -> Value? {
        guard let value = optional(key) else { return nil }
        guard case .string(let text) = value, let choice = convert(text) else {
            let expected = names.joined(separator: " or ")
            fail(
                in: key,
                value.stringValue.map { Self.unexpected($0, expected: expected, among: names) }
                    ?? Self.expectedString(value))
            return nil
        }
        return choice
    }

    /// Reports unknown members, those that were not read, unless they are ignored.
    mutating func refuseUnknown() {
        guard !isStored else { return }
        for key in object.keys where !known.contains(where: { Text.equal($0, key) }) {
            fail(in: key, "unknown member \(Text.quoted(key))" + key.hint(among: known))
        }
    }

    private static func expectedString(_ value: JSONValue) -> String {
        switch value {
        case .bool, .number: "expected a string in quotes, found \(value.kind.name)"
        default: "expected a string, found \(value.kind.name)"
        }
    }

    static func unexpected(_ text: String, expected: String, among names: [String]) -> String {
        "expected \(expected), found \(Text.quoted(text))" + text.hint(among: names)
    }
}
