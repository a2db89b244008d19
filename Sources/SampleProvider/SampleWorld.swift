package import WidgetModel

/// The people of the sample apps and their widgets: all of it follows from an index, so that nothing has to be
/// remembered.
package struct SampleWorld: Sendable {
    package static let bank = "com.example.bank"
    package static let rangers = "com.example.rangers"
    package static let weather = "com.example.weather"
    package static let stocks = "com.example.stocks"
    package static let reminders = "com.example.reminders"
    package static let calendar = "com.example.calendar"

    /// Widgets a person has: two of recent purchases, one due date, one ranger, the weather.
    package static let widgetsPerUser = 5

    private static let categories = ["all", "groceries", "restaurants", "entertainment", "travel"]
    private static let cards = ["acme", "soup", "metro", "everyday"]
    private static let heroes = ["Power Panda", "Egghead", "Spouty"]
    private static let families: [WidgetFamily] = [.systemSmall, .systemMedium]
    static let cityCount = 40

    package let widgets: Int

    package init(widgets: Int) {
        self.widgets = widgets
    }

    package var users: Int { max(1, (widgets + Self.widgetsPerUser - 1) / Self.widgetsPerUser) }

    package func user(_ index: Int) -> String { "u\(index)" }

    /// Distinct timelines: one a widget, but for the weather, which people of a city share.
    package var distinctTimelines: Int {
        let shared = (0..<widgets).lazy.filter { $0 % Self.widgetsPerUser == 4 }.count
        return widgets - shared + min(shared, Self.cityCount)
    }

    package func placement(_ index: Int) -> WidgetPlacement {
        let user = index / Self.widgetsPerUser
        let app: String
        let kind: String
        let configuration: [(String, String)]
        switch index % Self.widgetsPerUser {
        case 0:
            (app, kind) = (Self.bank, "RecentPurchases")
            configuration = [("card", "acme"), ("category", "all")]
        case 1:
            (app, kind) = (Self.bank, "RecentPurchases")
            configuration = [
                ("card", Self.cards[user % Self.cards.count]),
                ("category", Self.categories[1 + user % (Self.categories.count - 1)]),
            ]
        case 2:
            (app, kind) = (Self.bank, "DueDate")
            configuration = [("card", Self.cards[user % Self.cards.count])]
        case 3:
            (app, kind) = (Self.rangers, "EmojiRanger")
            configuration = [("hero", Self.heroes[user % Self.heroes.count])]
        default:
            (app, kind) = (Self.weather, "Weather")
            configuration = [("city", "City \(user % Self.cityCount)")]
        }
        return WidgetPlacement(
            app: app, widget: "w\(index)", user: self.user(user), device: "d\(user)", kind: kind,
            family: Self.families[user % Self.families.count], configuration: Self.configuration(configuration),
            environment: WidgetEnvironment(storedLocale: "en-GB", timeZone: "Europe/London"))
    }

    package static func configuration(_ members: [(String, String)]) -> WidgetConfiguration {
        var object = JSONObject()
        for (key, value) in members { object[key] = .string(value) }
        // Scalars only, so it cannot be refused.
        return (try? WidgetConfiguration(.object(object))) ?? .empty
    }
}
