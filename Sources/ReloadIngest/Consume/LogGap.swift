package import KafkaClient

/// Policy for a partition whose next offset is not in the log.
package enum OffsetOutOfRangePolicy: String, CaseIterable, Sendable {
    /// Stops the partition until its position is set.
    case stop
    /// Continues at the oldest message in the log.
    case earliest
}

/// A batch at the position of a partition that cannot be read.
package struct UnreadableBatch: Equatable, Sendable {
    package let partition: TopicPartition
    package let offset: Int64
    package let reason: String

    package init(partition: TopicPartition, offset: Int64, reason: String) {
        (self.partition, self.offset, self.reason) = (partition, offset, reason)
    }

    package var explanation: String { "\(partition): the batch at offset \(offset) cannot be read (\(reason))" }

    /// Command with which the partition continues behind the batch.
    package var command: String { "freshet positions set \(partition.topic) \(partition.partition) readable" }
}

/// A stored position that is not in the log, and the cause.
package struct LogGap: Equatable, Sendable {
    package enum Cause: Equatable, Sendable {
        /// Retention has removed unread events, at most this many.
        case retention(lost: Int64)
        /// The log ends before the position: the topic was recreated or has lost its end.
        case beyondEnd
        /// The log has another message at the offset than the one that was applied: the topic was recreated.
        case otherLog
        /// The log has the offset.
        case none
        /// The brokers did not report the bounds of the log.
        case unknown
    }

    package let partition: TopicPartition
    /// The expected next offset.
    package let offset: Int64
    /// First and end offset of the log; nil if the brokers did not report them.
    package var bounds: KafkaLogBounds?
    /// Whether the log has another message at ``offset`` than the one that was applied last.
    package let isOtherLog: Bool

    package init(partition: TopicPartition, offset: Int64, bounds: KafkaLogBounds?, isOtherLog: Bool = false) {
        (self.partition, self.offset, self.bounds) = (partition, offset, bounds)
        self.isOtherLog = isOtherLog
    }

    package var cause: Cause {
        if isOtherLog { return .otherLog }
        guard let bounds else { return .unknown }
        if offset < bounds.earliest { return .retention(lost: bounds.earliest - offset) }
        return offset > bounds.end ? .beyondEnd : .none
    }

    /// Command with which the partition continues.
    package var command: String { "freshet positions set \(partition.topic) \(partition.partition) earliest" }

    /// Command with which the partition of another log continues at its position.
    private var skipping: String { "freshet positions set \(partition.topic) \(partition.partition) \(offset + 1)" }

    /// Description of the cause.
    package var explanation: String {
        switch cause {
        case .retention(let lost):
            """
            retention has removed \(lost) offsets from \(offset) on before they were read; the log begins at \
            \(offset + lost)
            """
        case .beyondEnd:
            """
            the position \(offset) lies beyond the end of the log (\(bounds?.end ?? 0)): the topic was created anew, or \
            has lost its tail
            """
        case .otherLog:
            """
            the log has another message at the offset \(offset) than the one that was applied last: the topic was created \
            anew, or its log was replaced; \(skipping) keeps the position, and skips the messages before it
            """
        case .none: "the log has the offset \(offset) again"
        case .unknown: "the log does not have the offset \(offset)"
        }
    }
}
