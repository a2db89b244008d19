// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import TestSupport
import Testing

/// Moving a partition while batches wait for the receiver.
@Suite(.tags(.integration), .timeLimit(.patience))
struct BufferedSeekTests {
    @Test("A seek removes a partition's waiting messages, and keeps those of the other in order")
    func seeks() async throws {
        try await withKafka { kafka in
            let topic = try await kafka.topic("seek", partitions: 2)
            let producer = try kafka.producer()
            let results = await producer.send(
                (0..<4000).map { KafkaMessage(topic, "\($0)", partition: Int32($0 % 2)) })
            #expect(results.allSatisfy { (try? $0.get()) != nil })
            await producer.shutdown()
            let consumer = try await kafka.consumer(topic) {
                $0.maximumBatchMessages = 150
                $0.bufferedBatches = 1
            }
            var offsets: [Int32: [Int64]] = [:]
            var batches = 0
            for try await event in consumer.events {
                switch event {
                case .batch(let batch):
                    batches += 1
                    for index in 0..<batch.count {
                        let record = batch.records[index]
                        let value = batch.value(index).map { String(decoding: batch.bytes[$0], as: UTF8.self) }
                        #expect(value == "\(2 * record.offset + Int64(record.partition))")
                        offsets[record.partition, default: []].append(record.offset)
                    }
                    if batches == 3 || batches == 6 {
                        let next = (offsets[0]?.last ?? -1) + 1
                        await consumer.assign([TopicPartition(topic: topic, partition: 0): .at(next)])
                    }
                case .offsetOutOfRange, .otherLog: Issue.record("\(event)")
                case .error, .interrupted, .advanced, .unreadable: continue
                }
                if offsets.values.map(\.count).reduce(0, +) >= 4000 { break }
            }
            #expect(offsets == [0: (0..<2000).map { $0 }, 1: (0..<2000).map { $0 }])
            await consumer.shutdown()
        }
    }
}
