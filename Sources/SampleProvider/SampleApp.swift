import WidgetModel

/// The apps that the sample provider serves, each under its name: `POST /bank/timelines`.
package enum SampleApp: String, CaseIterable, Sendable {
    case bank, rangers, weather, stocks, reminders, calendar
    /// For load tests: takes any kind.
    case load

    private var contents: KeyValuePairs<String, any SampleContent.Type> {
        switch self {
        case .bank: ["RecentPurchases": RecentPurchases.self, "DueDate": DueDate.self]
        case .rangers: ["EmojiRanger": EmojiRanger.self]
        case .weather: ["Weather": CityWeather.self]
        case .stocks: ["Symbol": StockSymbol.self]
        case .reminders: ["Lists": ReminderLists.self]
        case .calendar: ["UpNext": UpNext.self]
        case .load: [:]
        }
    }

    var kinds: [String] { contents.map(\.key) }

    func content(of kind: String) -> (any SampleContent.Type)? {
        self == .load ? LoadContent.self : contents.first { $0.key == kind }?.value
    }
}

/// Inputs of a timeline's content; nothing else affects it.
struct SampleMoment: Sendable {
    var request: SampleRequest
    /// Number that grows with every fetch of the same content, so that reloads are visible.
    var revision: Int
    var seed: UInt64
    var now: Timestamp

    /// Random numbers of this content: the same for every revision, or, with the revision, different for each.
    func random(withRevision: Bool) -> SampleRandom {
        SampleRandom(seed: seed ^ request.identity ^ (withRevision ? SampleRandom.mix(UInt64(revision)) : 0))
    }

    /// A parameter of the configuration, or its default.
    func parameter(_ name: String, default defaultValue: String) -> String {
        request.parameters[name] ?? defaultValue
    }
}

/// Policy and entries of a timeline.
struct SampleTimeline {
    let policy: JSONValue
    /// The first one is the present state, as the gallery shows it.
    let entries: [JSONValue]
}

/// A sample kind: its timelines and placeholder, and the options of its parameters.
protocol SampleContent {
    static func timeline(_ moment: SampleMoment) -> SampleTimeline
    static var placeholder: JSONValue { get }
    /// Options of a parameter that match a search, in sections; nil for an unknown parameter.
    static func options(of parameter: String, search: String?) -> [SampleSection]?
    /// The dynamic defaults, by parameter.
    static var defaults: [String: SampleSection.Option] { get }
}

extension SampleContent {
    static var placeholder: JSONValue { [:] }
    static var defaults: [String: SampleSection.Option] { [:] }

    static func options(of parameter: String, search: String?) -> [SampleSection]? { nil }
}

/// Options under a title.
struct SampleSection: Sendable, Equatable {
    var title: String
    var options: [Option]

    /// An option: its identifier in the configuration, and its name for people.
    struct Option: Sendable, Equatable {
        var identifier: String
        var display: String
    }

    init(_ title: String, _ options: [(String, String)]) {
        self.init(title, options.map { Option(identifier: $0.0, display: $0.1) })
    }

    init(_ title: String, _ options: [Option]) {
        self.title = title
        self.options = options
    }
}

extension JSONValue {
    /// Money as text, which keeps its two digits wherever it is read.
    static func amount(_ cents: Int) -> JSONValue { .string("\(cents / 100).\(cents / 10 % 10)\(cents % 10)") }

    /// - Parameter duration: in seconds.
    static func relevance(hundredths: Int, duration: Int) -> JSONValue {
        ["score": .rounded(Double(hundredths) / 100), "duration": .count(duration)]
    }
}

extension Timestamp {
    /// The start of the UTC day that this time falls in.
    var startOfDay: Timestamp {
        let day: Int64 = 86_400_000_000
        let (quotient, remainder) = microseconds.quotientAndRemainder(dividingBy: day)
        return Timestamp(microseconds: (remainder < 0 ? quotient - 1 : quotient) * day)
    }

    /// The time without its fraction of a second.
    var wholeSecond: Timestamp {
        let (quotient, remainder) = microseconds.quotientAndRemainder(dividingBy: 1_000_000)
        return Timestamp(microseconds: (remainder < 0 ? quotient - 1 : quotient) * 1_000_000)
    }
}
