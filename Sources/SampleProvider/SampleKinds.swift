package import WidgetModel

/// The apps of the sample provider, as the demo registers them.
package enum SampleKinds {
    /// In developer mode, so that reloads show at once.
    ///
    /// - Parameter port: where the sample provider listens on loopback.
    package static func apps(port: Int) -> [AppDefinition] {
        [
            app(
                SampleWorld.bank,
                kind(
                    "RecentPurchases", of: .bank, "Recent purchases", port: port,
                    placeholder: ["card": "Card", "purchases": .array([])], intent: recentPurchases),
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
        AppDefinition(name: name, developerMode: true, kinds: kinds)
    }

    private static func kind(
        _ name: String, of app: SampleApp, _ displayName: String, port: Int, sharing: KindSharing = .perUser,
        variesBy: KindVariation = .all, placeholder: JSONValue = [:], widgetURL: String? = nil,
        intent: IntentDefinition? = nil
    ) -> KindDefinition {
        KindDefinition(
            name: name, displayName: displayName, description: "\(displayName), from the sample provider",
            families: [.systemSmall, .systemMedium, .systemLarge], sharing: sharing, variesBy: variesBy,
            providerURL: "http://127.0.0.1:\(port)/\(app.rawValue)", maxBatch: 100, timeout: .seconds(10),
            placeholder: placeholder, widgetURL: widgetURL, intent: intent)
    }
}
