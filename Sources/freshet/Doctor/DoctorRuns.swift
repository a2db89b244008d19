import WidgetModel

/// Runs of the doctor for the console: one at a time, since each opens connections of its own. Findings are reused for
/// a while.
actor DoctorRuns {
    private static let age = Duration.seconds(30)

    private let run: @Sendable (_ app: String) async -> [JSONValue]
    private var latest: [String: (findings: [JSONValue], at: ContinuousClock.Instant)] = [:]
    private var last: Task<[JSONValue], Never>?

    init(run: @escaping @Sendable (_ app: String) async -> [JSONValue]) {
        self.run = run
    }

    /// Findings that concern an app, at most half a minute old.
    func findings(of app: String) async -> [JSONValue] {
        let task = Task { [last] in
            _ = await last?.value
            return await fresh(app)
        }
        last = task
        return await task.value
    }

    private func fresh(_ app: String) async -> [JSONValue] {
        latest = latest.filter { $0.value.at.duration(to: .now) < Self.age }
        if let known = latest[app] { return known.findings }
        let found = await run(app)
        latest[app] = (found, .now)
        return found
    }
}
