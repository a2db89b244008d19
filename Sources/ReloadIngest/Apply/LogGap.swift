import KafkaClient

/// What to do when the log does not have the next offset of a partition.
package enum OffsetOutOfRangePolicy: String, CaseIterable, Sendable {
    /// The partition stands still until somebody sets its position: nothing is skipped silently.
    case stop
    /// Go on at the oldest message that the log has, loudly.
    case earliest
}

/// A stored position that the log does not have, and why. Pure: bounds go in.
struct LogGap: Equatable, Sendable {
    enum Cause: Equatable, Sendable {
        /// Retention has removed events that were never read: so many offsets at most.
        case retention(lost: Int64)
        /// The log ends before the position: the topic was created anew, or has lost its tail.
        case beyondEnd
        /// The log has the offset by now.
        case none
        /// The brokers did not say what the log has.
        case unknown
    }

    let partition: TopicPartition
    /// The offset that had to come next.
    let offset: Int64
    /// Nil when the brokers did not say.
    let bounds: KafkaLogBounds?

    var cause: Cause {
        guard let bounds else { return .unknown }
        if offset < bounds.earliest { return .retention(lost: bounds.earliest - offset) }
        return offset > bounds.end ? .beyondEnd : .none
    }

    /// What lets the partition go on.
    var command: String { "freshet positions set \(partition.topic) \(partition.partition) earliest" }

    /// What has happened, for people.
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
