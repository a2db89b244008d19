import KafkaClient
import Synchronization

/// A backlog is applied in several transactions at a time: one connection marks one row after another.
extension IngestService {
    /// With fewer marks than this for an event, a batch is applied in one transaction: where many events fold onto few
    /// timelines, one for all of them has the least to write.
    private static let leastMarksShare = 0.5

    /// Applies a batch: a large one of requests that hardly fold in parts beside each other, each of whole partitions.
    func applyInParts(
        _ batch: PreparedBatch, _ positions: inout PartitionPositions, _ consumer: KafkaConsumer
    ) async throws {
        let epochs = positions.epochs
        let isFolding = folding.withLock { $0 } < Self.leastMarksShare
        let parts = isFolding ? [] : batch.parts(limit: configuration.connections, least: configuration.leastPart)
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
                    batch.isPart = true
                    try await self.apply(share.part.items, of: &batch, under: epochs, &positions, consumer)
                    return positions
                }
            }
            for try await part in group { positions.merge(part) }
        }
    }
}

extension BatchFold {
    /// With more marks than this for an event, hardly any of them fold.
    private static let sparseShare = 0.8

    /// Whether there are more marks than these, and one transaction for all of them would have about as much to write as several.
    func isSparse(beyond marks: Int) -> Bool {
        markCount > marks && Double(markCount) >= Self.sparseShare * Double(eventCount)
    }
}
