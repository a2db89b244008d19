import KafkaClient
import WidgetStore

/// Positions of the process in its partitions.
struct PartitionPositions: Sendable {
    struct Position: Hashable {
        /// Epoch taken at assignment.
        let epoch: Int64
        /// Offset of the next event to apply; nil if none was ever applied.
        var next: Int64?
        /// Last applied message; nil if it is not known.
        var last: KafkaFingerprint?
    }

    private(set) var positions: [TopicPartition: Position] = [:]

    /// Current epochs.
    var epochs: [TopicPartition: Int64] { positions.mapValues(\.epoch) }

    mutating func take(_ rows: [TakenPartition]) {
        for row in rows {
            var last: KafkaFingerprint?
            if let offset = row.lastOffset, let hash = row.lastHash {
                last = KafkaFingerprint(offset: offset, hash: hash)
            }
            positions[row.place] = Position(epoch: row.epoch, next: row.nextOffset, last: last)
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

    /// Offset at which reading starts; nil for a partition of another process.
    func start(of partition: TopicPartition) -> KafkaOffset? {
        guard let position = positions[partition] else { return nil }
        guard let next = position.next else { return .earliest }
        guard let last = position.last, last.offset < next else { return .at(next) }
        return .behind(last, next: next)
    }

    /// Offsets at which reading of all partitions starts.
    var starts: [TopicPartition: KafkaOffset] {
        Dictionary(positions.keys.map { ($0, start(of: $0) ?? .earliest) }) { $1 }
    }

    /// The compare-and-set that moves each partition behind its last applied message, in key order.
    func advances(behind messages: [TopicPartition: KafkaFingerprint]) -> [PositionAdvance] {
        messages.sorted { $0.key < $1.key }.compactMap { advance($0, to: $1.offset + 1, last: $1) }
    }

    /// The compare-and-set that moves each partition to an offset without applying messages, in key order. The last applied
    /// message stays that of the partition if it is before the offset.
    func advances(to next: [TopicPartition: Int64]) -> [PositionAdvance] {
        next.sorted { $0.key < $1.key }.compactMap { partition, next in
            let last = positions[partition]?.last
            let isBehind = positions[partition]?.next.map { $0 <= next } ?? false
            return advance(partition, to: next, last: isBehind ? last : nil)
        }
    }

    private func advance(
        _ partition: TopicPartition, to next: Int64, last: KafkaFingerprint?
    ) -> PositionAdvance? {
        positions[partition].map {
            PositionAdvance(
                topic: partition.topic, partition: partition.partition, epoch: $0.epoch, expected: $0.next, next: next,
                lastOffset: last?.offset, lastHash: last?.hash)
        }
    }

    mutating func applied(_ advances: [PositionAdvance]) {
        for advance in advances {
            positions[advance.place]?.next = advance.next
            positions[advance.place]?.last = advance.last
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

    fileprivate var last: KafkaFingerprint? {
        guard let lastOffset, let lastHash else { return nil }
        return KafkaFingerprint(offset: lastOffset, hash: lastHash)
    }
}

extension StoredPosition {
    var place: TopicPartition { TopicPartition(topic: topic, partition: partition) }
}

extension TakenPartition {
    var place: TopicPartition { TopicPartition(topic: topic, partition: partition) }
}
