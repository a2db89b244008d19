package import KafkaClient
import PostgresClient
package import WidgetEvents
package import WidgetModel
package import WidgetStore

/// Steps of runs that need a database of their own: the demo and the load tests.
extension WidgetStore {
    /// - Throws: ``CommandFailure`` if the database holds timelines, because the run would count them as its own.
    package func requireEmpty() async throws {
        guard try await pool.query(Statements.overview()).first?.timelines == 0 else {
            throw CommandFailure(.failure, "the database holds timelines already; expected an empty one")
        }
    }

    /// Registers apps, each with a new secret.
    package func register(_ apps: [AppDefinition]) async throws {
        _ = try await apply(apps, secrets: [:]) { (0..<32).map { _ in UInt8.random(in: 0...255) } }
    }

    /// Number of applied events, for an ingest that has read the topics from their beginning: the sum of the consumer
    /// positions.
    package func appliedEvents() async throws -> Int {
        Int(try await pool.query(.listPositions()).compactMap(\.nextOffset).reduce(0, +))
    }
}

extension EventPosition {
    /// Position of a stored event; nil if Kafka does not report it.
    package init?(_ delivery: KafkaDelivery, of event: FreshetEvent) {
        guard let offset = delivery.offset, let topic = EventTopic.allCases.firstIndex(of: event.type.topic) else {
            return nil
        }
        self.init(topic: Int16(topic), partition: delivery.partition, offset: offset)
    }
}
