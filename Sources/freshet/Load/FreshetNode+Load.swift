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
}
