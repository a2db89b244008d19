import Synchronization

/// What ingest has done since the process started.
package final class IngestStatistics: Sendable {
    package struct Snapshot: Hashable, Sendable {
        /// Transactions of batches that were committed.
        package var batches = 0
        /// Events of committed batches that were accepted.
        package var events = 0
        package var deadLetters = 0
        /// Events of diverted apps: kept for replay.
        package var diverted = 0
        /// Rows of timelines that requests, views and placements wrote.
        package var marked = 0
        /// Timelines that were handed over to workers of the same process.
        package var handedOver = 0
        /// Rows of SQL input that targeted requests were folded into.
        package var markInputs = 0
        /// Reloads of everyone, folded.
        package var bumps = 0
        package var sweeps = 0
        /// Widget rows written by lifecycle events.
        package var widgets = 0
        /// Timelines that those created.
        package var timelines = 0
        /// Transactions that were tried again.
        package var retries = 0
        /// Partitions dropped because another process has taken them.
        package var fencedPartitions = 0
        /// Times that the log did not have the next offset of a partition.
        package var outOfRange = 0
        /// Offsets that retention had removed before they were read, and that were skipped (`ingest.offsetOutOfRange`).
        package var lostToRetention = 0
        /// Kafka consumers that failed for good and were replaced.
        package var restarts = 0
        /// Partitions that are assigned to this process now.
        package var assignedPartitions = 0
        /// Why the database has not taken the batch at hand; `nil` while it takes what comes.
        package var blockedBy: String?
    }

    private let state = Mutex(Snapshot())

    package init() {}

    package var snapshot: Snapshot { state.withLock { $0 } }

    func update(_ change: (inout sending Snapshot) -> Void) {
        state.withLock { change(&$0) }
    }
}
