import KafkaClient
import PostgresClient
import Synchronization
import WidgetStore

/// Detects positions that were set from outside (`freshet positions set`), also of partitions without messages, which no
/// failed compare-and-set would reveal.
final class PositionWatch: Sendable {
    private let pool: PostgresPool
    private let interval: Duration
    private let epochs = Mutex<[TopicPartition: Int64]>([:])

    init(pool: PostgresPool, interval: Duration) {
        self.pool = pool
        self.interval = interval
    }

    /// Sets the epochs of the process's partitions.
    func hold(_ epochs: [TopicPartition: Int64]) {
        self.epochs.withLock { $0 = epochs }
    }

    /// Polls the stored epochs and returns true once one was ahead twice in a row. Once may be a rebalance whose revocation
    /// is still to come.
    ///
    /// - Throws: `CancellationError`.
    func waitUntilMoved() async throws -> Bool {
        var suspects: [TopicPartition: Int64] = [:]
        while true {
            try await Task.sleep(for: interval)
            guard let stored = try? await pool.query(ListPositions()) else { continue }
            let ahead = Self.ahead(epochs.withLock { $0 }, stored: stored)
            if ahead.contains(where: { suspects[$0.key] == $0.value }) { return true }
            suspects = ahead
        }
    }

    /// The held partitions whose stored epoch is higher, with that epoch.
    static func ahead(_ held: [TopicPartition: Int64], stored: [ListPositions.Row]) -> [TopicPartition: Int64] {
        var ahead: [TopicPartition: Int64] = [:]
        for row in stored {
            let partition = TopicPartition(topic: row.topic, partition: row.partition)
            if let epoch = held[partition], row.epoch > epoch { ahead[partition] = row.epoch }
        }
        return ahead
    }
}
