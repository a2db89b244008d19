import WidgetEvents
import WidgetModel
import WidgetStore

/// An app of a load scenario: people with some widgets each, whose kinds go round. Everything follows from an index: of a
/// person, or of a widget over all of them.
struct LoadWorld: Sendable {
    static let app = "com.example.load"

    var app = Self.app
    let users: Int
    let widgetsPerUser: Int
    let kinds: Int
    /// Most timelines in one request to the provider.
    var maxBatch = 500

    private static let environment = WidgetEnvironment(storedLocale: "en-GB", timeZone: "Europe/London")

    var widgets: Int { users * widgetsPerUser }

    /// - Parameter provider: URL without a path.
    func definition(provider: String) -> AppDefinition {
        AppDefinition(
            name: app, developerMode: true,
            kinds: (0..<kinds).map { index in
                KindDefinition(
                    name: kind(index), displayName: kind(index), description: "for load tests",
                    families: [.systemSmall, .systemMedium], providerURL: provider + "/load", maxBatch: maxBatch,
                    timeout: .seconds(10), placeholder: ["title": "Load"], hasSnapshots: false)
            })
    }

    func kind(_ widget: Int) -> String { "Load\(widget % kinds)" }

    func user(of widget: Int) -> String { "u\(widget / widgetsPerUser)" }

    func placement(_ widget: Int) -> WidgetPlacement {
        let user = widget / widgetsPerUser
        return WidgetPlacement(
            app: app, widget: "w\(widget)", user: "u\(user)", device: "d\(user)", kind: kind(widget),
            family: .systemSmall, configuration: configuration(widget), environment: Self.environment)
    }

    /// Two widgets of one kind of one person are two timelines.
    private func configuration(_ widget: Int) -> WidgetConfiguration {
        WidgetConfiguration(storedCanonical: "{\"account\":\"\(widget % widgetsPerUser)\"}")
    }

    /// The timeline of a widget.
    func timeline(_ widget: Int) -> TimelineID {
        let placement = placement(widget)
        return TimelineIdentity(
            app: app, kind: placement.kind, sharing: .perUser, variesBy: .all, family: placement.family,
            configuration: placement.configuration, environment: placement.environment, user: placement.user
        ).id
    }

    /// What a service of the app publishes about one widget.
    func reload(_ widget: Int) -> FreshetEvent {
        .push(
            ReloadRequest(
                app: app, audience: .widget("w\(widget)"), kinds: .kinds([kind(widget)]), reason: .push))
    }
}

extension LoadWorld {
    /// Registers the app and imports the widgets; their timelines are due at once, in the bulk lane.
    func place(in store: WidgetStore, provider: String) async throws {
        _ = try await store.apply([definition(provider: provider)], secrets: [:]) {
            (0..<32).map { _ in UInt8.random(in: 0...255) }
        }
        let directory = try await DirectoryCache(pool: store.pool).refresh()
        guard let registeredApp = directory.apps[app] else {
            throw CommandFailure(.failure, "the app \(app) could not be registered")
        }
        let registered = (0..<kinds).compactMap { directory.kind(kind($0), of: registeredApp) }
        guard registered.count == kinds else {
            throw CommandFailure(.failure, "the kinds of \(app) could not be registered")
        }
        let chunk = 20_000
        for first in stride(from: 0, to: widgets, by: chunk) {
            Terminal.progress("importing widgets: \(first) of \(widgets)")
            let time = SampleProvider.systemTime()
            _ = try await store.importWidgets(
                (first..<min(first + chunk, widgets)).map { widget in
                    ImportedWidget(placement: placement(widget), kind: registered[widget % kinds], time: time)
                })
        }
    }
}
