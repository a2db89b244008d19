import PostgresClient
import WidgetStore

/// Tells, when apps and kinds have been registered, of the events that were kept because they were not.
enum KeptEvents {
    private static let countLimit = 100_000

    /// On standard error, with the command that replays them.
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
