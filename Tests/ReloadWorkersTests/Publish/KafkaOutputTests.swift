// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import Logging
import TestSupport
import Testing
import WidgetEvents
import WidgetModel

@testable import ReloadWorkers

extension Tag {
    @Tag static var kafka: Self
}

/// The output with real producers on the embedded cluster.
@Suite(.tags(.kafka), .timeLimit(.patience))
struct KafkaOutputTests {
    private static let topic = "freshet.timelines"

    private func withPublisher(
        _ body: (KafkaProducer, EmbeddedKafka) async throws -> Void
    ) async throws {
        let kafka = try EmbeddedKafka(logger: .silent)
        try kafka.createTopic(Self.topic, partitions: 3)
        let producer = try KafkaProducer(
            configuration: kafka.configuration, deliveryTimeout: Patience.delivery, logger: .silent)
        do {
            try await body(producer, kafka)
        } catch {
            await producer.shutdown()
            throw error
        }
        await producer.shutdown()
    }

    @Test func messagesAreKeyedByTimelineAndCarryTheirRevision() async throws {
        try await withPublisher { publisher, kafka in
            let ids = (1...5).map { TimelineID(high: 1, low: $0) }
            let results = await publisher.send(
                ids.map { id in
                    let event = EncodedEvent(
                        EncodedEvent.timelineRemoved, of: id, revision: Int64(id.low) * 10, source: "s", value: nil)
                    return KafkaMessage(event, topic: Self.topic)
                })
            #expect(results.count == 5)
            for result in results { #expect(throws: Never.self) { try result.get() } }

            let consumer = try KafkaConsumer(
                configuration: KafkaConsumerConfiguration(
                    kafka: kafka.configuration, group: "test"),
                logger: .silent)
            try await consumer.assignAll(of: [Self.topic])
            var revisions: [TimelineID: String] = [:]
            for try await event in consumer.events {
                switch event {
                case .batch(let batch):
                    for index in 0..<batch.count {
                        let key = try #require(batch.key(index))
                        let id = try #require(TimelineID(String(decoding: batch.bytes[key], as: UTF8.self)))
                        #expect(batch.value(index) == nil)
                        let header = try #require(batch.header(index, named: "freshet-revision"))
                        revisions[id] = String(decoding: batch.bytes[header], as: UTF8.self)
                    }
                default:
                    break
                }
                if revisions.count == ids.count { break }
            }
            await consumer.shutdown()
            #expect(revisions == Dictionary(uniqueKeysWithValues: ids.map { ($0, "\($0.low * 10)") }))
        }
    }

    @Test func aMessageThatIsTooLargeIsRefusedAlone() async throws {
        try await withPublisher { publisher, _ in
            let output = TimelineProducer(
                deliveryTimeout: Patience.delivery, backoff: WorkerConfiguration().outputBackoff, clock: WorkerClock()
            ) { await publisher.send($0) }
            let key = Array("key".utf8)
            let outcome = await output.publish([
                KafkaMessage(topic: Self.topic, key: key, value: Array(repeating: 0, count: 4 << 20)),
                KafkaMessage(topic: Self.topic, key: key, value: [1]),
            ])
            #expect(outcome.acknowledged == [1])
            #expect(outcome.refused.map(\.index) == [0])
            #expect(output.allowance() == .everything)
        }
    }

    @Test func longestPublishCoversTheWaitForRoom() {
        let output = TimelineProducer(
            deliveryTimeout: .seconds(10), backoff: WorkerConfiguration().outputBackoff, clock: WorkerClock()
        ) { _ in [] }
        #expect(output.longestPublish == .seconds(20))
    }
}
