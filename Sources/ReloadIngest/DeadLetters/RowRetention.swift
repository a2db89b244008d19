// SPDX-License-Identifier: Apache-2.0

package import Logging
package import PostgresClient
import ServiceLifecycle
import WidgetStore

/// Deletes old rows in small chunks, so that tables stay bounded.
///
/// Of all processes, one at a time deletes the rows of a sort, in rounds at an interval: the work does not grow with
/// the number of processes. A process deletes the rows of one sort after another, over one connection.
package struct RowRetention: Service {
    /// A sort of rows, and how it is deleted.
    package struct Rows: Sendable {
        typealias Deletion =
            @Sendable (_ limits: [RowLimit], _ place: Int64, _ chunk: Int) -> PostgresQuery<DeletedChunk>

        /// Name of the rows in the log and in the database.
        package let name: String
        /// Age at which rows are deleted.
        package let age: Duration
        /// Statement with the age of the oldest row; no row without one.
        package let oldest: PostgresQuery<Duration>
        /// Time from one round to the next, of all processes.
        var interval = Duration.seconds(60)
        /// Pause between two chunks of a round.
        var pace = Duration.zero
        var chunk = 10_000
        /// Statement that finds the apps with more rows than an app may have; nil without such a limit.
        var excess: PostgresQuery<RowLimit>?
        /// Statement that deletes a chunk.
        let deletion: Deletion
    }

    private let pool: PostgresPool
    private let rows: [Rows]
    private let logger: Logger

    package init(of rows: [Rows], pool: PostgresPool, logger: Logger) {
        (self.rows, self.pool, self.logger) = (rows, pool, logger)
    }

    package func run() async throws {
        guard let interval = rows.map(\.interval).min() else { return }
        try? await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                try await PostgresPool.inBackground {
                    for rows in rows { try await report(rows) }
                }
                try await Task.sleep(for: interval)
            }
        }
    }

    private func report(_ rows: Rows) async throws {
        do {
            let deleted = try await prune(rows)
            if deleted > 0 { logger.info("old \(rows.name) deleted", metadata: ["count": "\(deleted)"]) }
        } catch {
            try Task.checkCancellation()
            logger.warning("cannot delete old \(rows.name)", metadata: ["error": "\(error)"])
        }
    }

    /// Runs a round of each sort that is due, and returns the number of deleted rows.
    func prune() async throws -> Int {
        var total = 0
        for rows in rows { total += try await prune(rows) }
        return total
    }

    private func prune(_ rows: Rows) async throws -> Int {
        guard try await pool.execute(.beginRetention(of: rows.name, every: rows.interval)) > 0 else { return 0 }
        var limits: [RowLimit] = []
        if let excess = rows.excess { limits = try await pool.query(excess) }
        var (total, place) = (0, Int64(0))
        while true {
            var pipeline = PostgresPipeline()
            let deletion = pipeline.append(rows.deletion(limits, place, rows.chunk))
            _ = pipeline.append(.continueRetention(of: rows.name))
            guard let chunk = try await pool.run(pipeline).rows(deletion).first else { return total }
            total += chunk.deleted
            guard let next = chunk.next else { return total }
            place = next
            try await Task.sleep(for: rows.pace)
        }
    }
}

extension RowRetention.Rows {
    /// Retention of the rows of ingest.
    ///
    /// - Parameters:
    ///   - deadLetters: age of dead letters that were replayed, discarded or forwarded to the dead-letter topic.
    ///   - topics: retention of the input topics.
    package static func ofIngest(deadLetters: Duration, topics: Duration) -> [RowRetention.Rows] {
        [
            eventOutcomes(), idempotencyKeys(), unplacedWidgets(), eventTraces(),
            Self.deadLetters(olderThan: deadLetters), removedWidgets(olderThan: topics + deadLetters),
        ]
    }

    /// The largest number of rows of each app, of the sorts that any user can fill.
    private static let most = 1_000_000
    private static let hour = Duration.seconds(3_600)

    package static func eventOutcomes(olderThan age: Duration = hour, most: Int = most) -> RowRetention.Rows {
        RowRetention.Rows(
            name: "outcomes", age: age, oldest: Statements.oldestEventOutcome(),
            excess: Statements.outcomesInExcess(of: most)
        ) {
            Statements.deleteOldEventOutcomes(olderThan: age, limits: $0, after: $1, limit: $2)
        }
    }

    package static func idempotencyKeys(olderThan age: Duration = hour, most: Int = most) -> RowRetention.Rows {
        RowRetention.Rows(
            name: "idempotency keys", age: age, oldest: Statements.oldestIdempotencyKey(),
            excess: Statements.keysInExcess(of: most)
        ) {
            Statements.deleteOldIdempotencyKeys(olderThan: age, limits: $0, after: $1, limit: $2)
        }
    }

    /// Tombstones of widgets that were removed before they were placed.
    package static func unplacedWidgets(olderThan age: Duration = hour * 24, most: Int = most) -> RowRetention.Rows {
        RowRetention.Rows(
            name: "tombstones of unknown widgets", age: age, oldest: Statements.oldestUnplacedWidget(),
            excess: Statements.unplacedInExcess(of: most)
        ) {
            Statements.deleteUnplacedWidgets(olderThan: age, limits: $0, after: $1, limit: $2)
        }
    }

    /// Tombstones of removed widgets. An event that is older than the removal must not bring the widget back: it may
    /// wait in Kafka for the topic's retention, and then as a dead letter for that of dead letters.
    package static func removedWidgets(olderThan age: Duration) -> RowRetention.Rows {
        RowRetention.Rows(name: "removed widgets", age: age, oldest: Statements.oldestRemovedWidget()) {
            Statements.deleteRemovedWidgets(olderThan: age, after: $1, limit: $2)
        }
    }

    /// Trace contexts of events, which are only hints.
    package static func eventTraces(olderThan age: Duration = hour) -> RowRetention.Rows {
        RowRetention.Rows(name: "trace contexts", age: age, oldest: Statements.oldestEventTrace()) {
            Statements.deleteOldEventTraces(olderThan: age, after: $1, limit: $2)
        }
    }

    /// Dead letters that were replayed, discarded or forwarded to the dead-letter topic.
    package static func deadLetters(
        olderThan age: Duration, pace: Duration = .milliseconds(200)
    ) -> RowRetention.Rows {
        RowRetention.Rows(
            name: "dead letters", age: age, oldest: Statements.oldestDoneDeadLetter(), interval: .seconds(600),
            pace: pace, chunk: 1_000
        ) {
            Statements.deleteOldDeadLetters(olderThan: age, after: $1, limit: $2)
        }
    }
}
