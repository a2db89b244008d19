import WidgetModel

/// The apps that the sample provider serves, each under its name: `POST /bank/timelines`.
package enum SampleApp: String, CaseIterable, Sendable {
    case bank, rangers, weather, stocks, reminders, calendar
    /// For load tests: takes any kind.
    case load

    var kinds: [String] {
        switch self {
        case .bank: ["RecentPurchases", "DueDate"]
        case .rangers: ["EmojiRanger"]
        case .weather: ["Weather"]
        case .stocks: ["Symbol"]
        case .reminders: ["Lists"]
        case .calendar: ["UpNext"]
        case .load: []
        }
    }

    func content(of kind: String) -> (any SampleContent.Type)? {
        switch (self, kind) {
        case (.bank, "RecentPurchases"): RecentPurchases.self
        case (.bank, "DueDate"): DueDate.self
        case (.rangers, "EmojiRanger"): EmojiRanger.self
        case (.weather, "Weather"): CityWeather.self
        case (.stocks, "Symbol"): StockSymbol.self
        case (.reminders, "Lists"): ReminderLists.self
        case (.calendar, "UpNext"): UpNext.self
        case (.load, _): LoadContent.self
        default: nil
        }
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

/// A sample kind: its timelines, snapshots and placeholder, and the options of its parameters.
protocol SampleContent {
    /// Appends the members `policy` and `entries` of a timeline.
    static func writeTimeline(_ moment: SampleMoment, to writer: inout SampleWriter)
    /// Appends one entry as an object: the present state, as the gallery shows it.
    static func writeSnapshot(_ moment: SampleMoment, to writer: inout SampleWriter)
    /// Appends the placeholder as an object.
    static func writePlaceholder(_ request: SampleRequest, to writer: inout SampleWriter)
    /// Options of a parameter that match a search, in sections; nil for an unknown parameter.
    static func options(of parameter: String, search: String?) -> [SampleSection]?
    /// The dynamic defaults, by parameter.
    static var defaults: [String: SampleSection.Option] { get }
}

extension SampleContent {
    static var defaults: [String: SampleSection.Option] { [:] }
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

extension SampleWriter {
    /// The member `policy` with `{"after": date}`.
    mutating func policy(after date: Timestamp) {
        beginObject("policy")
        member("after", date)
        endObject()
    }

    /// The member `relevance`; the score in hundredths, the duration in seconds.
    mutating func relevance(hundredths: Int, duration: Int) {
        beginObject("relevance")
        member("score", hundredths: hundredths)
        member("duration", duration)
        endObject()
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
