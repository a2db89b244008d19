import KafkaClient
import PostgresClient
import Synchronization
import WidgetStore

/// Notices that a position of this process's partitions was moved from outside (`freshet positions set`), also of one
/// that has nothing to read, where no failed compare-and-set would tell.
final class PositionWatch: Sendable {
    private let pool: PostgresPool
    private let interval: Duration
    private let epochs = Mutex<[TopicPartition: Int64]>([:])

    init(pool: PostgresPool, interval: Duration) {
        self.pool = pool
        self.interval = interval
    }

    /// The epochs that this process has taken, of the partitions that it holds.
    func hold(_ epochs: [TopicPartition: Int64]) {
        self.epochs.withLock { $0 = epochs }
    }

    /// Looks at an interval; returns true once an epoch has been ahead twice in a row. Once may be a rebalance whose
    /// revocation is on its way.
    ///
    /// - Throws: `CancellationError`.
    func waitUntilMoved() async throws -> Bool {
        var suspects: [TopicPartition: Int64] = [:]
        while true {
            try await Task.sleep(for: interval)
            // While the database is away nothing can be said.
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
