import WidgetModel

/// Recovery of an Emoji Ranger: an entry every minute until the end, with the health as relevance.
enum EmojiRanger: SampleContent {
    private struct Hero: Sendable {
        let name: String
        let avatar: String
        let biography: String
        let url: String
    }

    private static let heroes = [
        Hero(
            name: "Power Panda", avatar: "🐼", biography: "Lives on bamboo, and never misses a meal.",
            url: "ranger:///panda"),
        Hero(
            name: "Egghead", avatar: "🦄", biography: "Thinks twice, then charges.", url: "ranger:///egghead"),
        Hero(
            name: "Spouty", avatar: "🐳", biography: "Comes up for air when a friend calls.",
            url: "ranger:///spouty"),
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
        return SampleTimeline(policy: "atEnd", entries: entries)
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
