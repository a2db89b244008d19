// SPDX-License-Identifier: Apache-2.0

import JSON
package import WidgetModel

/// The apps that the sample provider serves, each under its name: `POST /bank/timelines`.
package enum SampleApp: String, CaseIterable, Sendable {
    case bank, rangers, weather, stocks, reminders, calendar
    /// For load tests: takes any kind.
    case load

    private var contents: [SampleContent] {
        switch self {
        case .bank: [.recentPurchases, .dueDate]
        case .rangers: [.emojiRanger]
        case .weather: [.cityWeather]
        case .stocks: [.stockSymbol]
        case .reminders: [.reminderLists]
        case .calendar: [.upNext]
        case .load: []
        }
    }

    var kinds: [String] { contents.map(\.rawValue) }

    func content(of kind: String) -> SampleContent? {
        self == .load ? .load : contents.first { $0.rawValue == kind }
    }
}

extension SampleApp {
    /// The apps as the demo registers them.
    ///
    /// - Parameter port: where the sample provider listens on loopback.
    package static func definitions(port: Int) -> [AppDefinition] {
        [
            app(
                SampleWorld.bank,
                kind(
                    "RecentPurchases", of: .bank, "Recent purchases", port: port,
                    // A purchase shows at once, as long as there is budget.
                    spacing: .zero, placeholder: ["card": "Card", "purchases": .array([])], intent: recentPurchases),
                kind(
                    "DueDate", of: .bank, "Due date", port: port, placeholder: ["card": "Card"],
                    intent: IntentDefinition(title: "Due date", parameters: [card]))),
            app(
                SampleWorld.rangers,
                kind(
                    "EmojiRanger", of: .rangers, "Emoji ranger", port: port, placeholder: ["name": "Ranger"],
                    intent: IntentDefinition(title: "Select hero", parameters: [hero]))),
            app(
                SampleWorld.weather,
                kind(
                    "Weather", of: .weather, "Weather", port: port, sharing: .shared, variesBy: [],
                    placeholder: ["city": "City"], widgetURL: "weather:///today")),
            app(
                SampleWorld.stocks,
                kind(
                    "Symbol", of: .stocks, "Stock", port: port,
                    intent: IntentDefinition(title: "Select symbol", parameters: [symbol]))),
            app(
                SampleWorld.reminders,
                kind(
                    "Lists", of: .reminders, "Reminders", port: port,
                    intent: IntentDefinition(title: "Select lists", parameters: [lists]))),
            app(
                SampleWorld.calendar,
                kind(
                    "UpNext", of: .calendar, "Up next", port: port,
                    intent: IntentDefinition(title: "Select calendars", parameters: calendars))),
        ]
    }

    private static let card = IntentParameter(
        name: "card", displayName: "Card", type: .custom(typeName: "Card"), hasDynamicOptions: true,
        hasDynamicDefault: true)

    private static let recentPurchases = IntentDefinition(
        title: "Recent purchases", description: "Choose a card and a category.",
        parameters: [
            card,
            IntentParameter(
                name: "category", displayName: "Category",
                type: .enumeration([
                    .init(name: "all", displayName: "All"), .init(name: "groceries", displayName: "Groceries"),
                    .init(name: "restaurants", displayName: "Restaurants"),
                    .init(name: "entertainment", displayName: "Entertainment"),
                    .init(name: "travel", displayName: "Travel"),
                ]), defaultValue: "all"),
        ], supportedCombinations: [["card"], ["card", "category"]])

    private static let hero = IntentParameter(
        name: "hero", displayName: "Hero",
        type: .enumeration(["Power Panda", "Egghead", "Spouty"].map { .init(name: $0, displayName: $0) }),
        defaultValue: "Power Panda")

    private static let symbol = IntentParameter(
        name: "symbol", displayName: "Symbol", type: .custom(typeName: "Symbol"), defaultValue: "AAPL",
        hasDynamicOptions: true, searchPrompt: "Search for a symbol")

    private static let lists = IntentParameter(
        name: "lists", displayName: "Lists", type: .custom(typeName: "List"),
        count: .fixed([.systemSmall: 3, .systemMedium: 6, .systemLarge: 6]), defaultValue: ["today"],
        hasDynamicOptions: true)

    private static let calendars = [
        IntentParameter(
            name: "mirrorsCalendarApp", displayName: "Mirror Calendar App", type: .boolean, defaultValue: true),
        IntentParameter(
            name: "calendars", displayName: "Calendar", type: .custom(typeName: "Calendar"), count: .any,
            hasDynamicOptions: true, parent: .init(name: "mirrorsCalendarApp", value: false)),
    ]

    private static func app(_ name: String, _ kinds: KindDefinition...) -> AppDefinition {
        AppDefinition(name: name, kinds: kinds)
    }

    private static func kind(
        _ name: String, of app: SampleApp, _ displayName: String, port: Int, sharing: KindSharing = .perUser,
        variesBy: KindVariation = .all, spacing: Duration = KindDefinition.defaultMinimumSpacing,
        placeholder: JSONValue = [:], widgetURL: String? = nil,
        intent: IntentDefinition? = nil
    ) -> KindDefinition {
        KindDefinition(
            name: name, displayName: displayName, description: "\(displayName), from the sample provider",
            families: [.systemSmall, .systemMedium, .systemLarge], sharing: sharing, variesBy: variesBy,
            providerURL: "http://127.0.0.1:\(port)/\(app.rawValue)", maxBatch: 100, timeout: .seconds(10),
            minimumSpacing: spacing, placeholder: placeholder, widgetURL: widgetURL, intent: intent)
    }
}

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
