import KafkaClient
import PostgresClient
import TestSupport
import Testing
import WidgetStore

@testable import ReloadIngest

@Suite("Transactional producers", .timeLimit(.patience))
struct TransactionMarkerTests {
    @Test("Positions pass markers of transactions: an idle topic has no lag, and retention of a marker loses nothing")
    func markers() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            guard let embedded = ingest.kafka.embedded else { return }
            try await ingest.place(users: 1)
            let place = TopicPartition(topic: ingest.configuration.topics.pushes, partition: 0)
            let service = ingest.quickService()
            try await ingest.running([service]) {
                try await ingest.publish([ingest.push("u0")])
                try await ingest.waitUntilApplied(1)
                // So large that the log keeps only the last of them.
                for _ in 0..<8 {
                    try await RawRecordBatch(.largeMarker(bytes: 900_000)).produce(to: embedded, place)
                }
                #expect(try await ingest.bounds(of: place.topic).earliest > 1)
                try await ingest.waitUntilApplied(9)
                try await eventually("the topic has no lag") { await service.lag()?[place] == 0 }
            }
            let next = ingest.quickService()
            try await ingest.running([next]) {
                try await ingest.publish([ingest.push("u0")])
                try await RawRecordBatch(.commitMarker).produce(to: embedded, place)
                try await ingest.waitUntilApplied(11)
                #expect(next.obstacles == [])
            }
            #expect(try await ingest.counted() == 2)
            #expect(next.statistics.snapshot.outOfRange == 0)
        }
    }

    @Test("A process that stops leaves its positions behind the markers that it has read")
    func stop() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            guard let embedded = ingest.kafka.embedded else { return }
            try await ingest.place(users: 1)
            let place = TopicPartition(topic: ingest.configuration.topics.pushes, partition: 0)
            let service = ingest.quickService()
            try await ingest.running([service]) {
                for _ in 0..<20 {
                    try await ingest.publish([ingest.push("u0")])
                    try await RawRecordBatch(.commitMarker).produce(to: embedded, place)
                }
                try await eventually("the log is read to its end") { await service.lag()?[place] == 0 }
                try await eventually("the events are applied") { try await ingest.counted() == 20 }
            }
            #expect(try await ingest.applied() == 40)
        }
    }

    @Test("Positions pass markers also if another process has moved the position of another partition meanwhile")
    func fenced() async throws {
        try await IngestHarness.lend(partitions: 3) { ingest in
            guard let embedded = ingest.kafka.embedded else { return }
            try await ingest.place(users: 1)
            let topic = ingest.configuration.topics.pushes
            let places = (0..<3).map { TopicPartition(topic: topic, partition: $0) }
            let service = ingest.quickService()
            try await ingest.running([service]) {
                for place in places { try await ingest.publish([ingest.push("u0")], partition: place.partition) }
                try await ingest.waitUntilApplied(3)
                try await ingest.store.pool.withTransaction { connection in
                    try await connection.simple(
                        "SELECT FROM consumer_position WHERE topic = '\(topic)' AND partition = 2 FOR UPDATE")
                    try await ingest.publish([ingest.push("u0")], partition: 2)
                    try await ingest.store.waitUntilBlocked()
                    for place in places[..<2] { try await RawRecordBatch(.commitMarker).produce(to: embedded, place) }
                    try await eventually("both markers are read") {
                        let lag = await service.lag()
                        return places[..<2].allSatisfy { lag?[$0] == 0 }
                    }
                    // Stands for another process that took the partition.
                    try await connection.simple(
                        "UPDATE consumer_position SET epoch = epoch + 1 WHERE topic = '\(topic)' AND partition = 1")
                }
                try await ingest.waitUntilApplied(6)
            }
            #expect(service.statistics.snapshot.fencedPartitions == 1)
        }
    }
}
