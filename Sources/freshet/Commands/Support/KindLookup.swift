import FreshetService
import PostgresClient
import WidgetModel
import WidgetStore

/// Look-up of kinds, with failures for commands.
enum KindLookup {
    static func kind(_ kind: String, of app: String, in store: WidgetStore) async throws -> RegisteredKind {
        let kinds = try await store.pool.query(.listKinds(app: app))
        guard let found = kinds.first(where: { Text.equal($0.definition.name, kind) }) else {
            throw notFound(kind, of: app, among: kinds)
        }
        return found
    }

    static func notFound(_ kind: String?, of app: String, in store: WidgetStore) async throws -> CommandFailure {
        notFound(kind, of: app, among: try await store.pool.query(.listKinds(app: app)))
    }

    private static func notFound(_ kind: String?, of app: String, among kinds: [RegisteredKind]) -> CommandFailure {
        guard let kind, !kinds.isEmpty else {
            return CommandFailure(
                .failure, "no app \(Text.quoted(app)) with kinds is registered; `freshet kinds list` shows all")
        }
        let meant = Suggestion.closest(to: kind, among: kinds.filter { !$0.isRetired }.map(\.definition.name))
        return CommandFailure(
            .failure,
            "app \(Text.quoted(app)) has no kind \(Text.quoted(kind))\(meant.map { "; did you mean \($0)?" } ?? "")")
    }
}
