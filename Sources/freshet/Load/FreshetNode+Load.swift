import PostgresClient
import ReloadIngest
import ReloadWorkers
import WidgetModel
import WidgetStore

// What the demo and the load scenarios do with a node.

extension FreshetNode {
    /// - Throws: ``CommandFailure`` when the database holds timelines: what is counted would not be the run's own.
    func requireEmptyDatabase() async throws {
        guard try await pool.query(Overview()).first?.timelines == 0 else {
            throw CommandFailure(.failure, "the database holds timelines already; expected an empty one")
        }
    }

    /// Registers apps, with secrets of their own.
    func register(_ apps: [AppDefinition]) async throws {
        _ = try await store.apply(apps, secrets: [:]) { (0..<32).map { _ in UInt8.random(in: 0...255) } }
    }

    /// Imports the widgets of a registered app; their timelines are due at once, in the bulk lane.
    func importWidgets(of app: LoadApp) async throws {
        let directory = try await DirectoryCache(pool: pool).refresh()
        guard let registered = directory.apps[app.name] else {
            throw CommandFailure(.failure, "the app \(app.name) could not be registered")
        }
        let kinds = app.kinds.compactMap { directory.kind($0, of: registered) }
        guard kinds.count == app.kinds.count else {
            throw CommandFailure(.failure, "the kinds of \(app.name) could not be registered")
        }
        let chunk = 10_000
        for first in stride(from: 0, to: app.people, by: chunk) {
            let time = SampleProvider.systemTime()
            _ = try await store.importWidgets(
                (first..<min(first + chunk, app.people)).map { index in
                    ImportedWidget(placement: app.placement(index), kind: kinds[index % kinds.count], time: time)
                })
        }
    }

    /// Sum of the consumer positions: the number of events applied, when all were read from the topics' starts.
    func appliedEvents() async throws -> Int {
        Int(try await pool.query(ListPositions()).compactMap(\.nextOffset).reduce(0, +))
    }

    /// Waits until `published` events are applied, no timeline is due, and none is behind.
    ///
    /// - Parameter patience: how long nothing may move before it gives up; what is missing then is in the answer.
    /// - Returns: the counts over the whole store at the end.
    func settled(published: Int, patience: Duration = .seconds(60)) async throws -> Overview.Row {
        var progress = try await progress()
        var since = ContinuousClock.now
        while true {
            let isStuck = since.duration(to: .now) > patience
            // The cheap questions first: the overview looks at every timeline.
            let isQuiet =
                if try await appliedEvents() >= published, try await pool.query(DueWork(limit: 1)).isEmpty {
                    try await pool.query(KindsToSweep(highWater: 1)).isEmpty
                } else {
                    false
                }
            if isQuiet || isStuck, let overview = try await pool.query(Overview()).first {
                if isStuck { return overview }
                if overview.due == 0, overview.leased == 0, overview.sweeps == 0, overview.stale == 0 {
                    return overview
                }
            }
            try await Task.sleep(for: .milliseconds(isQuiet ? 500 : 50))
            let now = try await self.progress()
            if now != progress { (progress, since) = (now, .now) }
        }
    }

    /// Changes while anything is applied, claimed or completed.
    private func progress() async throws -> [Int] {
        let statistics = statistics()
        return [
            try await appliedEvents(), statistics.workers?.claimed ?? 0, statistics.workers?.completed ?? 0,
            statistics.workers?.swept ?? 0,
        ]
    }
}
