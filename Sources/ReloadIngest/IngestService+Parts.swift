import KafkaClient
import Synchronization

/// A backlog is applied in several transactions at a time: one connection marks one row after another.
extension IngestService {
    /// Applies a batch: a large one of requests that hardly fold in parts beside each other, each of whole partitions.
    func applyInParts(
        _ batch: PreparedBatch, _ positions: inout PartitionPositions, _ consumer: KafkaConsumer
    ) async throws {
        let epochs = positions.epochs
        let isDivisible = shape.withLock { $0.isDivisible }
        let parts = isDivisible ? batch.parts(limit: configuration.connections, least: configuration.leastPart) : []
        guard !parts.isEmpty else {
            var batch = batch
            return try await apply(batch.items, of: &batch, under: epochs, &positions, consumer)
        }
        statistics.update { $0.dividedBatches += 1 }
        let shares = parts.map { (part: $0, positions: positions.split(off: $0.places)) }
        try await withThrowingTaskGroup(of: PartitionPositions.self) { group in
            for share in shares {
                group.addTask {
                    var (batch, positions) = (batch, share.positions)
                    try await self.apply(share.part.items, of: &batch, under: epochs, &positions, consumer)
                    return positions
                }
            }
            for try await part in group { positions.merge(part) }
        }
    }
}
