// SPDX-License-Identifier: Apache-2.0

package import PostgresClient
package import WidgetModel

/// The stored position of a partition.
package struct StoredPosition: Sendable {
    package let topic: String
    package let partition: Int32
    package let epoch: Int64
    /// `nil` when nothing of the partition has been applied yet: start at the earliest message.
    package let nextOffset: Int64?
    package let updatedAt: Timestamp
    /// Offset and hash of the last applied message; nil if they are not known.
    package var lastOffset: Int64?
    package var lastHash: Int64?
}

extension StoredPosition {
    fileprivate init(_ row: borrowing PostgresRow) throws(PostgresError) {
        try self.init(
            topic: row.value("topic"), partition: row.value("partition"), epoch: row.value("epoch"),
            nextOffset: row.optional("next_offset"), updatedAt: row.value("updated_at"),
            lastOffset: row.optional("last_offset"), lastHash: row.optional("last_hash"))
    }
}

package typealias PartitionName = (topic: String, partition: Int32)

private let takePartitionsInput = InputColumns<PartitionName>([
    .init("topic") { $0.topic }, .init("partition") { $0.partition },
])

private let takePartitionsSQL = """
    WITH cluster AS MATERIALIZED (
        SELECT c.id FROM kafka_cluster c FOR SHARE
    ), input AS MATERIALIZED (
        SELECT i.topic, i.partition FROM \(takePartitionsInput.rows("i"))
        WHERE NOT EXISTS (SELECT 1 FROM cluster c WHERE c.id <> $3::text)
    ), free AS (
        SELECT p.topic, p.partition
        FROM input i JOIN consumer_position p ON p.topic = i.topic AND p.partition = i.partition
        ORDER BY p.topic, p.partition
        FOR NO KEY UPDATE OF p SKIP LOCKED
    ), taken AS (
        UPDATE consumer_position p SET epoch = p.epoch + 1, updated_at = now()
        FROM free f WHERE p.topic = f.topic AND p.partition = f.partition
        RETURNING p.topic, p.partition, p.epoch, p.next_offset, p.updated_at, p.last_offset, p.last_hash
    ), created AS (
        INSERT INTO consumer_position AS p (topic, partition, epoch)
        SELECT i.topic, i.partition, 1 FROM input i
        WHERE NOT EXISTS (
            SELECT FROM consumer_position p WHERE p.topic = i.topic AND p.partition = i.partition)
        ORDER BY i.topic, i.partition
        ON CONFLICT (topic, partition) DO NOTHING
        RETURNING p.topic, p.partition, p.epoch, p.next_offset, p.updated_at, p.last_offset, p.last_hash
    )
    SELECT * FROM taken UNION ALL SELECT * FROM created
    """

/// The move of a partition's position in a transaction.
package struct PositionAdvance: Hashable, Sendable {
    package var topic: String
    package var partition: Int32
    package var epoch: Int64
    /// Position that this process stored last; nil when the partition has never been applied.
    package var expected: Int64?
    package var next: Int64
    /// Offset and hash of the last applied message; nil if there is none before the new position.
    package var lastOffset: Int64?
    package var lastHash: Int64?

    package init(
        topic: String, partition: Int32, epoch: Int64, expected: Int64?, next: Int64, lastOffset: Int64? = nil,
        lastHash: Int64? = nil
    ) {
        self.topic = topic
        self.partition = partition
        self.epoch = epoch
        self.expected = expected
        self.next = next
        self.lastOffset = lastOffset
        self.lastHash = lastHash
    }
}

private let advancePositionsInput = InputColumns<PositionAdvance>([
    .init("topic") { $0.topic }, .init("partition") { $0.partition }, .init("epoch") { $0.epoch },
    .init("expected") { $0.expected }, .init("next") { $0.next }, .init("last_offset") { $0.lastOffset },
    .init("last_hash") { $0.lastHash },
])

/// Apps whose events a transaction applies.
package struct AppliedApps: Hashable, Sendable {
    /// The apps of the batch.
    package let all: [Int32]
    /// Those whose events the batch diverts.
    package let diverted: [Int32]

    package init(all: [Int32], diverted: [Int32]) {
        (self.all, self.diverted) = (all, diverted.sorted())
    }
}

private func advance(_ column: String) -> String { advancePositionsInput.element(column, at: "i.ord") }

private let movedTopics = advancePositionsInput.array(of: "topic")

/// Locks the positions in key order (a nested loop takes that of the input, a merge join that of the index), then the
/// diversions.
private let advancePositionsSQL = """
    WITH moved AS (
        UPDATE consumer_position p
        SET next_offset = \(advance("next")), last_offset = \(advance("last_offset")),
            last_hash = \(advance("last_hash")), updated_at = now()
        FROM \(advancePositionsInput.rows("i", only: ["topic"]))
        WHERE p.topic = i.topic AND p.partition = \(advance("partition")) AND p.epoch = \(advance("epoch"))
            AND p.next_offset IS NOT DISTINCT FROM \(advance("expected"))
        RETURNING 1
    )
    SELECT require_batch(
        (SELECT count(*) FROM moved), cardinality(\(movedTopics)), \(movedTopics),
        $\(advancePositionsInput.count + 1)::int4[], $\(advancePositionsInput.count + 2)::int4[]),
        \(commitsAsynchronously)
    """

extension PostgresError {
    /// Whether a position is no longer this process's.
    package var isFenced: Bool { sqlState == "FR001" }
    /// Whether other apps are diverted than the process believes.
    package var findsOtherDiversions: Bool { sqlState == "FR002" }
    /// Whether a topic of the batch is halted.
    package var findsHaltedTopic: Bool { sqlState == "FR003" }
}

extension PostgresStatement where Self == Statements {
    /// Takes a new epoch for each partition and answers the offset to continue at. Skips partitions that a transaction
    /// has locked, so that a process that hangs does not block the others. Takes nothing when the positions belong to
    /// another Kafka cluster.
    ///
    /// - Parameter cluster: id of the process's cluster; `nil` if its brokers report none.
    package static func takePartitions(_ partitions: [PartitionName], cluster: String?) -> PostgresQuery<
        StoredPosition
    > {
        PostgresQuery(takePartitionsSQL, binding: takePartitionsInput.parameters(partitions, cluster)) { row in
            try StoredPosition(row)
        }
    }

    /// Moves the positions of a batch, compare-and-set on epoch and expected offset; fails the transaction with
    /// SQLSTATE `FR001` when any of them is no longer this process's.
    ///
    /// A batch that applies events fails with `FR003` while one of its topics is halted, and with `FR002` if the
    /// process's list of its diverted apps is out of date. These diversions are held until the transaction ends.
    ///
    /// The transaction's COMMIT returns before its WAL is on disk: after a crash the positions are the earlier ones, and
    /// Kafka still has the events. A store that depends on the transaction comes later in the WAL, and waits for the disk.
    ///
    /// - Parameter apps: the apps of the applied events; nil if positions move without any.
    package static func advancePositions(_ advances: [PositionAdvance], applying apps: AppliedApps? = nil)
        -> PostgresQuery<Void>
    {
        // All transactions lock positions in key order.
        let sorted = advances.sorted { ($0.topic, $0.partition) < ($1.topic, $1.partition) }
        return PostgresQuery(
            advancePositionsSQL,
            binding: advancePositionsInput.parameters(
                sorted, (apps?.all).map { PostgresArray($0) }, (apps?.diverted).map { PostgresArray($0) }))
    }

    /// The stored positions, all of them.
    package static func listPositions() -> PostgresQuery<StoredPosition> {
        PostgresQuery(
            """
            SELECT topic, partition, epoch, next_offset, updated_at, last_offset, last_hash
            FROM consumer_position ORDER BY topic, partition
            """
        ) { row in try StoredPosition(row) }
    }

    /// Sets a position by hand. The epoch moves too, so a process that owns the partition notices and seeks there. The
    /// log is accepted as it is.
    ///
    /// - Parameter nextOffset: `nil` forgets the position: the next owner starts at the earliest message.
    package static func setPosition(topic: String, partition: Int32, nextOffset: Int64?) -> PostgresQuery<Void> {
        PostgresQuery(
            """
            INSERT INTO consumer_position AS p (topic, partition, epoch, next_offset) VALUES ($1::text, $2::int4, 1, $3::int8)
            ON CONFLICT (topic, partition) DO UPDATE
                SET epoch = p.epoch + 1, next_offset = excluded.next_offset, last_offset = NULL, last_hash = NULL,
                    updated_at = now()
            """, topic, partition, nextOffset
        )
    }

    /// Forgets all positions: each partition continues at its earliest message.
    package static func forgetPositions() -> PostgresQuery<Void> {
        PostgresQuery(
            """
            UPDATE consumer_position
            SET epoch = epoch + 1, next_offset = NULL, last_offset = NULL, last_hash = NULL, updated_at = now()
            """)
    }

    /// Id of the Kafka cluster that the positions belong to; no row before a process has started.
    package static func readCluster() -> PostgresQuery<String> {
        PostgresQuery("SELECT id FROM kafka_cluster") { row in try row.value("id") }
    }

    /// Records the cluster's id if none is recorded yet; answers the recorded one, and locks it.
    package static func recordCluster(_ id: String) -> PostgresQuery<String> {
        PostgresQuery(
            """
            INSERT INTO kafka_cluster AS c (id) VALUES ($1::text)
            ON CONFLICT (is_only) DO UPDATE SET id = c.id
            RETURNING id
            """, id
        ) { row in try row.value("id") }
    }

    /// Replaces the recorded id.
    package static func replaceCluster(_ id: String) -> PostgresQuery<Void> {
        PostgresQuery("UPDATE kafka_cluster SET id = $1::text", id)
    }
}

extension PostgresStatement where Self == Statements {
    /// Registers an ingest process, at its start and every second after it. Returns the number of live processes and
    /// this one's place among them in the order of ids, from 0.
    ///
    /// - Parameter timeout: time after which a silent process counts as dead.
    package static func registerIngest(_ id: UInt128, timeout: Duration) -> PostgresQuery<(count: Int, rank: Int)> {
        PostgresQuery(
            """
            WITH gone AS (
                DELETE FROM ingest_member WHERE seen_at < now() - interval '1 hour' AND id <> $1::uuid
            ), mine AS (
                INSERT INTO ingest_member (id) VALUES ($1::uuid) ON CONFLICT (id) DO UPDATE SET seen_at = now()
            )
            SELECT count(*)::int4 + 1 AS members, count(*) FILTER (WHERE m.id < $1::uuid)::int4 AS rank
            FROM ingest_member m WHERE m.id <> $1::uuid AND m.seen_at > now() - $2::int8 * interval '1 ms'
            """, id, timeout.wholeMilliseconds
        ) { row in
            try (count: Int(row.value("members", as: Int32.self)), rank: Int(row.value("rank", as: Int32.self)))
        }
    }

    /// Removes a stopped ingest process, so that the others take its partitions.
    package static func leaveIngest(_ id: UInt128) -> PostgresQuery<Void> {
        PostgresQuery("DELETE FROM ingest_member WHERE id = $1::uuid", id)
    }
}
