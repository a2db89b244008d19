/// One partition of a topic.
package struct TopicPartition: Hashable, Comparable, Sendable, CustomStringConvertible {
    package var topic: String
    package var partition: Int32

    package init(topic: String, partition: Int32) {
        (self.topic, self.partition) = (topic, partition)
    }

    package var description: String { "\(topic)[\(partition)]" }

    /// By topic name, then by partition number.
    package static func < (left: Self, right: Self) -> Bool {
        (left.topic, left.partition) < (right.topic, right.partition)
    }
}

/// Start of reading in a partition.
package enum KafkaOffset: Hashable, Sendable {
    /// The oldest message that the log still has.
    case earliest
    /// Behind the newest message: only what is produced from now on.
    case latest
    /// Exactly this offset. If the log does not have it, the consumer reports
    /// ``KafkaConsumerEvent/offsetOutOfRange(_:offset:)`` and stays there.
    case at(Int64)
    /// At an offset behind a message that was read before. If the log has another message in its place, the consumer reports
    /// ``KafkaConsumerEvent/otherLog(_:offset:)`` and stays there; if it has none there any more, it goes on.
    case behind(KafkaFingerprint, next: Int64)
}

extension Sequence<TopicPartition> {
    /// The partitions for a log line, such as `pushes[0-2,5] widgets[0-7]`. Of a topic with many gaps, the first eight
    /// ranges.
    package var summary: String {
        Dictionary(grouping: self, by: \.topic).sorted { $0.key < $1.key }.map { topic, places in
            var ranges: [ClosedRange<Int32>] = []
            for partition in Set(places.map(\.partition)).sorted() {
                if let last = ranges.last, partition == last.upperBound + 1 {
                    ranges[ranges.count - 1] = last.lowerBound...partition
                } else {
                    ranges.append(partition...partition)
                }
            }
            var texts = ranges.prefix(8).map {
                $0.count == 1 ? "\($0.lowerBound)" : "\($0.lowerBound)-\($0.upperBound)"
            }
            if ranges.count > 8 { texts.append("… \(places.count) in all") }
            return "\(topic)[\(texts.joined(separator: ","))]"
        }.joined(separator: " ")
    }
}
