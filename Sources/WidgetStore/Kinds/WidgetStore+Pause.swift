import PostgresClient

extension WidgetStore {
    /// Pauses the reloads of an app, or of one of its kinds: events are still applied, but no timeline is claimed, swept or
    /// collected until it is resumed. Nothing is lost.
    ///
    /// - Returns: `nil` when there is no such app or kind.
    /// - Throws: `PostgresError`.
    package func pause(app: String, kind: String? = nil) async throws -> PauseOutcome? {
        try await set(isPaused: true, app, kind)
    }

    /// Resumes an app, or one of its kinds, and wakes the workers.
    ///
    /// - Returns: `nil` when there is no such app or kind.
    /// - Throws: `PostgresError`.
    package func resume(app: String, kind: String? = nil) async throws -> PauseOutcome? {
        let outcome = try await set(isPaused: false, app, kind)
        if outcome != nil { await notifyWorkers() }
        return outcome
    }

    private func set(isPaused: Bool, _ app: String, _ kind: String?) async throws -> PauseOutcome? {
        guard let kind else { return try await pool.query(.pauseApp(app: app, isPaused: isPaused)).first }
        return try await pool.query(.pauseKind(app: app, kind: kind, isPaused: isPaused)).first
    }

    /// Wakes the workers after a commit; only a hint, since they also look on their own.
    func notifyWorkers() async {
        _ = try? await pool.query(.notifyDue())
    }
}
