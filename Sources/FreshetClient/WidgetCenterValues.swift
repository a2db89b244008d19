// SPDX-License-Identifier: Apache-2.0

import JSON
import WidgetEvents
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

// MARK: - As the model has them

extension WidgetCenter.Audience {
    func model() throws(ModelError) -> Audience {
        switch self {
        case .user(let id): .user(try id.identifier("/audience/user"))
        case .device(let id): .device(try id.identifier("/audience/device"))
        case .widget(let id): .widget(try id.identifier("/audience/widget"))
        case .everyone: .everyone
        }
    }
}

extension WidgetCenter.Environment {
    var model: WidgetEnvironment { WidgetEnvironment(reportedLocale: locale, timeZone: timeZone) }
}

extension WidgetCenter.Value {
    /// - Parameter pointer: JSON pointer to the value within the event.
    fileprivate func json(_ pointer: String) throws(ModelError) -> JSONValue {
        switch self {
        case .null: return .null
        case .string(let text): return .string(text)
        case .bool(let value): return .bool(value)
        case .integer(let value):
            guard Int(exactly: Double(value)) == value else {
                throw ModelError(
                    message: "the number \(value) cannot be kept exactly; use a string", pointer: pointer)
            }
            return .number(JSONNumber(value))
        case .decimal(let value):
            guard let number = JSONNumber(value) else {
                throw ModelError(message: "expected a finite number, found \(value)", pointer: pointer)
            }
            return .number(number)
        case .list(let values):
            var elements: [JSONValue] = []
            for (index, value) in values.enumerated() { elements.append(try value.json("\(pointer)/\(index)")) }
            return .array(elements)
        }
    }
}

extension [String: WidgetCenter.Value] {
    /// - Parameter pointer: JSON pointer to the configuration within the event.
    func configuration(_ pointer: String) throws(ModelError) -> WidgetConfiguration {
        var object = JSONObject()
        for (name, value) in self { object[name] = try value.json("\(pointer)/\(JSONPointer.escape(name))") }
        do throws(ModelError) {
            return try WidgetConfiguration(.object(object))
        } catch {
            throw ModelError(message: error.message, pointer: pointer + error.pointer)
        }
    }
}

extension WidgetCenter.RelevantShortcut {
    /// - Parameter pointer: JSON pointer to the shortcut within the event.
    func model(_ pointer: String) throws(ModelError) -> RelevantShortcut {
        let content = WidgetContent(
            app: "", kind: try kind.identifier("\(pointer)/kind"),
            configuration: try configuration.configuration("\(pointer)/configuration"))
        let role = try role?.identifier("\(pointer)/role", maximumBytes: EventDecoder.maximumRoleBytes) ?? ""
        guard ranges.count <= EventDecoder.maximumRanges else {
            throw ModelError(
                message: "more than \(EventDecoder.maximumRanges) ranges", pointer: "\(pointer)/ranges")
        }
        var times: [Range<Timestamp>] = []
        for (index, range) in ranges.enumerated() {
            let (begin, end) = (try range.lowerBound.timestamp, try range.upperBound.timestamp)
            guard begin < end else {
                throw ModelError(
                    message: "a range must end after it begins", pointer: "\(pointer)/ranges/\(index)")
            }
            times.append(begin..<end)
        }
        return RelevantShortcut(
            content: content, role: role, ranges: times.sorted { $0.lowerBound < $1.lowerBound })
    }
}

extension String {
    /// The text, if it can be an identifier.
    ///
    /// - Parameter pointer: JSON pointer to the text within the event.
    func identifier(
        _ pointer: String, maximumBytes: Int = Text.maximumIdentifierBytes
    ) throws(ModelError) -> String {
        if let problem = Text.identifierProblem(self, maximumBytes: maximumBytes) {
            throw ModelError(message: problem, pointer: pointer)
        }
        return self
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
