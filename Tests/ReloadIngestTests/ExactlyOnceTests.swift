import KafkaClient
import PostgresClient
import Synchronization
import TestSupport
import Testing
import WidgetEvents
import WidgetModel

@testable import ReloadIngest
@testable import WidgetStore

@Suite("Each event has its effect exactly once", .timeLimit(.patience))
struct ExactlyOnceTests {
    private func place(_ count: Int, _ ingest: IngestHarness) async throws {
        _ = try await ingest.store.place((0..<count).map { .test("w\($0)", user: "u\($0)") })
        try await ingest.store.settle()
    }

    @Test("After a crash the next consumer continues at the stored positions")
    func crash() async throws {
        try await IngestHarness.lend(maximumBatch: 100) { ingest in
            try await place(50, ingest)
            let consumers = Mutex<[KafkaConsumer]>([])
            let service = ingest.service { consumer in consumers.withLock { $0.append(consumer) } }
            try await ingest.running([service]) {
                try await ingest.publish((0..<2000).map { ingest.push("u\($0 % 50)") })
                try await eventually("something is applied") { try await ingest.applied() > 0 }
                // Gone without a word, as by SIGKILL: the service makes another consumer.
                consumers.withLock { $0.last }?.raiseFatalError()
                try await ingest.publish((0..<2000).map { ingest.push("u\($0 % 50)") })
                try await ingest.waitUntilApplied(4000)
            }
            #expect(try await ingest.counted() == 4000)
            #expect(consumers.withLock { $0.count } >= 2)
        }
    }

    @Test("Connections that are cut again and again lose nothing and repeat nothing")
    func connectionLoss() async throws {
        try await IngestHarness.lend(maximumBatch: 200) { ingest in
            try await place(50, ingest)
            let service = ingest.service()
            try await ingest.running([service]) {
                for round in 0..<10 {
                    try await ingest.publish((0..<1000).map { ingest.push("u\(($0 + round) % 50)") })
                    try await ingest.whateverIsCut {
                        try await ingest.store.sql(
                            """
                            SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                            WHERE datname = current_database() AND pid <> pg_backend_pid()
                            """)
                    }
                }
                try await ingest.waitUntilApplied(10_000)
            }
            let total = try await ingest.whateverIsCut { try await ingest.counted() }
            #expect(total == 10_000)
        }
    }

    @Test("A position that another process has moved fences this one, which goes on from there")
    func fenced() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            try await place(10, ingest)
            let topic = ingest.configuration.topics.pushes
            let service = ingest.service()
            try await ingest.running([service]) {
                try await ingest.publish((0..<100).map { ingest.push("u\($0 % 10)") })
                try await ingest.waitUntilApplied(100)
                try await ingest.store.pool.withTransaction { connection in
                    try await connection.simple(
                        "SELECT 1 FROM consumer_position WHERE topic = '\(topic)' FOR UPDATE")
                    try await ingest.publish((0..<100).map { ingest.push("u\($0 % 10)") })
                    try await ingest.store.waitUntilBlocked()
                    // Back to offset 40: the 60 after it are applied again, and nothing else is lost.
                    try await connection.simple(
                        "UPDATE consumer_position SET epoch = epoch + 1, next_offset = 40 WHERE topic = '\(topic)'")
                }
                try await ingest.waitUntilApplied(200)
            }
            #expect(try await ingest.counted() == 260)
            #expect(service.statistics.snapshot.fencedPartitions >= 1)
        }
    }

    @Test(
        "What waits to be applied when a consumer has lost its partition, and another process moved the position, is dropped"
    )
    func lostWithBatchesAtHand() async throws {
        try await IngestHarness.lend(partitions: 1, maximumBatch: 100) { ingest in
            try await place(10, ingest)
            let topic = ingest.configuration.topics.pushes
            let consumers = Mutex<[KafkaConsumer]>([])
            let service = ingest.service { consumer in consumers.withLock { $0.append(consumer) } }
            try await ingest.running([service]) {
                try await ingest.publish((0..<100).map { ingest.push("u\($0 % 10)") })
                try await ingest.waitUntilApplied(100)
                let consumer = try #require(consumers.withLock { $0.last })
                let before = consumer.counters.batches
                try await ingest.store.pool.withTransaction { connection in
                    let position = "consumer_position WHERE topic = '\(topic)'"
                    try await connection.simple("SELECT 1 FROM \(position) FOR UPDATE")
                    try await ingest.publish((0..<1_000).map { ingest.push("u\($0 % 10)") })
                    // One batch waits for the lock, and another behind it in the buffer; how large they are is chance.
                    try await eventually("batches wait") { consumer.counters.batches >= before + 2 }
                    consumer.raiseFatalError()
                    try await eventually("the consumer has ended") { await consumer.lag() == nil }
                    // As another process does that has the partition now: it has applied 40 of them.
                    try await connection.simple(
                        "UPDATE consumer_position SET epoch = epoch + 1, next_offset = 140 WHERE topic = '\(topic)'")
                }
                try await ingest.waitUntilApplied(1_100)
            }
            // All but those 40, which were not applied in this test.
            #expect(try await ingest.counted() == 1_060)
        }
    }

    @Test("A position that is set while nothing comes in is noticed all the same")
    func setWhileIdle() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            try await place(10, ingest)
            let service = ingest.service()
            try await ingest.running([service]) {
                try await ingest.publish((0..<50).map { ingest.push("u\($0 % 10)") })
                try await ingest.waitUntilApplied(50)
                _ = try await ingest.store.pool.execute(
                    .setPosition(topic: ingest.configuration.topics.pushes, partition: 0, nextOffset: 20))
                try await ingest.waitUntilApplied(50)
            }
            #expect(try await ingest.counted() == 80)
        }
    }

    @Test("Where the log no longer has the offset, setting the position makes the partition go on")
    func outOfRange() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            try await place(10, ingest)
            let topic = ingest.configuration.topics.pushes
            try await ingest.publish((0..<50).map { ingest.push("u\($0 % 10)") })
            _ = try await ingest.store.pool.execute(.setPosition(topic: topic, partition: 0, nextOffset: 5_000))
            let service = ingest.service()
            try await ingest.running([service]) {
                try await eventually("the partition is taken") {
                    try await ingest.store.pool.query(Statements.listPositions()).contains {
                        $0.epoch > 1 && $0.topic == topic
                    }
                }
                _ = try await ingest.store.pool.execute(.setPosition(topic: topic, partition: 0, nextOffset: 10))
                try await ingest.waitUntilApplied(50)
            }
            #expect(try await ingest.counted() == 40)
        }
    }

    @Test("Two services share the partitions; one leaving hands over exactly")
    func rebalance() async throws {
        try await IngestHarness.lend(maximumBatch: 100) { ingest in
            try await place(50, ingest)
            let first = ingest.service()
            let second = ingest.service()
            try await ingest.running([first]) {
                try await ingest.publish((0..<2000).map { ingest.push("u\($0 % 50)") })
                try await ingest.running([second]) {
                    for round in 0..<30 {
                        try await ingest.publish((0..<200).map { ingest.push("u\(($0 + round) % 50)") })
                        try await ingest.waitUntilApplied(2000 + round * 200)
                    }
                    try await eventually("the second one has its share") {
                        if second.statistics.snapshot.events > 0 { return true }
                        try await ingest.publish((0..<50).map { ingest.push("u\($0)") })
                        return false
                    }
                }
                try await ingest.publish((0..<1000).map { ingest.push("u\($0 % 50)") })
                try await eventually("all is applied") {
                    try await ingest.applied() == ingest.counted()
                        && first.statistics.snapshot.events + second.statistics.snapshot.events >= 9000
                }
            }
            let applied = try await ingest.applied()
            #expect(try await ingest.counted() == applied)
            #expect(first.statistics.snapshot.events + second.statistics.snapshot.events == applied)
        }
    }
}

@Suite("Positions of a process")
struct PartitionPositionsTests {
    private let partition = TopicPartition(topic: "t", partition: 0)

    private func row(epoch: Int64, next: Int64?) -> StoredPosition {
        StoredPosition(
            topic: "t", partition: 0, epoch: epoch, nextOffset: next, updatedAt: Timestamp(microseconds: 0))
    }

    private func taken(epoch: Int64, next: Int64?) -> PartitionPositions {
        var positions = PartitionPositions()
        positions.take([TakenPartition(topic: "t", partition: 0, epoch: epoch, nextOffset: next)])
        return positions
    }

    @Test("Messages before the position or of dropped partitions are not due")
    func due() {
        var positions = taken(epoch: 1, next: 5)
        #expect(positions.firstDue(of: partition, receivedUnder: 1) == 5)
        #expect(taken(epoch: 1, next: nil).firstDue(of: partition, receivedUnder: 1) == 0)
        // Received before the partition was taken anew: reading goes on from the stored position.
        #expect(taken(epoch: 2, next: 5).firstDue(of: partition, receivedUnder: 1) == nil)
        positions.drop([partition])
        #expect(positions.firstDue(of: partition, receivedUnder: 1) == nil)
        #expect(positions.advances(to: [partition: 6]).isEmpty)
    }

    @Test("After a failed compare-and-set the stored row shows whether the COMMIT succeeded")
    func outcome() {
        let positions = taken(epoch: 3, next: 5)
        let advances = positions.advances(to: [partition: 9])
        #expect(advances.map(\.expected) == [5])
        #expect(positions.areApplied(advances, stored: [row(epoch: 3, next: 9)]))
        #expect(!positions.areApplied(advances, stored: [row(epoch: 4, next: 9)]))
        #expect(!positions.areApplied(advances, stored: [row(epoch: 3, next: 5)]))
        #expect(positions.fenced(advances, stored: [row(epoch: 4, next: 5)]) == [partition])
        #expect(positions.fenced(advances, stored: [row(epoch: 3, next: 7)]) == [partition])
        #expect(positions.fenced(advances, stored: []) == [partition])
        #expect(positions.fenced(advances, stored: [row(epoch: 3, next: 5)]).isEmpty)
    }
}
