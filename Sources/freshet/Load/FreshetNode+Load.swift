import PostgresClient
import ReloadIngest
import ReloadWorkers
import WidgetModel
import WidgetStore

// What the demo does with a node.

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

    /// Sum of the consumer positions: the number of events applied, when all were read from the topics' starts.
    func appliedEvents() async throws -> Int {
        Int(try await pool.query(ListPositions()).compactMap(\.nextOffset).reduce(0, +))
    }
}
