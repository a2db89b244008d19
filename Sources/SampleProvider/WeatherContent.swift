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
        return SampleTimeline(policy: ["after": .time(now + .seconds(3_600))], entries: entries)
    }
}
