// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import TestSupport
import Testing

/// Messages are read exactly as produced.
@Suite(.tags(.integration), .timeLimit(.patience))
struct RoundTripTests {
    @Test("Keys, values, headers, nulls and order survive")
    func faithful() async throws {
        try await withKafka { kafka in
            let topic = try await kafka.topic("faithful", partitions: 2)
            let producer = try kafka.producer()
            let consumer = try await kafka.consumer(topic)
            let messages = [
                KafkaMessage(
                    topic: topic, partition: 1, key: Array("k".utf8), value: Array("v".utf8),
                    headers: [
                        KafkaHeader(name: "ce_type", value: "a"), KafkaHeader(name: "none", value: nil),
                        KafkaHeader(name: "ce_type", value: "b"), KafkaHeader(name: "empty", value: []),
                    ], timestampMilliseconds: 1_600_000_000_123),
                KafkaMessage(topic: topic, partition: 1, key: nil, value: nil),
                KafkaMessage(topic: topic, partition: 1, key: [], value: []),
                KafkaMessage(topic: topic, partition: 1, key: [0, 255], value: [0, 1, 2, 254, 255]),
            ]
            let sent = await producer.send(messages)
            #expect(try sent.map { try $0.get().offset } == [0, 1, 2, 3])
            #expect(try sent.map { try $0.get().partition } == [1, 1, 1, 1])

            var batch = KafkaBatch([])
            var seen = 0
            for try await event in consumer.events {
                guard case .batch(let next) = event else { continue }
                for index in 0..<next.count {
                    let message = messages[seen]
                    let place = next.topicPartition(index)
                    let read = KafkaMessage(
                        topic: place.topic, partition: place.partition,
                        key: next.key(index).map { Array(next.bytes[$0]) },
                        value: next.value(index).map { Array(next.bytes[$0]) }, headers: next.headerValues(index),
                        // A message without a time gets that of sending.
                        timestampMilliseconds: message.timestampMilliseconds == nil
                            ? nil : next.records[index].timestampMilliseconds)
                    #expect(read == message)
                    #expect(next.records[index].offset == Int64(seen))
                    let named = ["ce_type", "none", "other"].map { name in
                        next.header(index, named: name).map { String(decoding: next.bytes[$0], as: UTF8.self) }
                    }
                    // The last of several headers of a name counts.
                    #expect(named == [message.headers.isEmpty ? nil : "b", nil, nil])
                    seen += 1
                }
                batch = next
                if seen == messages.count { break }
            }
            #expect(batch.topics == [topic])
            await consumer.shutdown()
            await producer.shutdown()
        }
    }

    @Test("Many messages arrive once, in order per partition, in large batches, and the lag goes to zero")
    func many() async throws {
        try await withKafka { kafka in
            let topic = try await kafka.topic("many", partitions: 4)
            let producer = try kafka.producer()
            let consumer = try await kafka.consumer(topic)
            let count = 20_000
            for chunk in 0..<20 {
                let results = await producer.send(
                    (0..<1000).map { KafkaMessage(topic, "\(chunk * 1000 + $0)", partition: Int32($0 % 4)) })
                #expect(results.allSatisfy { (try? $0.get()) != nil })
            }
            let messages = try await consumer.read(count)
            for partition in 0..<4 {
                let own = messages.filter { $0.place.partition == Int32(partition) }
                #expect(own.map(\.offset) == (0..<Int64(count / 4)).map { $0 })
                #expect(own.map(\.value) == (0..<count).filter { $0 % 4 == partition }.map { "\($0)" })
            }
            let counters = consumer.counters
            #expect(counters.messages == count)
            #expect(counters.batches < count / 10)
            #expect(counters.gaps == 0)
            let places = (0..<4).map { TopicPartition(topic: topic, partition: $0) }
            #expect(await consumer.lag() == Dictionary(uniqueKeysWithValues: places.map { ($0, 0) }))

            await producer.shutdown()
            await consumer.shutdown()
            await consumer.shutdown()
            #expect(await consumer.lag() == nil)
        }
    }
}
