import FreshetService
import PostgresClient
import WidgetEvents
import WidgetModel
import WidgetStore

/// Checks that the apps and kinds that events name are registered, so that they do not become dead letters.
struct TargetCheck: Sendable {
    struct Unknown: Error, Hashable, Sendable {
        let member: String
        let message: String
    }

    let directory: KindDirectory

    /// Reads the directory; nil for none, without a configured database or with `--no-check`.
    static func load(_ settings: Settings, noCheck: Bool) async throws -> TargetCheck? {
        guard !noCheck, settings.postgres.url != nil else { return nil }
        return try await settings.withPool { pool in
            try await SchemaCheck.require(on: pool)
            return TargetCheck(directory: try await DirectoryCache(pool: pool).refresh())
        }
    }

    func app(_ name: String) throws(Unknown) -> RegisteredApp {
        guard let app = directory.apps[name], Text.equal(app.name, name) else {
            let meant = Suggestion.word(for: name, among: directory.apps.keys.sorted())
            throw Unknown(member: "app", message: "no app \(Text.quoted(name)) is registered\(meant)")
        }
        return app
    }

    func kind(_ name: String, of app: RegisteredApp, member: String = "kind") throws(Unknown) -> RegisteredKind {
        guard let kind = directory.kind(name, of: app), Text.equal(kind.definition.name, name) else {
            if let kind = directory.unreadableKind(name, of: app) {
                throw Unknown(member: member, message: kind.message)
            }
            let meant = Suggestion.word(for: name, among: directory.kinds(of: app).keys.sorted())
            throw Unknown(
                member: member, message: "app \(Text.quoted(app.name)) has no kind \(Text.quoted(name))\(meant)")
        }
        return kind
    }

    func check(_ event: FreshetEvent) throws(Unknown) {
        let app = try app(event.app)
        switch event.change {
        case .reload(let request):
            guard case .kinds(let names) = request.kinds else { return }
            // A reload needs no definition.
            for name in names where directory.unreadableKind(name, of: app) == nil {
                _ = try kind(name, of: app, member: "kinds")
            }
        case .widget(.placed(let placement)): _ = try kind(placement.kind, of: app)
        case .widget, .view, .device, .person, .interaction: break
        }
    }
}
