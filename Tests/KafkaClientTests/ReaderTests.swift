// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import TestSupport
import Testing

/// Reading single messages by position.
@Suite(.tags(.integration), .timeLimit(.patience))
struct ReaderTests {
    @Test("A message is read at its offset, with key, headers and time")
    func found() async throws {
        try await withKafka { kafka in
            let topic = try await kafka.topic("reader", partitions: 2)
            let producer = try kafka.producer()
            let messages = (0..<20).map { index in
                KafkaMessage(
                    topic: topic, partition: 1, key: Array("k\(index)".utf8), value: Array("v\(index)".utf8),
                    headers: [KafkaHeader(name: "ce_id", value: "e\(index)")], timestampMilliseconds: 1_600_000_000_123)
            }
            for result in await producer.send(messages) { _ = try result.get() }
            let reader = KafkaReader(configuration: kafka.configuration, logger: quiet)
            for offset in [0, 7, 19] {
                let read = try await reader.message(
                    topic: topic, partition: 1, offset: Int64(offset), timeout: Patience.limit)
                let batch = try #require(read)
                #expect(batch.count == 1 && batch.topics == [topic])
                #expect(batch.records[0].offset == Int64(offset) && batch.records[0].partition == 1)
                #expect(batch.records[0].timestampMilliseconds == 1_600_000_000_123)
                #expect(batch.message(0).key == "k\(offset)" && batch.message(0).value == "v\(offset)")
                #expect(batch.headerValues(0) == messages[offset].headers)
            }
            await producer.shutdown()
        }
    }

    @Test("A range of messages is read as far as the log has them")
    func range() async throws {
        try await withKafka { kafka in
            let topic = try await kafka.topic("reader")
            let producer = try kafka.producer()
            let messages = (0..<500).map { KafkaMessage(topic: topic, partition: 0, value: Array("v\($0)".utf8)) }
            for result in await producer.send(messages) { _ = try result.get() }
            let reader = KafkaReader(configuration: kafka.configuration, logger: quiet)
            let place = TopicPartition(topic: topic, partition: 0)
            let ranges: [ClosedRange<Int64>] = [0...499, 490...499, 3...5, 495...10_000]
            for range in ranges {
                let batch = try await reader.messages(of: place, at: range, timeout: Patience.limit)
                #expect(batch?.records.map(\.offset) == Array(range.clamped(to: 0...499)))
            }
            #expect(try await reader.messages(of: place, at: 500...600, timeout: Patience.limit)?.count == nil)
            await producer.shutdown()
        }
    }

    @Test("Messages of several partitions are read at the same time, each with its own answer")
    func several() async throws {
        try await withKafka { kafka in
            let topic = try await kafka.topic("reader", partitions: 16)
            let producer = try kafka.producer()
            let messages = (Int32(0)..<16).map {
                KafkaMessage(topic: topic, partition: $0, value: Array("v\($0)".utf8))
            }
            for result in await producer.send(messages) { _ = try result.get() }
            await producer.shutdown()
            let place = { TopicPartition(topic: topic, partition: $0) }
            var offsets = Dictionary(uniqueKeysWithValues: (0..<16).map { (place($0), Int64(0)) })
            offsets[place(15)] = 1
            offsets[place(16)] = 0
            offsets[place(-1)] = 0
            let reader = KafkaReader(configuration: kafka.configuration, logger: quiet)
            let answers = try await reader.messages(at: offsets, timeout: Patience.limit)
            for partition in Int32(0)..<15 {
                #expect(try answers[place(partition)]?.get()?.message(0).value == "v\(partition)")
            }
            for partition: Int32 in [-1, 15] { #expect(try #require(answers[place(partition)]).get() == nil) }
            #expect(throws: KafkaError.self) { try answers[place(16)]?.get() }
        }
    }

    @Test("A missing offset is nil; a missing topic or partition is an error")
    func absent() async throws {
        try await withKafka { kafka in
            let topic = try await kafka.topic("reader")
            let producer = try kafka.producer()
            _ = try await producer.send(KafkaMessage(topic: topic, partition: 0, value: []))
            await producer.shutdown()
            let reader = KafkaReader(configuration: kafka.configuration, logger: quiet)
            for offset in [1, 2, 1_000_000, -1, Int64.max] {
                let read = try await reader.message(
                    topic: topic, partition: 0, offset: offset, timeout: Patience.limit)
                #expect(read?.count == nil, "offset \(offset)")
            }
            let empty = try await reader.message(topic: topic, partition: 0, offset: 0, timeout: Patience.limit)
            #expect(empty?.value(0)?.isEmpty == true)
            await #expect(throws: KafkaError.self) {
                try await reader.message(topic: topic, partition: 9, offset: 0)
            }
            #expect(try await reader.message(topic: topic, partition: -1, offset: 0)?.count == nil)
        }
    }

    @Test("Silent brokers cause a time-out, without secrets in the error")
    func unreachable() async throws {
        let configuration = KafkaConfiguration(bootstrapServers: "127.0.0.1:1")
        let reader = KafkaReader(configuration: configuration, logger: quiet)
        do {
            _ = try await reader.message(topic: "t", partition: 0, offset: 0, timeout: .milliseconds(500))
            Issue.record("no broker is running")
        } catch {
            #expect(error.isRetriable, "\(error)")
        }

        let wrong = KafkaConfiguration(bootstrapServers: "127.0.0.1:1", properties: ["no.such": "geheim"])
        await #expect {
            try await KafkaReader(configuration: wrong, logger: quiet).message(topic: "t", partition: 0, offset: 0)
        } throws: { error in
            (error as? KafkaError)?.code == .invalidConfiguration && !"\(error)".contains("geheim")
        }
    }
}
