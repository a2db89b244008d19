/// Reads the members of a JSON object and collects everything that is wrong with them.
struct MemberChecker {
    private let object: JSONObject
    private let pointer: String
    private var known: [String] = []
    private(set) var errors: [ModelError] = []

    /// Nil, with an error, when `value` is no object.
    init?(_ value: JSONValue, at pointer: String, errors: inout [ModelError]) {
        guard case .object(let object) = value else {
            errors.append(
                ModelError(message: "expected an object, found \(value.kind.name)", pointer: pointer))
            return nil
        }
        self.object = object
        self.pointer = pointer
    }

    func pointer(to key: String) -> String { pointer + "/" + JSONPointer.escape(key) }

    mutating func fail(_ key: String, _ message: String) {
        errors.append(ModelError(message: message, pointer: pointer(to: key)))
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
        fail(key, "required member \(Text.quoted(key)) is missing")
        return nil
    }

    mutating func string(_ key: String, _ value: JSONValue?, maximumBytes: Int, mayBeEmpty: Bool = false) -> String? {
        guard let value else { return nil }
        guard case .string(let text) = value else {
            fail(key, "expected a string, found \(value.kind.name)")
            return nil
        }
        guard mayBeEmpty || !text.isEmpty else {
            fail(key, "must not be empty")
            return nil
        }
        guard text.utf8.count <= maximumBytes else {
            fail(key, "must be at most \(maximumBytes) bytes, is \(text.utf8.count)")
            return nil
        }
        guard !Text.containsControlCharacter(text) else {
            fail(key, "must not contain control characters")
            return nil
        }
        return text
    }

    mutating func boolean(_ key: String) -> Bool? {
        guard let value = optional(key) else { return nil }
        guard case .bool(let flag) = value else {
            fail(key, "expected a boolean, found \(value.kind.name)")
            return nil
        }
        return flag
    }

    mutating func integer(_ key: String, in range: ClosedRange<Int64>) -> Int64? {
        guard let value = optional(key) else { return nil }
        guard case .number(let number) = value else {
            fail(key, "expected an integer, found \(value.kind.name)")
            return nil
        }
        guard let integer = number.int64, range.contains(integer) else {
            fail(key, "expected an integer from \(range.lowerBound) to \(range.upperBound), found \(number.text)")
            return nil
        }
        return integer
    }

    /// A duration as a number of seconds or a text such as `90s`.
    mutating func duration(_ key: String, in range: ClosedRange<Duration>) -> Duration? {
        guard let value = optional(key) else { return nil }
        let duration: Duration?
        switch value {
        case .number(let number): duration = DurationText.seconds(number.double)
        case .string(let text): duration = DurationText.parse(text)
        default: duration = nil
        }
        guard let duration else {
            fail(key, "expected seconds or a text such as 90s, 5m, 24h, 14d, found \(value.kind.name)")
            return nil
        }
        guard range.contains(duration) else {
            fail(
                key,
                "expected \(DurationText.format(range.lowerBound)) to \(DurationText.format(range.upperBound)), found "
                    + DurationText.format(duration))
            return nil
        }
        return duration
    }

    /// Elements of a list that `convert` knows; each other one is an error.
    mutating func list<Element>(
        _ key: String, expected: String, _ convert: (String) -> Element?
    ) -> [Element]? {
        guard let value = optional(key) else { return nil }
        guard case .array(let values) = value else {
            fail(key, "expected an array, found \(value.kind.name)")
            return nil
        }
        var elements: [Element] = []
        for (index, value) in values.enumerated() {
            let place = pointer(to: key) + "/\(index)"
            guard case .string(let text) = value else {
                errors.append(ModelError(message: "expected a string, found \(value.kind.name)", pointer: place))
                continue
            }
            guard let element = convert(text) else {
                errors.append(ModelError(message: "expected \(expected), found \(Text.quoted(text))", pointer: place))
                continue
            }
            elements.append(element)
        }
        return elements
    }

    /// One of some names.
    mutating func choice<Value>(_ key: String, expected: String, _ convert: (String) -> Value?) -> Value? {
        guard let value = optional(key) else { return nil }
        guard case .string(let text) = value else {
            fail(key, "expected a string, found \(value.kind.name)")
            return nil
        }
        guard let choice = convert(text) else {
            fail(key, "expected \(expected), found \(Text.quoted(text))")
            return nil
        }
        return choice
    }

    /// Complains of every member that was not asked for: what a person has misspelt.
    mutating func refuseUnknown() {
        for key in object.keys where !known.contains(where: { Text.equal($0, key) }) {
            fail(key, "unknown member \(Text.quoted(key))")
        }
    }
}

/// Durations as manifests write them.
package enum DurationText {
    private static let units: [(name: String, milliseconds: Double)] = [
        ("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000),
    ]

    /// A number with a unit: `100ms`, `10s`, `5m`, `24h`, `14d`.
    package static func parse(_ text: String) -> Duration? {
        for unit in units where text.hasSuffix(unit.name) {
            let digits = text.dropLast(unit.name.count)
            guard !digits.isEmpty, digits.utf8.allSatisfy({ (48...57).contains($0) || $0 == UInt8(ascii: ".") }),
                let number = Double(digits)
            else { continue }
            return seconds(number * unit.milliseconds / 1000)
        }
        return nil
    }

    /// The largest unit that leaves no fraction.
    package static func format(_ duration: Duration) -> String {
        let milliseconds = duration.wholeMicroseconds / 1000
        for unit in units.reversed() where milliseconds % Int64(unit.milliseconds) == 0 {
            if milliseconds == 0 { break }
            return "\(milliseconds / Int64(unit.milliseconds))\(unit.name)"
        }
        return "\(milliseconds)ms"
    }

    /// To the millisecond; nil when it is negative or beyond a thousand years.
    static func seconds(_ seconds: Double) -> Duration? {
        guard seconds >= 0, seconds < 3.2e10 else { return nil }
        return .milliseconds(Int64((seconds * 1000).rounded()))
    }

    /// Seconds as a JSON number.
    static func json(_ duration: Duration) -> JSONValue {
        let milliseconds = duration.wholeMicroseconds / 1000
        if milliseconds % 1000 == 0 { return .number(JSONNumber(Int(milliseconds / 1000))) }
        return JSONNumber(Double(milliseconds) / 1000).map(JSONValue.number) ?? .null
    }
}
