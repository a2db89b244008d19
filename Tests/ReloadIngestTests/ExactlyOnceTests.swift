// SPDX-License-Identifier: Apache-2.0

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

    @Test(
        "After a fatal error of the client the next consumer continues at the stored positions",
        arguments: [false, true])
    func crash(dividing: Bool) async throws {
        try await IngestHarness.lend(maximumBatch: 100, dividing: dividing) { ingest in
            try await place(50, ingest)
            let consumers = Mutex<[KafkaConsumer]>([])
            let service = ingest.service { consumer in consumers.withLock { $0.append(consumer) } }
            try await ingest.running([service]) {
                try await ingest.publish((0..<2000).map { ingest.push("u\($0 % 50)") })
                try await eventually("some events are applied") { try await ingest.applied() > 0 }
                // The client fails fatally, and the service creates another one.
                consumers.withLock { $0.last }?.raiseFatalError()
                try await ingest.publish((0..<2000).map { ingest.push("u\($0 % 50)") })
                try await ingest.waitUntilApplied(4000)
            }
            #expect(try await ingest.counted() == 4000)
            #expect(consumers.withLock { $0.count } >= 2)
        }
    }

    @Test("Connections that are cut repeatedly lose and duplicate nothing", arguments: [false, true])
    func connectionLoss(dividing: Bool) async throws {
        try await IngestHarness.lend(maximumBatch: 200, dividing: dividing) { ingest in
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

    @Test("A batch of a backlog is applied in two transactions: one that waits does not hold up the other")
    func divided() async throws {
        try await IngestHarness.lend(partitions: 2, maximumBatch: 40, dividing: true) { ingest in
            try await place(10, ingest)
            let consumers = Mutex<[KafkaConsumer]>([])
            let service = ingest.service { consumer in consumers.withLock { $0.append(consumer) } }
            try await ingest.running([service]) {
                for partition: Int32 in [0, 1] { try await ingest.publish([ingest.push("u0")], partition: partition) }
                try await ingest.waitUntilApplied(2)
                let consumer = try #require(consumers.withLock { $0.last })
                let batches = consumer.counters.batches
                try await ingest.store.locking("consumer_position WHERE partition = 0 AND next_offset = 1") {
                    // While this event waits, the next batch gathers.
                    try await ingest.store.locking("timeline") {
                        try await ingest.publish([ingest.push("u1")], partition: 1)
                        try await ingest.store.waitUntilBlocked()
                        for partition: Int32 in [0, 1] {
                            try await ingest.publish((0..<20).map { ingest.push("u\($0 % 10)") }, partition: partition)
                        }
                        try await eventually("a full batch waits") { consumer.counters.batches == batches + 2 }
                    }
                    try await eventually("one partition is applied") {
                        try await ingest.store.integer(
                            "SELECT count(*) FROM consumer_position WHERE partition = 1 AND next_offset = 22") == 1
                    }
                    #expect(try await ingest.applied() == 23)
                }
                try await ingest.waitUntilApplied(43)
            }
            #expect(try await ingest.counted() == 43)
        }
    }

    @Test("A consumer is fenced when another process moves its position, and continues there")
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
                    // The position goes back to offset 40: the last 60 events are applied again, and none is lost.
                    try await connection.simple(
                        "UPDATE consumer_position SET epoch = epoch + 1, next_offset = 40 WHERE topic = '\(topic)'")
                }
                try await ingest.waitUntilApplied(200)
            }
            #expect(try await ingest.counted() == 260)
            #expect(service.metrics.ingestFenced.total() >= 1)
        }
    }

    @Test(
        "Batches of a lost partition are dropped once another process has moved its position"
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
                    // One batch waits for the lock and another behind it in the buffer; their sizes vary.
                    try await eventually("two batches wait") { consumer.counters.batches >= before + 2 }
                    consumer.raiseFatalError()
                    try await eventually("the consumer has ended") { await consumer.lag() == nil }
                    // Stands for another process that took the partition and applied 40 of the events.
                    try await connection.simple(
                        "UPDATE consumer_position SET epoch = epoch + 1, next_offset = 140 WHERE topic = '\(topic)'")
                }
                try await ingest.waitUntilApplied(1_100)
            }
            // All events but those 40, which this test did not apply.
            #expect(try await ingest.counted() == 1_060)
        }
    }

    @Test("A position that is set on an idle partition is noticed")
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

    @Test("A partition whose position is beyond the end of the log continues when the position is set")
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

    @Test("Two services share the partitions, and a service that leaves hands its partitions over without loss")
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
                    try await eventually("the second service has its share") {
                        if second.metrics.ingestEvents.total(["outcome": "applied"]) > 0 { return true }
                        try await ingest.publish((0..<50).map { ingest.push("u\($0)") })
                        return false
                    }
                }
                try await ingest.publish((0..<1000).map { ingest.push("u\($0 % 50)") })
                try await eventually("all events are applied") {
                    try await ingest.applied() == ingest.counted()
                        && first.metrics.ingestEvents.total(["outcome": "applied"])
                            + second.metrics.ingestEvents.total(["outcome": "applied"]) >= 9000
                }
            }
            let applied = try await ingest.applied()
            #expect(try await ingest.counted() == applied)
            #expect(
                first.metrics.ingestEvents.total(["outcome": "applied"])
                    + second.metrics.ingestEvents.total(["outcome": "applied"]) == applied)
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
        positions.take([row(epoch: epoch, next: next)])
        return positions
    }

    @Test("Messages before the position and messages of released partitions are not due")
    func due() {
        var positions = taken(epoch: 1, next: 5)
        #expect(positions.firstDue(of: partition, receivedUnder: 1) == 5)
        #expect(taken(epoch: 1, next: nil).firstDue(of: partition, receivedUnder: 1) == 0)
        // The message was received before the partition was taken again; reading continues at the stored position.
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
