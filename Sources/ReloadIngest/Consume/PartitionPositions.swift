import KafkaClient
import WidgetStore

/// Positions of the process in its partitions.
struct PartitionPositions: Sendable {
    struct Position: Hashable {
        /// Epoch taken at assignment.
        let epoch: Int64
        /// Offset of the next event to apply; nil if none was ever applied.
        var next: Int64?
    }

    private(set) var positions: [TopicPartition: Position] = [:]

    /// Current epochs.
    var epochs: [TopicPartition: Int64] { positions.mapValues(\.epoch) }

    mutating func take(_ rows: [TakenPartition]) {
        for row in rows {
            positions[row.place] = Position(epoch: row.epoch, next: row.nextOffset)
        }
    }

    mutating func drop(_ partitions: some Sequence<TopicPartition>) {
        for partition in partitions { positions[partition] = nil }
    }

    /// Offset of the first event to apply among the messages received under an epoch. Nil if the epoch is not the
    /// current one, since messages of an older epoch may lie beyond a gap.
    func firstDue(of partition: TopicPartition, receivedUnder epoch: Int64?) -> Int64? {
        guard let position = positions[partition], position.epoch == epoch else { return nil }
        return position.next ?? 0
    }

    /// The compare-and-set that moves each partition to its next offset, in key order.
    func advances(to next: [TopicPartition: Int64]) -> [PositionAdvance] {
        next.sorted { $0.key < $1.key }.compactMap { partition, next in
            positions[partition].map {
                PositionAdvance(
                    topic: partition.topic, partition: partition.partition, epoch: $0.epoch, expected: $0.next,
                    next: next)
            }
        }
    }

    mutating func applied(_ advances: [PositionAdvance]) {
        for advance in advances {
            positions[advance.place]?.next = advance.next
        }
    }

    /// Partitions whose stored position is not this process's, because another process has taken them.
    func fenced(_ advances: [PositionAdvance], stored: [StoredPosition]) -> [TopicPartition] {
        let stored = Self.byPartition(stored)
        return advances.compactMap { advance in
            let row = stored[advance.place]
            return row?.epoch == advance.epoch && row?.nextOffset == advance.expected ? nil : advance.place
        }
    }

    /// Whether an attempt was committed although its COMMIT was not acknowledged.
    func areApplied(_ advances: [PositionAdvance], stored: [StoredPosition]) -> Bool {
        let stored = Self.byPartition(stored)
        return advances.allSatisfy { advance in
            let row = stored[advance.place]
            return row?.epoch == advance.epoch && row?.nextOffset == advance.next
        }
    }

    private static func byPartition(_ stored: [StoredPosition]) -> [TopicPartition: StoredPosition] {
        Dictionary(stored.map { ($0.place, $0) }) { $1 }
    }
}

extension PositionAdvance {
    var place: TopicPartition { TopicPartition(topic: topic, partition: partition) }
}

extension StoredPosition {
    var place: TopicPartition { TopicPartition(topic: topic, partition: partition) }
}

extension TakenPartition {
    var place: TopicPartition { TopicPartition(topic: topic, partition: partition) }
}
