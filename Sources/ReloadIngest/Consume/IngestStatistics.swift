import Synchronization

/// Counts of ingest since the start of the process.
package final class IngestStatistics: Sendable {
    package struct Snapshot: Hashable, Sendable {
        /// Committed transactions.
        package var batches = 0
        /// Accepted events.
        package var events = 0
        package var deadLetters = 0
        /// Events of diverted apps, kept for replay.
        package var diverted = 0
        /// Events of diverted apps that were not kept.
        package var dropped = 0
        /// Timeline rows written for requests, views and placements.
        package var marked = 0
        /// Timelines handed over to workers of the same process.
        package var handedOver = 0
        /// Retried transactions.
        package var retries = 0
        /// Partitions dropped because another process has taken them.
        package var fencedPartitions = 0
        /// Occurrences of a next offset that was not in the log.
        package var outOfRange = 0
        /// Skipped offsets that retention had removed before they were read (`ingest.offsetOutOfRange`).
        package var lostToRetention = 0
        /// Failed Kafka consumers that were replaced.
        package var restarts = 0
        /// Partitions assigned to the process.
        package var assignedPartitions = 0
        /// Database error of the current batch; nil for none.
        package var blockedBy: String?
    }

    private let state = Mutex(Snapshot())

    package init() {}

    package var snapshot: Snapshot { state.withLock { $0 } }

    func update(_ change: (inout sending Snapshot) -> Void) {
        state.withLock { change(&$0) }
    }
}
