import ArgumentParser
import FreshetService
import WidgetEvents
import WidgetModel
import WidgetStore

/// A synthetic app: people with some widgets each, whose kinds go round. Everything follows from an index.
///
/// Person `i` is user `u<i>` with device `d<i>`; the widgets `w<n>` are numbered through.
struct LoadWorld: Sendable, Equatable {
    static let defaultApp = "com.example.load"

    var app = Self.defaultApp
    let users: Int
    var widgetsPerUser = 1
    let kinds: [String]
    /// Largest number of timelines in one request to the provider.
    var maxBatch = 500
    /// Whether everyone's widgets of a kind show one timeline.
    var isShared = false

    private static let environment = WidgetEnvironment(storedLocale: "en-GB", timeZone: "Europe/London")

    var widgets: Int { users * widgetsPerUser }

    func kind(of widget: Int) -> String { kinds[widget % kinds.count] }
    func person(of widget: Int) -> Int { widget / widgetsPerUser }

    /// - Parameter provider: URL without a path.
    func definition(provider: String) -> AppDefinition {
        AppDefinition(
            name: app, developerMode: true,
            kinds: kinds.map { kind in
                KindDefinition(
                    name: kind, displayName: kind, description: "for load tests",
                    families: [.systemSmall, .systemMedium], sharing: isShared ? .shared : .perUser,
                    providerURL: provider + "/load", maxBatch: maxBatch,
                    timeout: .seconds(10), placeholder: ["title": "Load"], hasSnapshots: false)
            })
    }

    func placement(_ widget: Int) -> WidgetPlacement {
        let person = person(of: widget)
        return WidgetPlacement(
            app: app, widget: "w\(widget)", user: "u\(person)", device: "d\(person)", kind: kind(of: widget),
            family: .systemSmall,
            // Two widgets of one kind of one person are two timelines.
            configuration: WidgetConfiguration(storedCanonical: "{\"account\":\"\(widget % widgetsPerUser)\"}"),
            environment: Self.environment)
    }

    /// Identity of a widget's timeline.
    func timeline(of widget: Int) -> TimelineIdentity {
        let placement = placement(widget)
        return TimelineIdentity(
            app: app, kind: placement.kind, sharing: .perUser, variesBy: .all, family: placement.family,
            configuration: placement.configuration, environment: placement.environment, user: placement.user)
    }

    /// A push for one widget.
    func reload(_ widget: Int) -> FreshetEvent {
        FreshetEvent(
            ReloadRequest(
                app: app, audience: .widget("w\(widget)"), kinds: .kinds([kind(of: widget)]), reason: .push))
    }

    /// A push for everyone and all kinds.
    var reloadOfEverything: FreshetEvent {
        FreshetEvent(ReloadRequest(app: app, audience: .everyone, kinds: .all, reason: .push))
    }
}

extension LoadWorld {
    /// A world with the kinds `Load0`, `Load1`, and so on.
    init(app: String = Self.defaultApp, users: Int, widgetsPerUser: Int = 1, kinds: Int) {
        self.init(app: app, users: users, widgetsPerUser: widgetsPerUser, kinds: (0..<kinds).map { "Load\($0)" })
    }

    /// Registers the app.
    ///
    /// - Returns: the registered kinds, in the order of the world's.
    func register(in store: WidgetStore, provider: String) async throws -> [RegisteredKind] {
        try await store.register([definition(provider: provider)])
        let directory = try await DirectoryCache(pool: store.pool).refresh()
        guard let registered = directory.apps[app] else {
            throw CommandFailure(.failure, "the app \(app) could not be registered")
        }
        let found = kinds.compactMap { directory.kind($0, of: registered) }
        guard found.count == kinds.count else {
            throw CommandFailure(.failure, "the kinds of \(app) could not be registered")
        }
        return found
    }

    /// Registers the app and imports the widgets; their timelines are due at once, in the bulk lane.
    func place(in store: WidgetStore, provider: String) async throws {
        let registered = try await register(in: store, provider: provider)
        let chunk = 20_000
        for first in stride(from: 0, to: widgets, by: chunk) {
            Terminal.progress("importing widgets: \(first) of \(widgets)")
            let time = WallClock.now()
            _ = try await store.importWidgets(
                (first..<min(first + chunk, widgets)).map { widget in
                    ImportedWidget(placement: placement(widget), kind: registered[widget % kinds.count], time: time)
                })
        }
    }
}

/// Size of the world whose widgets a scenario reloads, on the command line.
struct LoadWorldOptions: ParsableArguments {
    @Option(help: "Number of people.", transform: OptionText.number(1...10_000_000))
    var users = 50_000

    @Option(help: "Number of widgets of each person.", transform: OptionText.number(1...100))
    var widgetsPerUser = 4

    @Option(help: "Number of kinds.", transform: OptionText.number(1...1_000))
    var kinds = 20

    var world: LoadWorld { LoadWorld(users: users, widgetsPerUser: widgetsPerUser, kinds: kinds) }
}
