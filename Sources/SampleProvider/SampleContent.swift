// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import Randomness
import WidgetModel

/// The kinds of the sample apps: their timelines and placeholders, and the options of their parameters.
enum SampleContent: String, Sendable {
    /// The purchases made last with a card, of one category or all.
    case recentPurchases = "RecentPurchases"
    /// Due date of a card's next payment: an entry for each day until then.
    case dueDate = "DueDate"
    /// Recovery of an Emoji Ranger: an entry every minute until the end, with the health as relevance.
    case emojiRanger = "EmojiRanger"
    /// The weather of a city: the same for everyone who chose the city, so a shared kind.
    case cityWeather = "Weather"
    /// The price of any stock: the list offers some, the search finds all.
    case stockSymbol = "Symbol"
    /// Reminders of several lists: three in a small widget, six in a larger one.
    case reminderLists = "Lists"
    /// The next event: of the calendars that the Calendar app shows, or of chosen ones.
    case upNext = "UpNext"
    /// Timelines for load tests, different at each request. Kinds can have any name. ``LoadAnswer`` is the fast way,
    /// which injects no faults.
    case load

    func timeline(_ moment: SampleMoment) -> SampleTimeline {
        switch self {
        case .recentPurchases: Self.purchases(moment)
        case .dueDate: Self.payments(moment)
        case .emojiRanger: Self.recovery(moment)
        case .cityWeather: Self.weather(moment)
        case .stockSymbol: Self.price(moment)
        case .reminderLists: Self.reminders(moment)
        case .upNext: Self.nextEvent(moment)
        case .load: Self.balances(moment)
        }
    }

    var placeholder: JSONValue {
        switch self {
        case .recentPurchases: ["card": "Card", "purchases": []]
        case .dueDate: ["card": "Card", "daysLeft": 0]
        case .emojiRanger: ["hero": "Ranger", "health": 1]
        case .cityWeather: ["city": "City", "temperature": 20]
        case .stockSymbol, .reminderLists, .upNext, .load: [:]
        }
    }

    /// Options of a parameter that match a search, in sections; nil for an unknown parameter.
    func options(of parameter: String, search: String?) -> [SampleSection]? {
        switch (self, parameter) {
        case (.recentPurchases, "card"), (.dueDate, "card"):
            return [Self.creditCards, Self.debitCards].matching(search)
        case (.cityWeather, "city"):
            return [SampleSection(title: "Cities", options: Self.cities.map { ($0, $0) })].matching(search)
        case (.stockSymbol, "symbol"):
            let found = [Self.popularSymbols].matching(search)
            guard let symbol = search?.uppercased(), !symbol.isEmpty, found.isEmpty else { return found }
            return [SampleSection(title: "Symbols", options: [(symbol, symbol)])]
        case (.reminderLists, "lists"): return [Self.lists].matching(search)
        case (.upNext, "calendars"): return Self.calendars.matching(search)
        default: return nil
        }
    }

    /// The dynamic defaults, by parameter: the primary card.
    var defaults: [String: SampleSection.Option] {
        switch self {
        case .recentPurchases, .dueDate: ["card": Self.creditCards.options[0]]
        case .emojiRanger, .cityWeather, .stockSymbol, .reminderLists, .upNext, .load: [:]
        }
    }
}

/// Options under a title.
struct SampleSection: Sendable {
    /// An option: its identifier in the configuration, and its name for people.
    typealias Option = (identifier: String, display: String)

    var title: String
    var options: [Option]
}

extension [SampleSection] {
    /// The options that a search finds; nil finds everything.
    fileprivate func matching(_ term: String?) -> [SampleSection] {
        guard let term = term?.lowercased(), !term.isEmpty else { return self }
        return compactMap { section in
            let found = section.options.filter {
                $0.display.lowercased().contains(term) || $0.identifier.lowercased().contains(term)
            }
            return found.isEmpty ? nil : SampleSection(title: section.title, options: found)
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
    func random(withRevision: Bool) -> SeededGenerator {
        SeededGenerator(seed: seed ^ request.identity ^ (withRevision ? SeededGenerator.mix(UInt64(revision)) : 0))
    }

    /// A parameter of the configuration, or its default.
    func parameter(_ name: String, default defaultValue: String) -> String {
        request.parameters[name] ?? defaultValue
    }
}

/// Policy and entries of a timeline; the first entry is the present state, as the gallery shows it.
typealias SampleTimeline = (policy: JSONValue, entries: [JSONValue])

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

extension SampleContent {
    // MARK: Bank

    private static let creditCards = SampleSection(
        title: "Credit", options: [("acme", "Acme Card"), ("soup", "Soup Pay"), ("metro", "Metro Gold")])
    private static let debitCards = SampleSection(title: "Debit", options: [("everyday", "Everyday Account")])
    private static let merchants: [(name: String, category: String)] = [
        ("Corner Grocer", "groceries"), ("Green Market", "groceries"), ("Soup Place", "restaurants"),
        ("Noodle Bar", "restaurants"), ("City Cinema", "entertainment"), ("Vinyl Store", "entertainment"),
        ("Night Train", "travel"), ("Harbour Hotel", "travel"),
    ]

    private static let cardNames = Dictionary(
        uniqueKeysWithValues: (creditCards.options + debitCards.options).map { ($0.identifier, $0.display) })

    private static func purchases(_ moment: SampleMoment) -> SampleTimeline {
        let now = moment.now.wholeSecond
        var random = moment.random(withRevision: true)
        let card = moment.parameter("card", default: "acme")
        let category = moment.parameter("category", default: "all")
        let choices = merchants.filter { category == "all" || $0.category == category }
        let count = moment.request.family == "systemSmall" ? 1 : moment.request.family == "systemLarge" ? 6 : 3
        var latest = 0
        let purchases = (0..<count).map { index -> JSONValue in
            let cents = random.integer(in: 100...12_000)
            if index == 0 { latest = cents }
            let merchant = choices.isEmpty ? (name: "Other", category: category) : random.pick(choices)
            return [
                "merchant": .string(merchant.name), "category": .string(merchant.category), "amount": .amount(cents),
                "time": .time(now - .seconds(index * 3_600 + random.integer(in: 0...1_800))),
            ]
        }
        let entry: JSONValue = [
            "date": .time(now),
            "content": [
                "card": .string(cardNames[card] ?? card), "category": .string(category),
                "revision": .count(moment.revision), "generatedAt": .time(now), "purchases": .array(purchases),
            ],
            // Over $50 matters, for half an hour.
            "relevance": .relevance(hundredths: latest > 5_000 ? 100 : 10, duration: 1_800),
            "url": .string("bank:///cards/\(card)"),
        ]
        return (policy: ["after": .time(now + .seconds(30 * 60))], entries: [entry])
    }

    private static func payments(_ moment: SampleMoment) -> SampleTimeline {
        let clock = moment.request.timeZone.flatMap { LocalClock(timeZone: $0) } ?? .utc
        let due = dueDate(moment, clock)
        var random = moment.random(withRevision: true)
        let card = moment.parameter("card", default: "acme")
        let payment: JSONValue = [
            "card": .string(card), "dueDate": .time(due), "minimum": .amount(random.integer(in: 1_000...9_900)),
        ]
        var entries: [JSONValue] = []
        var date = moment.now.wholeSecond
        repeat {
            let daysLeft = clock.dayNumber(of: due) - clock.dayNumber(of: date)
            entries.append([
                "date": .time(date),
                "content": ["payment": payment, "revision": .count(moment.revision), "daysLeft": .count(daysLeft)],
                // The nearer, the likelier to be shown: 1 on the day itself.
                "relevance": .relevance(hundredths: 100 / (daysLeft + 1), duration: 86_400),
                "url": .string("bank:///cards/\(card)/payments"),
            ])
            date = clock.midnight(after: date)
        } while date <= due
        // Not at midnight, when the timelines of everyone would be requested.
        let next = clock.midnight(after: due) + .seconds(1 + Int(moment.request.identity % 3_599))
        return (policy: ["after": .time(next)], entries: entries)
    }

    /// The next day on which a payment is due, which comes every fourteen days; the same for every revision.
    private static func dueDate(_ moment: SampleMoment, _ clock: LocalClock) -> Timestamp {
        var random = moment.random(withRevision: false)
        let today = clock.dayNumber(of: moment.now)
        let sinceLast = (today + random.integer(in: 0...13)) % 14
        return clock.midnight(ofDay: today + (14 - sinceLast) % 14)
    }

    // MARK: Rangers

    private typealias Hero = (name: String, avatar: String, biography: String, url: String)

    private static let heroes: [Hero] = [
        ("Power Panda", "🐼", "Lives on bamboo, and never misses a meal.", "ranger:///panda"),
        ("Egghead", "🦄", "Thinks twice, then charges.", "ranger:///egghead"),
        ("Spouty", "🐳", "Comes up for air when a friend calls.", "ranger:///spouty"),
    ]

    private static func recovery(_ moment: SampleMoment) -> SampleTimeline {
        let now = moment.now.wholeSecond
        // Ten minutes after the fetch.
        let end = now + .seconds(600)
        let wanted = moment.parameter("hero", default: heroes[0].name)
        let hero = heroes.first { $0.name == wanted } ?? heroes[0]
        let portrait = portrait(of: hero, moment, end: end)
        let entries = healingDates(from: now, until: end).map { date -> JSONValue in
            let health = health(at: date, from: now, until: end)
            return [
                "date": .time(date),
                "content": [
                    "hero": portrait, "revision": .count(moment.revision), "health": .rounded(Double(health) / 100),
                ],
                // Shown while it lasts: until the next entry with relevance.
                "relevance": .relevance(hundredths: health, duration: 0), "url": .string(hero.url),
            ]
        }
        return (policy: "atEnd", entries: entries)
    }

    /// Every minute from `start` while before `end`, at least the start: healed in ten minutes, there are ten entries.
    static func healingDates(from start: Timestamp, until end: Timestamp) -> [Timestamp] {
        var dates = [start]
        var date = start + .seconds(60)
        while date < end {
            dates.append(date)
            date = date + .seconds(60)
        }
        return dates
    }

    /// The health at `date` in hundredths: half at the start, all at the end.
    static func health(at date: Timestamp, from start: Timestamp, until end: Timestamp) -> Int {
        let whole = end.microseconds - start.microseconds
        guard whole > 0, date < end else { return 100 }
        return 50 + Int(50 * (date.microseconds - start.microseconds) / whole)
    }

    /// Content that all entries of a timeline share.
    private static func portrait(of hero: Hero, _ moment: SampleMoment, end: Timestamp) -> JSONValue {
        var random = moment.random(withRevision: false)
        let portrait: JSONValue = [
            "name": .string(hero.name), "avatar": .string(hero.avatar), "level": .count(random.integer(in: 1...9)),
            "experience": .count(random.integer(in: 0...99) + moment.revision * 100), "recoversAt": .time(end),
        ]
        return moment.request.family == "systemSmall"
            ? portrait : portrait.adding("biography", .string(hero.biography))
    }

    // MARK: Weather

    private static let conditions = ["sunny", "cloudy", "rain", "fog", "snow", "thunderstorm"]
    private static let cities = [
        "Amsterdam", "Berlin", "Cupertino", "Helsinki", "Lisbon", "Nairobi", "Osaka", "Quito", "Sydney", "Vienna",
    ]
    private static let hours = 6

    private static func weather(_ moment: SampleMoment) -> SampleTimeline {
        let now = moment.now.wholeSecond
        var random = moment.random(withRevision: true)
        let entries = (0..<hours).map { hour -> JSONValue in
            let condition = random.pick(conditions)
            let entry: JSONValue = [
                "date": .time(now + .seconds(3_600 * hour)),
                "content": [
                    "city": .string(moment.parameter("city", default: cities[0])), "revision": .count(moment.revision),
                    "temperature": .count(random.integer(in: -10...35)), "condition": .string(condition),
                ],
            ]
            // Surface what matters: a thunderstorm, not a small change of temperature.
            return condition == "thunderstorm"
                ? entry.adding("relevance", .relevance(hundredths: 100, duration: 3_600)) : entry
        }
        return (policy: ["after": .time(now + .seconds(3_600))], entries: entries)
    }

    /// A timeline with one entry that is reloaded after an hour.
    ///
    /// - Parameter content: the entry's content, except its revision.
    private static func hourly(_ moment: SampleMoment, _ content: JSONValue, url: String) -> SampleTimeline {
        let now = moment.now.wholeSecond
        let entry: JSONValue = [
            "date": .time(now), "content": content.adding("revision", .count(moment.revision)), "url": .string(url),
        ]
        return (policy: ["after": .time(now + .seconds(3_600))], entries: [entry])
    }

    // MARK: Stocks

    private static let popularSymbols = SampleSection(
        title: "Popular", options: [("AAPL", "Apple"), ("DIS", "Disney"), ("NKE", "Nike")])

    private static func price(_ moment: SampleMoment) -> SampleTimeline {
        var random = moment.random(withRevision: true)
        let symbol = moment.parameter("symbol", default: "AAPL")
        return hourly(
            moment, ["symbol": .string(symbol), "price": .amount(random.integer(in: 1_000...90_000))],
            url: "stocks:///\(symbol)")
    }

    // MARK: Reminders

    private static let lists = SampleSection(
        title: "Lists",
        options: [
            ("today", "Today"), ("groceries", "Groceries"), ("work", "Work"), ("garden", "Garden"), ("books", "Books"),
            ("travel", "Travel"), ("gifts", "Gifts"),
        ])

    private static func reminders(_ moment: SampleMoment) -> SampleTimeline {
        var random = moment.random(withRevision: true)
        let shown = (moment.request.lists["lists"] ?? ["today"]).map { list -> JSONValue in
            let name = lists.options.first { $0.identifier == list }?.display ?? list
            return ["name": .string(name), "open": .count(random.integer(in: 0...20))]
        }
        return hourly(moment, ["lists": .array(shown)], url: "reminders:///")
    }

    // MARK: Calendar

    private static let calendars = [
        SampleSection(title: "iCloud", options: [("home", "Home"), ("work", "Work")]),
        SampleSection(title: "Other", options: [("holidays", "Holidays"), ("birthdays", "Birthdays")]),
    ]

    private static func nextEvent(_ moment: SampleMoment) -> SampleTimeline {
        var random = moment.random(withRevision: true)
        let calendar = moment.request.lists["calendars"]?.first ?? "home"
        return hourly(
            moment, ["calendar": .string(calendar), "minutesLeft": .count(random.integer(in: 1...600))],
            url: "calendar:///next")
    }

    // MARK: Load tests

    private static func balances(_ moment: SampleMoment) -> SampleTimeline {
        let day = moment.now.startOfDay
        let entries = ["Balance", "Pending", "Available"].enumerated().map { index, title -> JSONValue in
            [
                "date": .time(day + .seconds(index * 86_400)),
                "content": ["revision": .count(moment.revision), "title": .string(title)],
            ]
        }
        return (policy: ["after": .time(day + .seconds(2 * 86_400))], entries: entries)
    }
}

extension LocalClock {
    private static let day: Int64 = 86_400_000_000

    /// Number of a local day since 1970.
    fileprivate func dayNumber(of time: Timestamp) -> Int {
        Int((time + offset(at: time)).startOfDay.microseconds / Self.day)
    }

    fileprivate func midnight(ofDay number: Int) -> Timestamp {
        // The offset that is in force at the local midnight, of which the first one may be an hour off.
        let midnight = Timestamp(microseconds: Int64(number) * Self.day)
        let near = midnight - offset(at: midnight)
        return midnight - offset(at: near)
    }

    fileprivate func midnight(after time: Timestamp) -> Timestamp { midnight(ofDay: dayNumber(of: time) + 1) }
}
