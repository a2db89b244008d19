// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import TestSupport
import Testing

/// Positions, back-pressure and the end of a consumer.
@Suite(.tags(.integration), .timeLimit(.patience))
struct ConsumerTests {
    private func fill(_ kafka: TestCluster, _ topic: String, _ count: Int, partitions: Int = 1) async throws {
        let producer = try kafka.producer()
        let results = await producer.send(
            (0..<count).map { KafkaMessage(topic, "\($0)", partition: Int32($0 % partitions)) })
        #expect(results.allSatisfy { (try? $0.get()) != nil })
        await producer.shutdown()
    }

    @Test("A slow receiver pauses fetching repeatedly, and every message arrives once and in order")
    func backPressure() async throws {
        try await withKafka { kafka in
            let topic = try await kafka.topic("slow", partitions: 2)
            let count = 6000
            try await fill(kafka, topic, count, partitions: 2)
            let log = RecordedLog()
            let consumer = try await kafka.consumer(topic, logger: log.logger) {
                $0.maximumBatchMessages = 100
                $0.bufferedBatches = 2
                $0.pauseDelay = .milliseconds(20)
            }
            var offsets: [Int32: [Int64]] = [:]
            var seen = 0
            for try await event in consumer.events {
                guard case .batch(let batch) = event else { continue }
                #expect(batch.count <= 100)
                for message in batch.messages { offsets[message.place.partition, default: []].append(message.offset) }
                seen += batch.count
                // Waits for a pause before it receives more, ten times.
                if seen <= 1000 { try await log.next("fetching is paused: the receiver is slow") }
                if seen >= count { break }
            }
            #expect(offsets == [0: (0..<3000).map { $0 }, 1: (0..<3000).map { $0 }])
            #expect(consumer.counters.pauses >= 10)
            #expect(consumer.counters.messages == count)
            await consumer.shutdown()
        }
    }

    @Test("Fetching that is paused for a slow receiver resumes after a seek has emptied the batch")
    func holdAndSeek() async throws {
        try await withKafka { kafka in
            let topic = try await kafka.topic("hold-seek")
            let place = TopicPartition(topic: topic, partition: 0)
            try await fill(kafka, topic, 1000)
            let log = RecordedLog()
            let consumer = try await kafka.consumer(topic, logger: log.logger) {
                $0.maximumBatchMessages = 100
                $0.bufferedBatches = 1
                $0.pauseDelay = .milliseconds(20)
                $0.maximumWait = .seconds(10)
            }
            // The first batch may have fewer messages than the largest one, so that more than 100 are read.
            let first = try await consumer.read(100).map(\.offset)
            #expect(first == (0..<Int64(first.count)).map { $0 })
            try await log.next("fetching is paused: the receiver is slow")
            // No fetched message is left, neither in the buffer nor in the current batch.
            await consumer.assign([place: .at(300)])
            #expect(try await consumer.read(700).map(\.offset) == (300..<1000).map { $0 })
            await consumer.shutdown()
        }
    }

    @Test("A partition that is released and assigned again during a pause is read further")
    func assignedWhilePaused() async throws {
        try await withKafka { kafka in
            let topic = try await kafka.topic("paused")
            let place = TopicPartition(topic: topic, partition: 0)
            let count = 3000
            try await fill(kafka, topic, count)
            let log = RecordedLog()
            let consumer = try await kafka.consumer(topic, logger: log.logger) {
                $0.maximumBatchMessages = 100
                $0.bufferedBatches = 2
                $0.pauseDelay = .milliseconds(20)
            }
            var offsets: [Int64] = []
            for try await event in consumer.events {
                guard case .batch(let batch) = event else { continue }
                offsets += batch.messages.map(\.offset)
                if offsets.count == batch.count {
                    try await log.next("fetching is paused: the receiver is slow")
                    await consumer.unassign([place])
                    await consumer.assign([place: .at(Int64(offsets.count))])
                }
                if offsets.count >= count { break }
            }
            #expect(offsets == (0..<count).map { Int64($0) })
            await consumer.shutdown()
        }
    }

    @Test("Partitions are assigned, released and interrupted in order; released ones deliver nothing")
    func assignments() async throws {
        try await withKafka { kafka in
            let topic = try await kafka.topic("assign", partitions: 2)
            let places = (0..<2).map { TopicPartition(topic: topic, partition: Int32($0)) }
            try await fill(kafka, topic, 10, partitions: 2)
            let consumer = try await kafka.consumer()
            #expect(await consumer.lag() == [:])
            await consumer.assign([places[0]: .at(2)])
            #expect(try await consumer.read(3).map(\.offset) == [2, 3, 4])
            await consumer.assign([places[1]: .at(3)])
            #expect(try await consumer.read(2).map(\.offset) == [3, 4])

            await consumer.unassign([places[0]])
            try await fill(kafka, topic, 20, partitions: 2)
            let odd = try await consumer.read(10)
            #expect(odd.allSatisfy { $0.place == places[1] })
            await consumer.assign([places[0]: .at(5)])
            #expect(try await consumer.read(10).map(\.offset) == (5..<15).map { $0 })

            consumer.interrupt()
            consumer.interrupt()
            guard case .interrupted = try await consumer.nextEvent() else { throw TestFailure("no interruption came") }
            await consumer.shutdown()
            #expect(try await consumer.rest().allSatisfy { if case .error = $0 { true } else { false } })
        }
    }

    @Test("Assigning again moves the position and drops buffered messages; an offset out of range is reported")
    func seek() async throws {
        try await withKafka { kafka in
            let topic = try await kafka.topic("seek")
            let place = TopicPartition(topic: topic, partition: 0)
            try await fill(kafka, topic, 1000)
            let consumer = try await kafka.consumer(topic, at: [place: .at(900)]) { $0.maximumBatchMessages = 50 }
            #expect(try await consumer.read(50).map(\.offset).starts(with: 900..<950))
            // The remaining messages are buffered or about to be; none may be delivered.
            for offset in [Int64(10), 500, 990, 0] {
                await consumer.assign([place: .at(offset)])
                let count = min(50, 1000 - Int(offset))
                let read = try await consumer.read(count).map(\.offset)
                #expect(read.first == offset)
                #expect(read == (offset..<offset + Int64(read.count)).map { $0 })
            }
            await consumer.assign([place: .earliest])
            #expect(try await consumer.read(50).first?.offset == 0)

            for beyond in [Int64(5000), 7000] {
                await consumer.assign([place: .at(beyond)])
                var event = try await consumer.nextEvent()
                while case .error = event { event = try await consumer.nextEvent() }
                guard case .offsetOutOfRange(place, beyond) = event else {
                    Issue.record("\(event)")
                    break
                }
            }
            await consumer.assign([place: .at(995)])
            #expect(try await consumer.read(5).map(\.offset) == (995..<1000).map { $0 })
            await consumer.assign([place: .latest])
            // The consumer asks the broker for the latest offset after the seek: sends until a message follows it.
            let producer = try kafka.producer()
            let sending = Task { while !Task.isCancelled { _ = try? await producer.send(KafkaMessage(topic, "new")) } }
            #expect(try #require(try await consumer.read(1).first).offset >= 1000)
            sending.cancel()
            await producer.shutdown()
            await consumer.shutdown()
        }
    }

    @Test("A position among messages that the embedded cluster has dropped is out of range and not skipped")
    func droppedMessages() async throws {
        try await withKafka(embeddedOnly: true) { kafka in
            let topic = try await kafka.topic("dropped")
            let producer = try kafka.producer(properties: ["compression.codec": "none"])
            let value = String(repeating: "x", count: 100_000)
            for _ in 0..<8 {
                let results = await producer.send((0..<10).map { _ in KafkaMessage(topic, value) })
                #expect(results.allSatisfy { (try? $0.get()) != nil })
            }
            await producer.shutdown()
            let place = TopicPartition(topic: topic, partition: 0)
            let consumer = try await kafka.consumer(topic, at: [place: .at(3)])
            for try await event in consumer.events {
                if case .batch = event { Issue.record("unexpected batch") }
                guard case .offsetOutOfRange(let lost, let offset) = event else { continue }
                #expect(lost == place)
                #expect(offset == 3)
                break
            }
            await consumer.assign([place: .earliest])
            let first = try #require(try await consumer.read(1).first)
            #expect(first.offset > 3)
            await consumer.shutdown()
        }
    }

    @Test("A consumer that restarts at the handled positions receives each message once")
    func restart() async throws {
        try await withKafka { kafka in
            let topic = try await kafka.topic("restart", partitions: 3)
            let count = 3000
            try await fill(kafka, topic, count, partitions: 3)
            var handled: [ReadMessage] = []
            var positions: [TopicPartition: Int64] = [:]
            for stop in [1000, count] {
                let consumer = try await kafka.consumer(topic, at: positions.mapValues { .at($0) }) {
                    $0.maximumBatchMessages = 100
                }
                for try await event in consumer.events {
                    guard case .batch(let batch) = event else { continue }
                    for message in batch.messages {
                        handled.append(message)
                        positions[message.place] = message.offset + 1
                    }
                    consumer.commit(positions)
                    guard handled.count >= stop else { continue }
                    // Shuts down during the iteration: the buffered messages are delivered, then the sequence ends.
                    let ending = Task { await consumer.shutdown() }
                    // The first consumer must end before it has read everything.
                    if stop < count { await ending.value }
                }
            }
            #expect(handled.count == count)
            #expect(Set(handled.compactMap(\.value)).count == count)
        }
    }

    @Test(
        "A commit that Kafka refuses affects neither the assignment nor messages",
        arguments: ["ILLEGAL_GENERATION": 22, "UNKNOWN_MEMBER_ID": 25])
    func refusedCommit(name: String, number: Int32) async throws {
        try await withKafka(embeddedOnly: true) { kafka in
            let topic = try await kafka.topic("lost")
            try await fill(kafka, topic, 10)
            let place = TopicPartition(topic: topic, partition: 0)
            let log = RecordedLog()
            let consumer = try await kafka.consumer(topic, logger: log.logger)
            try kafka.embedded?.pushRequestErrors(.offsetCommit, [KafkaError.Code(number: number, name: name)])
            #expect(try await consumer.read(10).map(\.offset) == (0..<10).map { $0 })
            consumer.commit([place: 10])
            try await log.next("offsets were not committed (for lag tools only)")
            try await fill(kafka, topic, 5)
            #expect(try await consumer.read(5).map(\.offset) == (10..<15).map { $0 })
            await consumer.shutdown()
        }
    }

    @Test("A fatal error is thrown after earlier events")
    func fatal() async throws {
        try await withKafka { kafka in
            let topic = try await kafka.topic("fatal")
            try await fill(kafka, topic, 1)
            let consumer = try await kafka.consumer(topic)
            var batches = 0
            let error = await #expect(throws: KafkaError.self) {
                for try await event in consumer.events {
                    guard case .batch = event else { continue }
                    batches += 1
                    consumer.raiseFatalError()
                }
            }
            #expect(batches == 1)
            #expect(error?.isFatal == true)
            #expect(error?.message.contains("raised for a test") == true)
            await consumer.shutdown()
        }
    }

    @Test("A shutdown ends without a broker, with or without an iteration")
    func shutdownWithoutBroker() async throws {
        try await withKafka(embeddedOnly: true) { kafka in
            let topic = try await kafka.topic("away")
            try await fill(kafka, topic, 1)
            let consumer = try await kafka.consumer(topic)
            #expect(try await consumer.read(1).count == 1)
            let never = try await kafka.consumer()
            try kafka.embedded?.stopBroker(1)
            await consumer.shutdown()
            #expect(try await consumer.rest().allSatisfy { if case .error = $0 { true } else { false } })
            await never.shutdown()
            #expect(try await never.rest().allSatisfy { if case .error = $0 { true } else { false } })
        }
    }
}

extension KafkaConsumer {
    func nextEvent() async throws -> KafkaConsumerEvent {
        for try await event in events { return event }
        throw TestFailure("the events have ended")
    }

    /// Remaining messages after the shutdown.
    func rest() async throws -> [KafkaConsumerEvent] {
        var rest: [KafkaConsumerEvent] = []
        for try await event in events { rest.append(event) }
        return rest
    }
}
