package import PostgresClient
package import WidgetModel

/// Takes a new epoch for each assigned partition and answers where to go on from. Takes and answers nothing when the positions
/// are of another Kafka cluster.
package struct TakePartitions: PostgresStatement {
    package struct Row: Sendable {
        package let topic: String
        package let partition: Int32
        package let epoch: Int64
        /// `nil` when nothing of the partition has been applied yet: start at the earliest message.
        package let nextOffset: Int64?

        package init(topic: String, partition: Int32, epoch: Int64, nextOffset: Int64?) {
            self.topic = topic
            self.partition = partition
            self.epoch = epoch
            self.nextOffset = nextOffset
        }
    }

    package typealias Partition = (topic: String, partition: Int32)

    private static let input = InputColumns<Partition>([
        .init("topic") { $0.topic }, .init("partition") { $0.partition },
    ])

    package static let sql = """
        WITH cluster AS MATERIALIZED (
            SELECT c.id FROM kafka_cluster c FOR SHARE
        )
        INSERT INTO consumer_position AS p (topic, partition, epoch)
        SELECT i.topic, i.partition, 1 FROM \(input.rows("i"))
        WHERE NOT EXISTS (SELECT 1 FROM cluster c WHERE c.id <> $3::text)
        ORDER BY i.topic, i.partition
        ON CONFLICT (topic, partition) DO UPDATE SET epoch = p.epoch + 1, updated_at = now()
        RETURNING p.topic, p.partition, p.epoch, p.next_offset
        """

    package var parameters: PostgresParameters

    /// - Parameter cluster: id of the process's cluster; `nil` if its brokers tell none.
    package init(_ partitions: [Partition], cluster: String?) {
        parameters = Self.input.parameters(partitions)
        parameters.append(cluster)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            topic: try row.value("topic"), partition: try row.value("partition"), epoch: try row.value("epoch"),
            nextOffset: try row.optional("next_offset"))
    }
}

/// Moves the positions of a batch, compare-and-set on epoch and expected offset; fails the transaction with SQLSTATE
/// `FR001` when any of them is no longer this process's.
package struct AdvancePositions: PostgresStatement {
    package static let fencedState = "FR001"

    package struct Advance: Hashable, Sendable {
        package var topic: String
        package var partition: Int32
        package var epoch: Int64
        /// Position that this process stored last; nil when the partition has never been applied.
        package var expected: Int64?
        package var next: Int64

        package init(topic: String, partition: Int32, epoch: Int64, expected: Int64?, next: Int64) {
            self.topic = topic
            self.partition = partition
            self.epoch = epoch
            self.expected = expected
            self.next = next
        }
    }

    private static let input = InputColumns<Advance>([
        .init("topic") { $0.topic }, .init("partition") { $0.partition }, .init("epoch") { $0.epoch },
        .init("expected") { $0.expected }, .init("next") { $0.next },
    ])

    package static let sql = """
        WITH input AS MATERIALIZED (
            SELECT * FROM \(input.rows("i"))
        ), locked AS (
            SELECT p.topic, p.partition, i.next
            FROM input i JOIN consumer_position p ON p.topic = i.topic AND p.partition = i.partition
            WHERE p.epoch = i.epoch AND p.next_offset IS NOT DISTINCT FROM i.expected
            ORDER BY p.topic, p.partition
            FOR NO KEY UPDATE OF p
        ), moved AS (
            UPDATE consumer_position p SET next_offset = l.next, updated_at = now()
            FROM locked l WHERE p.topic = l.topic AND p.partition = l.partition
            RETURNING 1
        )
        SELECT require_positions((SELECT count(*) FROM moved), (SELECT count(*) FROM input))
        """

    package let parameters: PostgresParameters

    package init(_ advances: [Advance]) {
        parameters = Self.input.parameters(advances)
    }
}

/// The stored positions, all of them.
package struct ListPositions: PostgresStatement {
    package struct Row: Sendable {
        package let topic: String
        package let partition: Int32
        package let epoch: Int64
        package let nextOffset: Int64?
        package let updatedAt: Timestamp

        package init(
            topic: String, partition: Int32, epoch: Int64, nextOffset: Int64?, updatedAt: Timestamp
        ) {
            self.topic = topic
            self.partition = partition
            self.epoch = epoch
            self.nextOffset = nextOffset
            self.updatedAt = updatedAt
        }
    }

    package static let sql = """
        SELECT topic, partition, epoch, next_offset, updated_at FROM consumer_position ORDER BY topic, partition
        """

    package init() {}

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            topic: try row.value("topic"), partition: try row.value("partition"), epoch: try row.value("epoch"),
            nextOffset: try row.optional("next_offset"), updatedAt: try row.value("updated_at"))
    }
}

/// Sets a position by hand. The epoch moves too, so a process that owns the partition notices and seeks there.
package struct SetPosition: PostgresStatement {
    package static let sql = """
        INSERT INTO consumer_position AS p (topic, partition, epoch, next_offset) VALUES ($1::text, $2::int4, 1, $3::int8)
        ON CONFLICT (topic, partition) DO UPDATE
            SET epoch = p.epoch + 1, next_offset = excluded.next_offset, updated_at = now()
        """

    package let parameters: PostgresParameters

    /// - Parameter nextOffset: `nil` forgets the position: the next owner starts at the earliest message.
    package init(topic: String, partition: Int32, nextOffset: Int64?) {
        parameters = PostgresParameters(topic, partition, nextOffset)
    }
}

/// Forgets all positions: each partition goes on at its earliest message.
package struct ForgetPositions: PostgresStatement {
    package static let sql = "UPDATE consumer_position SET epoch = epoch + 1, next_offset = NULL, updated_at = now()"

    package init() {}
}
