import WidgetModel

/// The apps of the sample provider, as the demo registers them.
enum DemoKinds {
    /// - Parameters:
    ///   - port: where the sample provider listens on loopback.
    ///   - rules: keep spacing and budget; otherwise the apps are in developer mode, so that reloads show at once.
    static func apps(port: Int, rules: Bool) -> [AppDefinition] {
        func kind(
            _ name: String, of app: String, _ displayName: String, sharing: KindSharing = .perUser,
            variesBy: KindVariation = .all, placeholder: JSONValue
        ) -> KindDefinition {
            KindDefinition(
                name: name, displayName: displayName, description: "\(displayName), from the sample provider",
                families: [.systemSmall, .systemMedium, .systemLarge], sharing: sharing, variesBy: variesBy,
                providerURL: "http://127.0.0.1:\(port)/\(app)", maxBatch: 100, timeout: .seconds(10),
                placeholder: placeholder)
        }
        return [
            AppDefinition(
                name: DemoWorld.bank, developerMode: !rules,
                kinds: [
                    kind(
                        "RecentPurchases", of: "bank", "Recent purchases",
                        placeholder: ["card": "Card", "purchases": .array([])]),
                    kind("DueDate", of: "bank", "Due date", placeholder: ["card": "Card"]),
                ]),
            AppDefinition(
                name: DemoWorld.rangers, developerMode: !rules,
                kinds: [kind("EmojiRanger", of: "rangers", "Emoji ranger", placeholder: ["name": "Ranger"])]),
            AppDefinition(
                name: DemoWorld.weather, developerMode: !rules,
                kinds: [
                    kind(
                        "Weather", of: "weather", "Weather", sharing: .shared, variesBy: [],
                        placeholder: ["city": "City"])
                ]),
        ]
    }
}
