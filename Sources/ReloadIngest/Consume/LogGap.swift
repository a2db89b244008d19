import KafkaClient

/// Policy for a partition whose next offset is not in the log.
package enum OffsetOutOfRangePolicy: String, CaseIterable, Sendable {
    /// Stops the partition until its position is set.
    case stop
    /// Continues at the oldest message in the log.
    case earliest
}

/// A stored position that is not in the log, and the cause.
struct LogGap: Equatable, Sendable {
    enum Cause: Equatable, Sendable {
        /// Retention has removed unread events, at most this many.
        case retention(lost: Int64)
        /// The log ends before the position: the topic was recreated or has lost its end.
        case beyondEnd
        /// The log has the offset.
        case none
        /// The brokers did not report the bounds of the log.
        case unknown
    }

    let partition: TopicPartition
    /// The expected next offset.
    let offset: Int64
    /// First and end offset of the log; nil if the brokers did not report them.
    let bounds: KafkaLogBounds?

    var cause: Cause {
        guard let bounds else { return .unknown }
        if offset < bounds.earliest { return .retention(lost: bounds.earliest - offset) }
        return offset > bounds.end ? .beyondEnd : .none
    }

    /// Command with which the partition continues.
    var command: String { "freshet positions set \(partition.topic) \(partition.partition) earliest" }

    /// Description of the cause.
    var explanation: String {
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
        case .none: "the log has the offset \(offset) again"
        case .unknown: "the log does not have the offset \(offset)"
        }
    }
}
