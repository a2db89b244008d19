import KafkaClient
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
}
