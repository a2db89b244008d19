import KafkaClient
import WidgetStore

/// Where this process stands in the partitions assigned to it.
struct PartitionPositions: Sendable {
    struct Position: Hashable {
        /// The epoch that this process took at assignment.
        let epoch: Int64
        /// Offset of the next event to apply; `nil`: nothing of the partition has ever been applied.
        var next: Int64?
    }

    private(set) var positions: [TopicPartition: Position] = [:]
    /// The epochs under which a batch is received.
    private(set) var epochs: [TopicPartition: Int64] = [:]

    mutating func take(_ rows: [TakePartitions.Row]) {
        for row in rows {
            let partition = TopicPartition(topic: row.topic, partition: row.partition)
            positions[partition] = Position(epoch: row.epoch, next: row.nextOffset)
            epochs[partition] = row.epoch
        }
    }

    mutating func drop(_ partitions: some Sequence<TopicPartition>) {
        for partition in partitions {
            positions[partition] = nil
            epochs[partition] = nil
        }
    }

    /// The first offset of a partition that is still to be applied, of what was received under this epoch; nil for none.
    /// Once the partition has been taken anew it is none: reading goes on from the stored position, and what is at hand may
    /// lie beyond a hole.
    func firstDue(of partition: TopicPartition, receivedUnder epoch: Int64?) -> Int64? {
        guard let position = positions[partition], position.epoch == epoch else { return nil }
        return position.next ?? 0
    }

    /// The compare-and-set for having applied each partition up to the given offset, in key order.
    func advances(to next: [TopicPartition: Int64]) -> [AdvancePositions.Advance] {
        next.sorted { $0.key < $1.key }.compactMap { partition, next in
            positions[partition].map {
                AdvancePositions.Advance(
                    topic: partition.topic, partition: partition.partition, epoch: $0.epoch, expected: $0.next,
                    next: next)
            }
        }
    }

    mutating func applied(_ advances: [AdvancePositions.Advance]) {
        for advance in advances {
            positions[TopicPartition(topic: advance.topic, partition: advance.partition)]?.next = advance.next
        }
    }

    /// The partitions whose stored position is not what this process left there: somebody else has taken them.
    func fenced(_ advances: [AdvancePositions.Advance], stored: [ListPositions.Row]) -> [TopicPartition] {
        let stored = Dictionary(
            stored.map { (TopicPartition(topic: $0.topic, partition: $0.partition), $0) }, uniquingKeysWith: { $1 })
        return advances.compactMap { advance in
            let partition = TopicPartition(topic: advance.topic, partition: advance.partition)
            guard let row = stored[partition], row.epoch == advance.epoch, row.nextOffset == advance.expected else {
                return partition
            }
            return nil
        }
    }

    /// Of an attempt whose outcome is unknown: whether the stored positions are those that it would have left.
    func areApplied(_ advances: [AdvancePositions.Advance], stored: [ListPositions.Row]) -> Bool {
        let stored = Dictionary(
            stored.map { (TopicPartition(topic: $0.topic, partition: $0.partition), $0) }, uniquingKeysWith: { $1 })
        return advances.allSatisfy { advance in
            let row = stored[TopicPartition(topic: advance.topic, partition: advance.partition)]
            return row?.epoch == advance.epoch && row?.nextOffset == advance.next
        }
    }
}
