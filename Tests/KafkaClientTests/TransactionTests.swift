// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import KafkaClient

/// Logs with markers of transactions, and with open transactions.
@Suite(.tags(.integration), .timeLimit(.patience))
struct TransactionTests {
    @Test("Positions and lag pass the markers of transactions")
    func markers() async throws {
        try await withKafka(embeddedOnly: true) { kafka in
            let embedded = try #require(kafka.embedded)
            let topic = try await kafka.topic("markers")
            let place = TopicPartition(topic: topic, partition: 0)
            try await RawRecordBatch(.message(value: Array("a".utf8))).produce(to: embedded, place)
            try await RawRecordBatch(.commitMarker).produce(to: embedded, place)
            try await RawRecordBatch(.abortMarker).produce(to: embedded, place)
            let consumer = try await kafka.consumer(topic)
            #expect(try await consumer.read(1).map(\.offset) == [0])
            #expect(try await consumer.nextAdvance() == [place: 3])
            #expect(await consumer.lag() == [place: 0])
            // Messages behind the markers are delivered.
            try await RawRecordBatch(.message(value: Array("b".utf8))).produce(to: embedded, place)
            #expect(try await consumer.read(1).map(\.offset) == [3])
            try await RawRecordBatch(.commitMarker).produce(to: embedded, place)
            #expect(try await consumer.nextAdvance() == [place: 5])
            // A start among markers is no gap.
            await consumer.assign([place: .at(1)])
            #expect(try await consumer.read(1).map(\.offset) == [3])
            await consumer.shutdown()
        }
    }

    @Test("Markers at the ends of all logs are passed, also after other partitions were taken and given up")
    func markersOfManyPartitions() async throws {
        try await withKafka(embeddedOnly: true) { kafka in
            let embedded = try #require(kafka.embedded)
            let topic = try await kafka.topic("many", partitions: 16)
            let places = (0..<16).map { TopicPartition(topic: topic, partition: Int32($0)) }
            func append(_ content: RawRecordBatch.Content, to places: some Sequence<TopicPartition>) async throws {
                for place in places { try await RawRecordBatch(content).produce(to: embedded, place) }
            }
            try await append(.message(value: Array("a".utf8)), to: places)
            let consumer = try KafkaConsumer(
                configuration: KafkaConsumerConfiguration(kafka: kafka.configuration, group: "many"), logger: quiet)
            let (own, others) = (places[..<8], places[8...])
            await consumer.assign(Dictionary(uniqueKeysWithValues: own.map { ($0, .at(0)) }))
            #expect(try await consumer.read(8).count == 8)
            for round in 1...5 {
                await consumer.assign(Dictionary(uniqueKeysWithValues: others.map { ($0, .at(0)) }))
                await consumer.unassign(Array(others))
                try await append(.commitMarker, to: own)
                let end = Int64(round + 1)
                var ends: [TopicPartition: Int64] = [:]
                while ends.count < own.count || ends.values.contains(where: { $0 < end }) {
                    ends.merge(try await consumer.nextAdvance()) { max($0, $1) }
                }
                #expect(Set(ends.values) == [end])
            }
            await consumer.shutdown()
        }
    }

    @Test("Messages behind the start of an open transaction are neither lag nor backlog")
    func openTransaction() async throws {
        try await withKafka(embeddedOnly: true) { kafka in
            let embedded = try #require(kafka.embedded)
            let topic = try await kafka.topic("open", partitions: 2)
            let places = (0..<2).map { TopicPartition(topic: topic, partition: Int32($0)) }
            for place in places {
                try await RawRecordBatch(.message(value: Array("a".utf8))).produce(to: embedded, place)
            }
            let relay = try KafkaRelay(to: embedded)
            defer { relay.close() }
            relay.show(openMessages: 5_000, in: places[0])
            let cluster = TestCluster(configuration: relay.route(kafka.configuration), embedded: embedded)
            let consumer = try await cluster.consumer(topic)
            #expect(try await consumer.read(2).count == 2)
            try await eventually("there is no lag") { await consumer.lag() == [places[0]: 0, places[1]: 0] }
            // The backlog is counted at most every 20 ms: the count of the first messages may still hold.
            try await eventually("there is no backlog") {
                try await RawRecordBatch(.message(value: Array("b".utf8))).produce(to: embedded, places[1])
                return try await consumer.nextBatch().waiting == 0
            }
            await consumer.shutdown()
        }
    }
}

extension KafkaConsumer {
    fileprivate func nextAdvance() async throws -> [TopicPartition: Int64] {
        for try await event in events {
            if case .advanced(let ends) = event { return ends }
        }
        throw TestFailure("the events have ended")
    }

    fileprivate func nextBatch() async throws -> KafkaBatch {
        for try await event in events {
            if case .batch(let batch) = event { return batch }
        }
        throw TestFailure("the events have ended")
    }
}
