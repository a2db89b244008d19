import WidgetModel

/// The apps of the sample provider, as the demo registers them.
enum DemoKinds {
    /// - Parameters:
    ///   - port: where the sample provider listens on loopback.
    ///   - rules: keep spacing and budget; otherwise the apps are in developer mode, so that reloads show at once.
    static func apps(port: Int, rules: Bool) -> [AppDefinition] {
        [
            bank(named: DemoWorld.bank, port: port, rules: rules),
            AppDefinition(
                name: DemoWorld.rangers, developerMode: !rules,
                kinds: [
                    kind("EmojiRanger", of: "rangers", "Emoji ranger", port: port, placeholder: ["name": "Ranger"])
                ]),
            AppDefinition(
                name: DemoWorld.weather, developerMode: !rules,
                kinds: [
                    kind(
                        "Weather", of: "weather", "Weather", port: port, sharing: .shared, variesBy: [],
                        placeholder: ["city": "City"])
                ]),
        ]
    }

    /// The bank under a name of its own.
    static func bank(named name: String, port: Int, rules: Bool) -> AppDefinition {
        AppDefinition(
            name: name, developerMode: !rules,
            kinds: [
                kind(
                    "RecentPurchases", of: "bank", "Recent purchases", port: port,
                    placeholder: ["card": "Card", "purchases": .array([])]),
                kind("DueDate", of: "bank", "Due date", port: port, placeholder: ["card": "Card"]),
            ])
    }

    private static func kind(
        _ name: String, of app: String, _ displayName: String, port: Int, sharing: KindSharing = .perUser,
        variesBy: KindVariation = .all, placeholder: JSONValue
    ) -> KindDefinition {
        KindDefinition(
            name: name, displayName: displayName, description: "\(displayName), from the sample provider",
            families: [.systemSmall, .systemMedium, .systemLarge], sharing: sharing, variesBy: variesBy,
            providerURL: "http://127.0.0.1:\(port)/\(app)", maxBatch: 100, timeout: .seconds(10),
            placeholder: placeholder)
    }
}
