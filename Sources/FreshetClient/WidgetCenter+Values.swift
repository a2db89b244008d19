import WidgetModel

extension WidgetCenter {
    /// Widgets of a request.
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
        /// BCP 47, such as `en-US`.
        public var locale: String
        /// IANA, such as `Europe/Berlin`.
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
        /// Finite.
        case decimal(Double)
        /// Of scalars.
        case list([Value])

        public init(stringLiteral value: String) { self = .string(value) }
        public init(booleanLiteral value: Bool) { self = .bool(value) }
        public init(integerLiteral value: Int) { self = .integer(value) }
        public init(floatLiteral value: Double) { self = .decimal(value) }
        public init(arrayLiteral elements: Value...) { self = .list(elements) }
        public init(nilLiteral: ()) { self = .null }
    }

    /// One placement on one device of one user.
    public struct Widget: Hashable, Sendable {
        public var id: String
        public var user: String
        public var device: String
        public var kind: String
        public var family: Family
        public var configuration: [String: Value]
        public var environment: Environment

        public init(
            id: String, user: String, device: String, kind: String, family: Family,
            configuration: [String: Value] = [:], environment: Environment
        ) {
            self.id = id
            self.user = user
            self.device = device
            self.kind = kind
            self.family = family
            self.configuration = configuration
            self.environment = environment
        }
    }
}

extension WidgetCenter.Value {
    func json() throws(ModelError) -> JSONValue {
        switch self {
        case .null: return .null
        case .string(let text): return .string(text)
        case .bool(let value): return .bool(value)
        case .integer(let value): return .number(JSONNumber(value))
        case .decimal(let value):
            guard let number = JSONNumber(value) else {
                throw ModelError(message: "expected a finite number, found \(value)")
            }
            return .number(number)
        case .list(let values):
            var elements: [JSONValue] = []
            for value in values { elements.append(try value.json()) }
            return .array(elements)
        }
    }
}

extension [String: WidgetCenter.Value] {
    /// The configuration in its canonical form.
    func configuration(_ argument: String) throws(WidgetCenterError) -> WidgetConfiguration {
        var object = JSONObject()
        do throws(ModelError) {
            for (name, value) in self { object[name] = try value.json() }
            return try WidgetConfiguration(.object(object))
        } catch {
            throw WidgetCenterError(error, argument: argument)
        }
    }
}

extension WidgetCenter.Environment {
    func model() throws(WidgetCenterError) -> WidgetEnvironment {
        do throws(ModelError) {
            return try WidgetEnvironment(locale: locale, timeZone: timeZone)
        } catch {
            throw WidgetCenterError(error, argument: "environment")
        }
    }
}

extension WidgetCenter.Family {
    /// The family with the same name.
    var model: WidgetFamily { WidgetFamily(name: rawValue) ?? .systemSmall }
}
