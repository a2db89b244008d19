import FreshetService
import PostgresClient
import WidgetStore

/// Hints at kept events of newly registered apps and kinds.
enum KeptEvents {
    private static let countLimit = 100_000

    /// Prints the hints on standard error, with the command that replays the events.
    static func tell(of apps: [String], in store: WidgetStore) async throws {
        for app in apps {
            for cause in [DeadLetterCause.unknownApp, .unknownKind] {
                let filter = DeadLetterFilter(owner: .app(app), causes: [cause])
                let count = try await store.pool.query(CountDeadLetters(filter, limit: countLimit)).first ?? 0
                guard count > 0 else { continue }
                let many = count < countLimit ? "\(count)" : "at least \(count)"
                let why = cause == .unknownApp ? "while it was not registered" : "for kinds that it did not have"
                Terminal.complain(
                    "\(many) events of \(app) were kept \(why): "
                        + "`freshet dead-letters replay --app \(app) --cause \(cause.rawValue)` applies them")
            }
        }
    }
}
