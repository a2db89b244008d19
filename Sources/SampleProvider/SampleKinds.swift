package import WidgetModel

/// The apps of the sample provider, as the demo registers them.
package enum SampleKinds {
    /// In developer mode, so that reloads show at once.
    ///
    /// - Parameter port: where the sample provider listens on loopback.
    package static func apps(port: Int) -> [AppDefinition] {
        [
            AppDefinition(
                name: SampleWorld.bank, developerMode: true,
                kinds: [
                    kind(
                        "RecentPurchases", of: "bank", "Recent purchases", port: port,
                        placeholder: ["card": "Card", "purchases": .array([])]),
                    kind("DueDate", of: "bank", "Due date", port: port, placeholder: ["card": "Card"]),
                ]),
            AppDefinition(
                name: SampleWorld.rangers, developerMode: true,
                kinds: [
                    kind("EmojiRanger", of: "rangers", "Emoji ranger", port: port, placeholder: ["name": "Ranger"])
                ]),
            AppDefinition(
                name: SampleWorld.weather, developerMode: true,
                kinds: [
                    kind(
                        "Weather", of: "weather", "Weather", port: port, sharing: .shared, variesBy: [],
                        placeholder: ["city": "City"])
                ]),
        ]
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
