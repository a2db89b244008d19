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

    /// The heroes are the cases of an enumeration.
    static func options(of parameter: String, search: String?) -> [SampleSection]? { nil }

    static func writeTimeline(_ moment: SampleMoment, to writer: inout SampleWriter) {
        let now = moment.now.wholeSecond
        let end = recovery(moment)
        let hero = hero(moment)
        let portrait = portrait(of: hero, moment, end: end)
        writer.member("policy", "atEnd")
        writer.beginArray("entries")
        for date in healingDates(from: now, until: end) {
            writeEntry(of: hero, portrait, revision: moment.revision, at: date, start: now, end: end, to: &writer)
        }
        writer.endArray()
    }

    static func writeSnapshot(_ moment: SampleMoment, to writer: inout SampleWriter) {
        let now = moment.now.wholeSecond
        let end = recovery(moment)
        let hero = hero(moment)
        writeEntry(
            of: hero, portrait(of: hero, moment, end: end), revision: moment.revision, at: now, start: now, end: end,
            to: &writer)
    }

    static func writePlaceholder(_ request: SampleRequest, to writer: inout SampleWriter) {
        writer.beginObject()
        writer.member("hero", "Ranger")
        writer.member("health", hundredths: 100)
        writer.endObject()
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

    /// End of the recovery: ten minutes after the fetch.
    private static func recovery(_ moment: SampleMoment) -> Timestamp {
        moment.now.wholeSecond + .seconds(600)
    }

    private static func hero(_ moment: SampleMoment) -> Hero {
        let wanted = moment.parameter("hero", default: heroes[0].name)
        return heroes.first { $0.name == wanted } ?? heroes[0]
    }

    /// Content that all entries of a timeline share, as JSON.
    private static func portrait(of hero: Hero, _ moment: SampleMoment, end: Timestamp) -> [UInt8] {
        var random = moment.random(withRevision: false)
        var writer = SampleWriter(reserving: 256)
        writer.beginObject()
        writer.member("name", hero.name)
        writer.member("avatar", hero.avatar)
        writer.member("level", random.integer(in: 1...9))
        writer.member("experience", random.integer(in: 0...99) + moment.revision * 100)
        writer.member("recoversAt", end)
        if moment.request.family != "systemSmall" {
            writer.member("biography", hero.biography)
        }
        writer.endObject()
        return writer.bytes
    }

    private static func writeEntry(
        of hero: Hero, _ portrait: [UInt8], revision: Int, at date: Timestamp, start: Timestamp, end: Timestamp,
        to writer: inout SampleWriter
    ) {
        let health = health(at: date, from: start, until: end)
        writer.beginObject()
        writer.member("date", date)
        writer.beginObject("content")
        writer.member("hero", raw: portrait)
        writer.member("revision", revision)
        writer.member("health", hundredths: health)
        writer.endObject()
        // Shown while it lasts: until the next entry with relevance.
        writer.relevance(hundredths: health, duration: 0)
        writer.member("url", hero.url)
        writer.endObject()
    }
}
