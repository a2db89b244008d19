// SPDX-License-Identifier: Apache-2.0

import Logging
import TestSupport
import Testing

@testable import KafkaClient

/// Limits, order and failures of sends.
@Suite(.tags(.integration), .timeLimit(.patience))
struct ProducerTests {
    /// Waits until the numbers of messages in flight and waiting satisfy a condition.
    private func reach(
        _ producer: KafkaProducer, _ isReached: (KafkaProducerDepth) -> Bool
    ) async throws {
        while !isReached(await producer.depth()) { try Task.checkCancellation() }
    }

    @Test("A full queue suspends senders, which are served in order and can be cancelled")
    func fullQueue() async throws {
        try await withKafka(embeddedOnly: true) { kafka in
            let embedded = try #require(kafka.embedded)
            let topic = try await kafka.topic("full")
            let producer = try kafka.producer(maximumQueuedMessages: 10)
            _ = try await producer.send(KafkaMessage(topic, "before"))
            try embedded.stopBroker(1)

            let first = Task { await producer.send((0..<25).map { KafkaMessage(topic, "a\($0)") }) }
            try await reach(producer) { $0.messagesInFlight == 10 && $0.messagesWaiting == 15 }
            let cancelled = Task { try await producer.send(KafkaMessage(topic, "never")) }
            try await reach(producer) { $0.messagesWaiting == 16 }
            let last = Task { try await producer.send(KafkaMessage(topic, "b")) }
            try await reach(producer) { $0.messagesWaiting == 17 }

            cancelled.cancel()
            let error = await #expect(throws: KafkaError.self) { try await cancelled.value }
            #expect(error?.code == .cancelled)
            #expect(error?.isPossiblyPersisted == false)
            #expect(await producer.depth().messagesWaiting == 16)
            #expect(await producer.depth().messagesInFlight == 10)

            try embedded.startBroker(1)
            let results = await first.value
            #expect(try results.map { try $0.get().offset } == (1...25).map { $0 })
            #expect(try await last.value.offset == 26)
            #expect(await producer.depth() == KafkaProducerDepth())
            await producer.shutdown()
        }
    }

    @Test("The limit in bytes applies, too, and a single larger message is still sent")
    func bytes() async throws {
        try await withKafka(embeddedOnly: true) { kafka in
            let topic = try await kafka.topic("bytes")
            let producer = try kafka.producer(maximumQueuedBytes: 1000)
            let embedded = try #require(kafka.embedded)
            _ = try await producer.send(KafkaMessage(topic, "before"))
            try embedded.stopBroker(1)
            let value = String(repeating: "x", count: 400)
            let task = Task { await producer.send((0..<5).map { _ in KafkaMessage(topic, value) }) }
            try await reach(producer) { $0.messagesInFlight == 2 && $0.bytesInFlight == 800 && $0.messagesWaiting == 3 }
            try embedded.startBroker(1)
            #expect(await task.value.allSatisfy { (try? $0.get()) != nil })
            let large = try await producer.send(KafkaMessage(topic, String(repeating: "y", count: 5000)))
            #expect(large.offset == 6)
            await producer.shutdown()
        }
    }

    @Test("A message that is too large fails at once and permanently; others are stored")
    func oversized() async throws {
        try await withKafka { kafka in
            let topic = try await kafka.topic("oversized")
            let producer = try kafka.producer()
            let results = await producer.send([
                KafkaMessage(topic, "a"), KafkaMessage(topic, String(repeating: "x", count: 2_000_000)),
                KafkaMessage(topic, "b"),
            ])
            #expect(try results[0].get().offset == 0)
            #expect(try results[2].get().offset == 1)
            let error = #expect(throws: KafkaError.self) { try results[1].get() }
            #expect(error?.code == .messageTooLarge)
            #expect(error?.isRetriable == false)
            #expect(error?.context.topic == topic)
            await producer.shutdown()
        }
    }

    @Test("Transient errors lose and duplicate nothing and keep the order")
    func requestErrors() async throws {
        try await withKafka(embeddedOnly: true) { kafka in
            let embedded = try #require(kafka.embedded)
            let messages = try await send(kafka) { chunk in
                switch chunk {
                case 2: try embedded.pushRequestErrors(.produce, [.notLeaderForPartition, .requestTimedOut])
                case 5: try embedded.pushRequestErrors(.produce, [.notEnoughReplicas, .notLeaderForPartition])
                default: break
                }
            }
            #expect(messages.count == Self.total)
            Self.verify(messages)
        }
    }

    @Test("A cut connection and a broker restart lose nothing and keep the order")
    func brokerRestart() async throws {
        try await withKafka(embeddedOnly: true) { kafka in
            let embedded = try #require(kafka.embedded)
            let log = RecordedLog()
            async let restart: Void = {
                // Starts the broker again after the producer has noticed the outage.
                try await log.next("the broker is stopped now")
                try await log.next { $0.metadata["facility"] == "FAIL" }
                try embedded.startBroker(1)
            }()
            let messages = try await send(kafka, logger: log.logger) { chunk in
                if chunk == 2 { try embedded.pushRequestErrors(.produce, [.disconnect]) }
                guard chunk == 5 else { return }
                log.logger.info("the broker is stopped now")
                try embedded.stopBroker(1)
            }
            try await restart
            // A real broker recognises the sequence number of a stored message; the embedded one stores the message
            // again if the connection was cut before its answer.
            var seen: Set<String> = []
            Self.verify(messages.filter { seen.insert($0.value ?? "").inserted })
        }
    }

    private static let total = 3000

    /// Sends a thousand messages from each of three senders, in ten chunks of a hundred, and returns the stored
    /// messages. The first sender calls `disturb` before each of its chunks.
    private func send(
        _ kafka: TestCluster, logger: Logger = quiet, disturbing disturb: @escaping @Sendable (Int) throws -> Void
    ) async throws -> [ReadMessage] {
        let topic = try await kafka.topic("faults", partitions: 2)
        let producer = try kafka.producer(logger: logger)
        let results = try await withThrowingTaskGroup { group in
            for sender in 0..<3 {
                group.addTask {
                    var results: [Result<KafkaDelivery, KafkaError>] = []
                    for chunk in 0..<10 {
                        if sender == 0 { try disturb(chunk) }
                        results += await producer.send(
                            (0..<100).map { index in
                                let number = sender * 1000 + chunk * 100 + index
                                return KafkaMessage(topic, "\(number)", partition: Int32(number % 2))
                            })
                    }
                    return results
                }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        #expect(results.count == Self.total)
        for result in results { #expect(throws: Never.self) { try result.get() } }
        await producer.shutdown()

        let last = (0..<2).map { partition in
            results.compactMap { try? $0.get() }.filter { $0.partition == Int32(partition) }.compactMap(\.offset).max()
                ?? -1
        }
        let offsets = results.compactMap { try? $0.get() }.map { "\($0.partition): \($0.offset ?? -1)" }
        #expect(Set(offsets).count == Self.total)
        let consumer = try await kafka.consumer(topic)
        // Offsets start at 0, so this is the minimum number of messages, including repeated ones.
        let messages = try await consumer.read(max(Self.total, Int(last[0] + last[1] + 2)))
        await consumer.shutdown()
        return messages
    }

    /// Expects each sender's messages once and in order in each partition.
    private static func verify(_ messages: [ReadMessage]) {
        for sender in 0..<3 {
            for partition in 0..<2 {
                let numbers = messages.filter { $0.place.partition == Int32(partition) }
                    .compactMap { Int($0.value ?? "") }.filter { $0 / 1000 == sender }
                #expect(numbers == (0..<1000).map { sender * 1000 + $0 }.filter { $0 % 2 == partition })
            }
        }
    }

    @Test("With an unreachable broker the delivery timeout ends the wait with a retriable error")
    func deliveryTimeout() async throws {
        try await withKafka(embeddedOnly: true) { kafka in
            let embedded = try #require(kafka.embedded)
            let topic = try await kafka.topic("timeout")
            let producer = try kafka.producer(deliveryTimeout: .milliseconds(300), maximumQueuedMessages: 1)
            try embedded.stopBroker(1)
            let begun = ContinuousClock.now
            let results = await producer.send([KafkaMessage(topic, "in flight"), KafkaMessage(topic, "waiting")])
            #expect(begun.duration(to: .now) >= .milliseconds(300))
            for result in results {
                let error = #expect(throws: KafkaError.self) { try result.get() }
                #expect(error?.code == .messageTimedOut)
                #expect(error?.isRetriable == true)
            }
            await producer.shutdown()
        }
    }

    @Test("A permanent error of the broker is returned at once")
    func refused() async throws {
        try await withKafka(embeddedOnly: true) { kafka in
            let topic = try await kafka.topic("refused")
            let producer = try kafka.producer()
            try kafka.embedded?.pushRequestErrors(.produce, [.topicAuthorizationFailed])
            let error = await #expect(throws: KafkaError.self) { try await producer.send(KafkaMessage(topic, "x")) }
            #expect(error?.code == .topicAuthorizationFailed)
            #expect(error?.isRetriable == false)
            await producer.shutdown()
        }
    }

    @Test("Flush waits for earlier messages")
    func flush() async throws {
        try await withKafka(embeddedOnly: true) { kafka in
            let topic = try await kafka.topic("flush")
            let producer = try kafka.producer()
            await producer.flush()
            _ = try await producer.send(KafkaMessage(topic, "warm"))
            try kafka.embedded?.stopBroker(1)
            let task = Task { await producer.send((0..<50).map { KafkaMessage(topic, "\($0)") }) }
            try await reach(producer) { $0.messagesInFlight == 50 }
            let begins = Gate()
            let flush = Task {
                begins.open()
                await producer.flush()
                return await producer.depth().messagesInFlight
            }
            try await begins.pass()
            #expect(await producer.depth().messagesInFlight == 50)
            try kafka.embedded?.startBroker(1)
            #expect(await flush.value == 0)
            #expect(await task.value.allSatisfy { (try? $0.get()) != nil })
            await producer.shutdown()
        }
    }

    @Test("Shutdown finishes sent messages and refuses later ones; a second shutdown only waits")
    func shutdown() async throws {
        try await withKafka { kafka in
            let topic = try await kafka.topic("shutdown")
            let producer = try kafka.producer(maximumQueuedMessages: 5)
            _ = try await producer.send(KafkaMessage(topic, "before"))
            // The embedded broker confirms nothing until the shutdown begins; a real one may have confirmed everything.
            try kafka.embedded?.stopBroker(1)
            let isConfirmed = Tally()
            let task = Task {
                let results = await producer.send((0..<100).map { KafkaMessage(topic, "\($0)") })
                isConfirmed.add()
                return results
            }
            try await reach(producer) { $0.messagesInFlight > 0 || isConfirmed.count > 0 }
            async let one: Void = producer.shutdown()
            async let two: Void = producer.shutdown()
            try kafka.embedded?.startBroker(1)
            _ = await (one, two)
            #expect(await task.value.compactMap { try? $0.get().offset } == (1...100).map { $0 })
            let error = await #expect(throws: KafkaError.self) { try await producer.send(KafkaMessage(topic, "late")) }
            #expect(error?.code == .invalidState)
            await producer.flush()
            #expect(await producer.depth() == KafkaProducerDepth())
        }
    }

    @Test("A fatal error fails messages under way and waiting ones, which may be sent again")
    func fatal() async throws {
        try await withKafka(embeddedOnly: true) { kafka in
            let topic = try await kafka.topic("fatal")
            let producer = try kafka.producer(maximumQueuedMessages: 2)
            _ = try await producer.send(KafkaMessage(topic, "before"))
            try kafka.embedded?.stopBroker(1)
            let task = Task { await producer.send((0..<5).map { KafkaMessage(topic, "\($0)") }) }
            try await reach(producer) { $0.messagesInFlight == 2 && $0.messagesWaiting == 3 }
            producer.raiseFatalError()
            for result in await task.value {
                let error = #expect(throws: KafkaError.self) { try result.get() }
                // The error is not fatal for the sender: the next attempt uses the new client.
                #expect(error?.isFatal == false)
                #expect(error?.isRetriable == true)
                #expect(error?.message.contains("raised for a test") == true)
            }
            try kafka.embedded?.startBroker(1)
            // Refused until the back-off ends.
            let error = await #expect(throws: KafkaError.self) { try await producer.send(KafkaMessage(topic, "soon")) }
            #expect(error?.isRetriable == true)
            await producer.shutdown()
        }
    }

    @Test("A new client follows each fatal error, and can be shut down")
    func restart() async throws {
        try await withKafka(embeddedOnly: true) { kafka in
            let topic = try await kafka.topic("restart")
            let producer = try kafka.producer()
            _ = try await producer.send(KafkaMessage(topic, "before"))
            producer.raiseFatalError()
            try await sendAgainAndAgain(KafkaMessage(topic, "late"), with: producer)
            #expect(producer.restarts == 1)
            producer.raiseFatalError()
            try await sendAgainAndAgain(KafkaMessage(topic, "later"), with: producer)
            #expect(producer.restarts == 2)
            #expect(await producer.depth() == KafkaProducerDepth())
            await producer.shutdown()
            let end = await #expect(throws: KafkaError.self) { try await producer.send(KafkaMessage(topic, "end")) }
            #expect(end?.code == .invalidState)

            let consumer = try await kafka.consumer(topic)
            #expect(try await consumer.read(3).map(\.value) == ["before", "late", "later"])
            await consumer.shutdown()
        }
    }

    @Test("Messages sent during a fatal error are answered")
    func fatalRace() async throws {
        try await withKafka(embeddedOnly: true) { kafka in
            let topic = try await kafka.topic("race")
            for round in 0..<20 {
                let producer = try kafka.producer()
                _ = try await producer.send(KafkaMessage(topic, "before"))
                // Each of these must be answered, also those between the error and its detection.
                async let others = withTaskGroup(of: Int.self) { group in
                    for index in 0..<50 {
                        group.addTask { await producer.send([KafkaMessage(topic, "\(round)-\(index)")]).count }
                    }
                    return await group.reduce(0, +)
                }
                producer.raiseFatalError()
                for index in 0..<50 {
                    #expect(await producer.send([KafkaMessage(topic, "\(round)+\(index)")]).count == 1)
                }
                #expect(await others == 50)
                await producer.shutdown()
            }
        }
    }

    private func sendAgainAndAgain(_ message: KafkaMessage, with producer: KafkaProducer) async throws {
        try await eventually("a new client sends the message", every: .milliseconds(10)) {
            do throws(KafkaError) {
                _ = try await producer.send(message)
                return true
            } catch {
                guard error.isRetriable else { throw error }
                return false
            }
        }
    }
}
