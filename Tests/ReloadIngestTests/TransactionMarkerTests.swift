// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import PostgresClient
import TestSupport
import Testing
import WidgetModel
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
                #expect(try await ingest.bounds(of: place.topic).lowerBound > 1)
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
            #expect(next.metrics.ingestOutOfRange.total() == 0)
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

    @Test("Positions pass markers also if another process has taken one of the partitions")
    func fenced() async throws {
        try await IngestHarness.lend(partitions: 2) { ingest in
            let pool = ingest.store.pool
            let places = (0..<2).map { TopicPartition(topic: ingest.configuration.topics.pushes, partition: $0) }
            let names = places.map { ($0.topic, $0.partition) }
            let service = ingest.quickService()
            let consumer = try KafkaConsumer(
                configuration: KafkaConsumerConfiguration(
                    kafka: ingest.kafka.configuration, group: ingest.configuration.group),
                logger: IngestHarness.quiet)
            var positions = PartitionPositions()
            positions.take(try await pool.query(.takePartitions(names, cluster: nil)))
            _ = try await pool.query(.takePartitions([names[1]], cluster: nil))
            let session = IngestSession(of: service, consumer, positions: positions)
            try await session.handle(.advanced([places[0]: 5, places[1]: 5]))
            await consumer.shutdown()
            let stored = try await pool.query(.listPositions()).filter { $0.topic == places[0].topic }
            #expect(stored.map(\.nextOffset) == [5, nil])
            #expect(service.metrics.ingestFenced.total() == 1)
        }
    }
}
