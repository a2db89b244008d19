import JSON
import WidgetModel

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

extension WidgetCenter {
    /// Widgets that a request addresses.
    public enum Audience: Hashable, Sendable {
        case user(String)
        case device(String)
        case widget(String)
        case everyone
    }

    /// Whether the app is in the foreground. Changes in the foreground cost no budget.
    public enum AppState: Hashable, Sendable {
        case foreground, background
    }

    /// Size and place of a widget.
    public enum Family: String, CaseIterable, Sendable {
        case systemSmall, systemMedium, systemLarge, systemExtraLarge
        case accessoryCircular, accessoryRectangular, accessoryInline
    }

    /// Properties of the device that providers need.
    public struct Environment: Hashable, Sendable {
        /// BCP 47 language tag, such as `en-US`.
        public var locale: String
        /// IANA time zone, such as `Europe/Berlin`.
        public var timeZone: String

        public init(locale: String, timeZone: String) {
            self.locale = locale
            self.timeZone = timeZone
        }
    }

    /// The value of one parameter of a widget's configuration.
    public enum Value: Hashable, Sendable, ExpressibleByStringLiteral, ExpressibleByBooleanLiteral,
        ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral, ExpressibleByArrayLiteral, ExpressibleByNilLiteral
    {
        case null
        case string(String)
        case bool(Bool)
        case integer(Int)
        /// A finite number.
        case decimal(Double)
        /// A list of scalars.
        case list([Value])

        public init(stringLiteral value: String) { self = .string(value) }
        public init(booleanLiteral value: Bool) { self = .bool(value) }
        public init(integerLiteral value: Int) { self = .integer(value) }
        public init(floatLiteral value: Double) { self = .decimal(value) }
        public init(arrayLiteral elements: Value...) { self = .list(elements) }
        public init(nilLiteral: ()) { self = .null }
    }

    /// A widget that is relevant to a person.
    public struct RelevantShortcut: Hashable, Sendable {
        public var kind: String
        public var configuration: [String: Value]
        /// Reason for the relevance, as a word that the app chooses; at most 64 bytes.
        public var role: String?
        /// Times of relevance, at most 24. If empty, the shortcut is relevant when the person usually looks.
        public var ranges: [Range<Date>]

        public init(
            kind: String, configuration: [String: Value] = [:], role: String? = nil, ranges: [Range<Date>] = []
        ) {
            self.kind = kind
            self.configuration = configuration
            self.role = role
            self.ranges = ranges
        }
    }
}

// MARK: - As members of an event's data

extension WidgetCenter.Audience {
    var json: JSONValue {
        switch self {
        case .user(let id): ["user": .string(id)]
        case .device(let id): ["device": .string(id)]
        case .widget(let id): ["widget": .string(id)]
        case .everyone: ["everyone": true]
        }
    }
}

extension WidgetCenter.Environment {
    var json: JSONValue { ["locale": .string(locale), "timeZone": .string(timeZone)] }
}

extension WidgetCenter.Value {
    /// - Parameter pointer: JSON pointer to the value within the data.
    fileprivate func json(_ pointer: String) throws(ModelError) -> JSONValue {
        switch self {
        case .null: return .null
        case .string(let text): return .string(text)
        case .bool(let value): return .bool(value)
        case .integer(let value): return .number(JSONNumber(value))
        case .decimal(let value):
            guard let number = JSONNumber(value) else {
                throw ModelError(message: "expected a finite number, found \(value)", pointer: pointer)
            }
            return .number(number)
        case .list(let values):
            var elements: [JSONValue] = []
            for value in values { elements.append(try value.json(pointer)) }
            return .array(elements)
        }
    }
}

extension [String: WidgetCenter.Value] {
    /// - Parameter pointer: JSON pointer to the configuration within the data.
    func json(_ pointer: String) throws(ModelError) -> JSONValue {
        var object = JSONObject()
        for (name, value) in self { object[name] = try value.json("\(pointer)/\(JSONPointer.escape(name))") }
        return .object(object)
    }
}

extension WidgetCenter.RelevantShortcut {
    func json() throws(ModelError) -> JSONValue {
        var times: [JSONValue] = []
        for range in ranges {
            times.append([
                "from": .time(try range.lowerBound.timestamp), "until": .time(try range.upperBound.timestamp),
            ])
        }
        return [
            "kind": .string(kind), "configuration": try configuration.json("/shortcuts"), "role": .text(role),
            "ranges": .array(times),
        ]
    }
}

extension Date {
    /// Microseconds since 1970. Throws if RFC 3339 cannot express the time.
    var timestamp: Timestamp {
        get throws(ModelError) {
            // No range contains NaN.
            guard (0..<253_402_300_800).contains(timeIntervalSince1970) else {
                throw ModelError(message: "expected a date from 1970 to 9999")
            }
            return Timestamp(microseconds: Int64((timeIntervalSince1970 * 1_000_000).rounded(.down)))
        }
    }
}
