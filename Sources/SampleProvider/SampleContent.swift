import Foundation
import JSON
import Randomness
import WidgetModel

/// The purchases made last with a card, of one category or all.
enum RecentPurchases: SampleContent {
    private static let cards = SampleSection(
        "Credit", [("acme", "Acme Card"), ("soup", "Soup Pay"), ("metro", "Metro Gold")])
    private static let debitCards = SampleSection("Debit", [("everyday", "Everyday Account")])
    private static let merchants: [(name: String, category: String)] = [
        ("Corner Grocer", "groceries"), ("Green Market", "groceries"), ("Soup Place", "restaurants"),
        ("Noodle Bar", "restaurants"), ("City Cinema", "entertainment"), ("Vinyl Store", "entertainment"),
        ("Night Train", "travel"), ("Harbour Hotel", "travel"),
    ]

    private static let cardNames = Dictionary(
        uniqueKeysWithValues: (cards.options + debitCards.options).map { ($0.identifier, $0.display) })

    static func options(of parameter: String, search: String?) -> [SampleSection]? {
        parameter == "card" ? [cards, debitCards].matching(search) : nil
    }

    /// The primary card.
    static var defaults: [String: SampleSection.Option] { ["card": cards.options[0]] }
    static var placeholder: JSONValue { ["card": "Card", "purchases": []] }

    static func timeline(_ moment: SampleMoment) -> SampleTimeline {
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
}

/// Due date of a card's next payment: an entry for each day until then.
enum DueDate: SampleContent {
    static func options(of parameter: String, search: String?) -> [SampleSection]? {
        RecentPurchases.options(of: parameter, search: search)
    }

    static var defaults: [String: SampleSection.Option] { RecentPurchases.defaults }
    static var placeholder: JSONValue { ["card": "Card", "daysLeft": 0] }

    static func timeline(_ moment: SampleMoment) -> SampleTimeline {
        let days = SampleDays(of: moment)
        let due = dueDate(moment, days)
        var random = moment.random(withRevision: true)
        let card = moment.parameter("card", default: "acme")
        let payment: JSONValue = [
            "card": .string(card), "dueDate": .time(due), "minimum": .amount(random.integer(in: 1_000...9_900)),
        ]
        var entries: [JSONValue] = []
        var date = moment.now.wholeSecond
        repeat {
            let daysLeft = days.count(from: date, to: due)
            entries.append([
                "date": .time(date),
                "content": ["payment": payment, "revision": .count(moment.revision), "daysLeft": .count(daysLeft)],
                // The nearer, the likelier to be shown: 1 on the day itself.
                "relevance": .relevance(hundredths: 100 / (daysLeft + 1), duration: 86_400),
                "url": .string("bank:///cards/\(card)/payments"),
            ])
            date = days.midnight(after: date)
        } while date <= due
        // Not at midnight, when the timelines of everyone would be requested.
        let next = days.midnight(after: due) + .seconds(1 + Int(moment.request.identity % 3_599))
        return (policy: ["after": .time(next)], entries: entries)
    }

    /// The next day on which a payment is due, which comes every fourteen days; the same for every revision.
    private static func dueDate(_ moment: SampleMoment, _ days: SampleDays) -> Timestamp {
        var random = moment.random(withRevision: false)
        let today = days.number(of: moment.now)
        let sinceLast = (today + random.integer(in: 0...13)) % 14
        return days.midnight(ofDay: today + (14 - sinceLast) % 14)
    }
}

/// Days in the time zone of a request.
struct SampleDays {
    private static let day: Int64 = 86_400_000_000
    private let clock: LocalClock

    init(of moment: SampleMoment) {
        clock = moment.request.timeZone.flatMap { LocalClock(timeZone: $0) } ?? .utc
    }

    /// Number of a local day since 1970.
    func number(of time: Timestamp) -> Int {
        Int((time + clock.offset(at: time)).startOfDay.microseconds / Self.day)
    }

    func midnight(ofDay number: Int) -> Timestamp {
        // The offset that is in force at the local midnight, of which the first one may be an hour off.
        let midnight = Timestamp(microseconds: Int64(number) * Self.day)
        let near = midnight - clock.offset(at: midnight)
        return midnight - clock.offset(at: near)
    }

    func midnight(after time: Timestamp) -> Timestamp { midnight(ofDay: number(of: time) + 1) }

    func count(from start: Timestamp, to end: Timestamp) -> Int { number(of: end) - number(of: start) }
}

/// Recovery of an Emoji Ranger: an entry every minute until the end, with the health as relevance.
enum EmojiRanger: SampleContent {
    private typealias Hero = (name: String, avatar: String, biography: String, url: String)

    private static let heroes: [Hero] = [
        (
            "Power Panda", "🐼", "Lives on bamboo, and never misses a meal.",
            "ranger:///panda"
        ),
        (
            "Egghead", "🦄", "Thinks twice, then charges.", "ranger:///egghead"
        ),
        (
            "Spouty", "🐳", "Comes up for air when a friend calls.",
            "ranger:///spouty"
        ),
    ]

    static var placeholder: JSONValue { ["hero": "Ranger", "health": 1] }

    static func timeline(_ moment: SampleMoment) -> SampleTimeline {
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
}

/// The weather of a city: the same for everyone who chose the city, so a shared kind.
enum CityWeather: SampleContent {
    private static let conditions = ["sunny", "cloudy", "rain", "fog", "snow", "thunderstorm"]
    private static let cities = [
        "Amsterdam", "Berlin", "Cupertino", "Helsinki", "Lisbon", "Nairobi", "Osaka", "Quito", "Sydney", "Vienna",
    ]
    private static let hours = 6

    static func options(of parameter: String, search: String?) -> [SampleSection]? {
        parameter == "city" ? [SampleSection("Cities", cities.map { ($0, $0) })].matching(search) : nil
    }

    static var placeholder: JSONValue { ["city": "City", "temperature": 20] }

    static func timeline(_ moment: SampleMoment) -> SampleTimeline {
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
}

/// Content with one entry that is reloaded after an hour.
protocol OneEntryContent: SampleContent {
    /// The entry's content, except its revision.
    static func content(_ moment: SampleMoment) -> JSONValue
    static func url(_ moment: SampleMoment) -> String
}

extension OneEntryContent {
    static func timeline(_ moment: SampleMoment) -> SampleTimeline {
        let now = moment.now.wholeSecond
        let entry: JSONValue = [
            "date": .time(now), "content": content(moment).adding("revision", .count(moment.revision)),
            "url": .string(url(moment)),
        ]
        return (policy: ["after": .time(now + .seconds(3_600))], entries: [entry])
    }
}

/// The price of any stock: the list offers some, the search finds all.
enum StockSymbol: OneEntryContent {
    private static let popular = SampleSection("Popular", [("AAPL", "Apple"), ("DIS", "Disney"), ("NKE", "Nike")])

    static func options(of parameter: String, search: String?) -> [SampleSection]? {
        guard parameter == "symbol" else { return nil }
        let found = [popular].matching(search)
        guard let search, !search.isEmpty, found.isEmpty else { return found }
        return [SampleSection("Symbols", [(search.uppercased(), search.uppercased())])]
    }

    static func content(_ moment: SampleMoment) -> JSONValue {
        var random = moment.random(withRevision: true)
        return [
            "symbol": .string(moment.parameter("symbol", default: "AAPL")),
            "price": .amount(random.integer(in: 1_000...90_000)),
        ]
    }

    static func url(_ moment: SampleMoment) -> String { "stocks:///\(moment.parameter("symbol", default: "AAPL"))" }
}

/// Reminders of several lists: three in a small widget, six in a larger one.
enum ReminderLists: OneEntryContent {
    private static let lists = SampleSection(
        "Lists",
        [
            ("today", "Today"), ("groceries", "Groceries"), ("work", "Work"), ("garden", "Garden"), ("books", "Books"),
            ("travel", "Travel"), ("gifts", "Gifts"),
        ])

    static func options(of parameter: String, search: String?) -> [SampleSection]? {
        parameter == "lists" ? [lists].matching(search) : nil
    }

    static func content(_ moment: SampleMoment) -> JSONValue {
        var random = moment.random(withRevision: true)
        let shown = (moment.request.lists["lists"] ?? ["today"]).map { list -> JSONValue in
            let name = lists.options.first { $0.identifier == list }?.display ?? list
            return ["name": .string(name), "open": .count(random.integer(in: 0...20))]
        }
        return ["lists": .array(shown)]
    }

    static func url(_ moment: SampleMoment) -> String { "reminders:///" }
}

/// The next event: of the calendars that the Calendar app shows, or of chosen ones.
enum UpNext: OneEntryContent {
    private static let calendars = [
        SampleSection("iCloud", [("home", "Home"), ("work", "Work")]),
        SampleSection("Other", [("holidays", "Holidays"), ("birthdays", "Birthdays")]),
    ]

    static func options(of parameter: String, search: String?) -> [SampleSection]? {
        parameter == "calendars" ? calendars.matching(search) : nil
    }

    static func content(_ moment: SampleMoment) -> JSONValue {
        var random = moment.random(withRevision: true)
        return [
            "calendar": .string(moment.request.lists["calendars"]?.first ?? "home"),
            "minutesLeft": .count(random.integer(in: 1...600)),
        ]
    }

    static func url(_ moment: SampleMoment) -> String { "calendar:///next" }
}
