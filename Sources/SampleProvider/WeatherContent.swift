import WidgetModel

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

    static func writeTimeline(_ moment: SampleMoment, to writer: inout SampleWriter) {
        let now = moment.now.wholeSecond
        var random = moment.random(withRevision: true)
        writer.policy(after: now + .seconds(3_600))
        writer.beginArray("entries")
        for hour in 0..<hours {
            writeEntry(moment, at: now + .seconds(3_600 * hour), random: &random, to: &writer)
        }
        writer.endArray()
    }

    static func writeSnapshot(_ moment: SampleMoment, to writer: inout SampleWriter) {
        var random = moment.random(withRevision: true)
        writeEntry(moment, at: moment.now.wholeSecond, random: &random, to: &writer)
    }

    static func writePlaceholder(_ request: SampleRequest, to writer: inout SampleWriter) {
        writer.beginObject()
        writer.member("city", "City")
        writer.member("temperature", 20)
        writer.endObject()
    }

    private static func writeEntry(
        _ moment: SampleMoment, at date: Timestamp, random: inout SampleRandom, to writer: inout SampleWriter
    ) {
        let condition = random.pick(conditions)
        writer.beginObject()
        writer.member("date", date)
        writer.beginObject("content")
        writer.member("city", moment.parameter("city", default: cities[0]))
        writer.member("revision", moment.revision)
        writer.member("temperature", random.integer(in: -10...35))
        writer.member("condition", condition)
        writer.endObject()
        // Surface what matters: a thunderstorm, not a small change of temperature.
        if condition == "thunderstorm" { writer.relevance(hundredths: 100, duration: 3_600) }
        writer.endObject()
    }
}
