import WidgetEvents
import WidgetModel

/// An app of a load scenario: people with one widget each, of the kinds in turn. Everything follows from an index.
struct LoadApp: Sendable {
    let name: String
    let people: Int
    var kinds = ["RecentPurchases", "DueDate"]

    private static let environment = WidgetEnvironment(storedLocale: "en-GB", timeZone: "Europe/London")

    /// - Parameter port: where the sample provider listens on loopback.
    func definition(port: Int) -> AppDefinition {
        DemoKinds.bank(named: name, port: port, rules: false)
    }

    func user(_ index: Int) -> String { "u\(index)" }

    func kind(_ index: Int) -> String { kinds[index % kinds.count] }

    func placement(_ index: Int) -> WidgetPlacement {
        WidgetPlacement(
            app: name, widget: "w\(index)", user: user(index), device: "d\(index)", kind: kind(index),
            family: .systemSmall, environment: Self.environment)
    }

    /// The timeline of a person's widget.
    func timeline(_ index: Int) -> TimelineID {
        let placement = placement(index)
        return TimelineIdentity(
            app: name, kind: placement.kind, sharing: .perUser, variesBy: .all, family: placement.family,
            configuration: placement.configuration, environment: placement.environment, user: placement.user
        ).id
    }

    /// What a service of the app publishes for one person.
    func reload(_ index: Int) -> FreshetEvent {
        .push(ReloadRequest(app: name, audience: .user(user(index)), kinds: .kinds([kind(index)]), reason: .push))
    }

    /// A reload of everything.
    var reloadOfEverything: FreshetEvent {
        .push(ReloadRequest(app: name, audience: .everyone, kinds: .all, reason: .push))
    }
}
