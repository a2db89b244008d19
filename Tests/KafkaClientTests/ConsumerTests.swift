import KafkaClient
import TestSupport
import Testing

/// Positions, back-pressure, and the end of a consumer.
@Suite(.tags(.integration), .timeLimit(.patience))
struct ConsumerTests {
    private func fill(_ kafka: TestCluster, _ topic: String, _ count: Int, partitions: Int = 1) async throws {
        let producer = try kafka.producer()
        let results = await producer.send(
            (0..<count).map { KafkaMessage(topic, "\($0)", partition: Int32($0 % partitions)) })
        #expect(results.allSatisfy { (try? $0.get()) != nil })
        await producer.shutdown()
    }

    @Test("a slow receiver pauses fetching, again and again; every message comes once and in order")
    func backPressure() async throws {
        try await withKafka { kafka in
            let topic = try await kafka.topic("slow", partitions: 2)
            let count = 6000
            try await fill(kafka, topic, count, partitions: 2)
            let log = RecordedLog()
            let consumer = try kafka.consumer(topic, logger: log.logger) {
                $0.maximumBatchMessages = 100
                $0.bufferedBatches = 2
                $0.pauseDelay = .milliseconds(20)
            }
            var offsets: [Int32: [Int64]] = [:]
            var seen = 0
            for try await event in consumer.events {
                if case .assigned(let assignment) = event { assignment.start(at: [:]) }
                guard case .batch(let batch) = event else { continue }
                #expect(batch.count <= 100)
                for message in batch.messages { offsets[message.place.partition, default: []].append(message.offset) }
                seen += batch.count
                // Receives nothing until the consumer has had to pause: ten times over.
                if seen <= 1000 { try await log.next("fetching is paused: the receiver is slow") }
                if seen >= count { break }
            }
            #expect(offsets == [0: (0..<3000).map { $0 }, 1: (0..<3000).map { $0 }])
            #expect(consumer.counters.pauses >= 10)
            #expect(consumer.counters.messages == count)
            await consumer.shutdown()
        }
    }

    @Test("fetching that was held for a slow receiver goes on after a seek has emptied the batch")
    func holdAndSeek() async throws {
        try await withKafka { kafka in
            let topic = try await kafka.topic("hold-seek")
            let place = TopicPartition(topic: topic, partition: 0)
            try await fill(kafka, topic, 1000)
            let log = RecordedLog()
            let consumer = try kafka.consumer(topic, logger: log.logger) {
                $0.maximumBatchMessages = 100
                $0.bufferedBatches = 1
                $0.pauseDelay = .milliseconds(20)
                $0.maximumWait = .seconds(10)
            }
            #expect(try await consumer.read(100, from: [place: .at(0)]).count == 100)
            try await log.next("fetching is paused: the receiver is slow")
            // Nothing is left of what was fetched, neither in the buffer nor in the batch at hand.
            try await consumer.seek([place: .at(300)])
            #expect(try await consumer.read(700).map(\.offset) == (300..<1000).map { $0 })
            await consumer.shutdown()
        }
    }

    @Test("partitions that are taken away and given back while fetching is paused are read on")
    func pausedThroughRebalance() async throws {
        try await withKafka(embeddedOnly: true) { kafka in
            let topic = try await kafka.topic("paused")
            let count = 3000
            try await fill(kafka, topic, count)
            let log = RecordedLog()
            let consumer = try kafka.consumer(topic, logger: log.logger) {
                $0.maximumBatchMessages = 100
                $0.bufferedBatches = 2
                $0.pauseDelay = .milliseconds(20)
            }
            var offsets: [Int64] = []
            var revocations = 0
            for try await event in consumer.events {
                switch event {
                case .assigned(let assignment):
                    assignment.start(at: [TopicPartition(topic: topic, partition: 0): .at(Int64(offsets.count))])
                case .revoked(let revocation):
                    revocations += 1
                    revocation.acknowledge()
                case .batch(let batch):
                    if offsets.isEmpty {
                        try await log.next("fetching is paused: the receiver is slow")
                        try kafka.embedded?.pushRequestErrors(.heartbeat, [.unknownMemberID])
                        try await log.next("partitions revoked")
                    }
                    offsets += batch.messages.map(\.offset)
                case .offsetOutOfRange: Issue.record("\(event)")
                case .error: continue
                }
                if offsets.count >= count { break }
            }
            #expect(revocations == 1)
            #expect(offsets == (0..<count).map { Int64($0) })
            await consumer.shutdown()
        }
    }

    @Test("a receiver that takes longer than max.poll.interval.ms stays in the group")
    func staysInGroup() async throws {
        try await withKafka { kafka in
            let topic = try await kafka.topic("stay")
            let count = 1000
            try await fill(kafka, topic, count)
            let consumer = try kafka.consumer(
                topic, properties: ["max.poll.interval.ms": "4000", "session.timeout.ms": "4000"]
            ) {
                $0.maximumBatchMessages = 10
                $0.pauseDelay = .milliseconds(100)
            }
            var messages: [ReadMessage] = []
            for try await event in consumer.events {
                switch event {
                case .assigned(let assignment): assignment.start(at: [:])
                case .batch(let batch):
                    // The time itself is what is tested here.
                    if messages.isEmpty { try await Task.sleep(for: .seconds(5.5)) }
                    messages += batch.messages
                case .revoked, .offsetOutOfRange: Issue.record("\(event)")
                case .error(let error): Issue.record("\(error)")
                }
                if messages.count == count { break }
            }
            #expect(messages.count == count)
            #expect(messages.indices.allSatisfy { messages[$0].offset == Int64($0) })
            await consumer.shutdown()
        }
    }

    @Test("seek moves back and forth and drops what was buffered; out of range is loud and can be left by a seek")
    func seek() async throws {
        try await withKafka { kafka in
            let topic = try await kafka.topic("seek")
            let place = TopicPartition(topic: topic, partition: 0)
            try await fill(kafka, topic, 1000)
            let consumer = try kafka.consumer(topic) { $0.maximumBatchMessages = 50 }
            #expect(try await consumer.read(50, from: [place: .at(900)]).map(\.offset).starts(with: 900..<950))
            // The rest is buffered by now, or is about to be; none of it may come.
            for offset in [Int64(10), 500, 990, 0] {
                try await consumer.seek([place: .at(offset)])
                let count = min(50, 1000 - Int(offset))
                let read = try await consumer.read(count).map(\.offset)
                #expect(read.first == offset)
                #expect(read == (offset..<offset + Int64(read.count)).map { $0 })
            }
            try await consumer.seek([place: .earliest])
            #expect(try await consumer.read(50).first?.offset == 0)

            for beyond in [Int64(5000), 7000] {
                try await consumer.seek([place: .at(beyond)])
                var event = try await consumer.nextEvent()
                while case .error = event { event = try await consumer.nextEvent() }
                guard case .offsetOutOfRange(place, beyond) = event else {
                    Issue.record("\(event)")
                    break
                }
            }
            try await consumer.seek([place: .at(995)])
            #expect(try await consumer.read(5).map(\.offset) == (995..<1000).map { $0 })
            try await consumer.seek([place: .latest])
            // Which offset is the latest is asked of the broker after the seek: sends until one comes after that.
            let producer = try kafka.producer()
            let sending = Task { while !Task.isCancelled { _ = try? await producer.send(KafkaMessage(topic, "new")) } }
            #expect(try #require(try await consumer.read(1).first).offset >= 1000)
            sending.cancel()
            await producer.shutdown()

            let error = await #expect(throws: KafkaError.self) {
                try await consumer.seek([TopicPartition(topic: topic, partition: 7): .earliest])
            }
            #expect(error?.code == .notAssigned)
            #expect(error?.context.partition == 7)
            await consumer.shutdown()
            let late = await #expect(throws: KafkaError.self) { try await consumer.seek([place: .earliest]) }
            #expect(late?.code == .invalidState)
        }
    }

    @Test("nothing is fetched before the start; a paused partition is silent until it is resumed")
    func startAndPause() async throws {
        try await withKafka { kafka in
            let topic = try await kafka.topic("pause", partitions: 2)
            let places = (0..<2).map { TopicPartition(topic: topic, partition: Int32($0)) }
            let producer = try kafka.producer()
            let send = { (numbers: Range<Int>) in
                for result in await producer.send(
                    numbers.map { KafkaMessage(topic, "\($0)", partition: Int32($0 % 2)) })
                {
                    _ = try result.get()
                }
            }
            try await send(0..<10)
            let consumer = try kafka.consumer(topic)
            let assignment = try await consumer.assignment()
            #expect(await consumer.lag() == [:])
            assignment.fail()
            assignment.start(at: [places[0]: .at(2), places[1]: .at(5)])
            assignment.start(at: [:])
            #expect(try await consumer.read(3).map(\.offset) == [2, 3, 4])

            consumer.pause([places[0]])
            // Commands are served in order: after the answer the pause is in force.
            _ = await consumer.lag()
            try await send(10..<30)
            let odd = try await consumer.read(10)
            #expect(odd.allSatisfy { $0.place == places[1] })
            #expect(odd.map(\.offset) == (5..<15).map { $0 })
            consumer.resume([places[0]])
            let even = try await consumer.read(10)
            #expect(even.allSatisfy { $0.place == places[0] })
            #expect(even.map(\.offset) == (5..<15).map { $0 })
            await consumer.shutdown()
            await producer.shutdown()
        }
    }

    @Test("the embedded cluster drops the oldest messages; a position among them is out of range, not skipped")
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
            let consumer = try kafka.consumer(topic)
            for try await event in consumer.events {
                if case .assigned(let assignment) = event { assignment.start(at: [place: .at(3)]) }
                if case .batch = event { Issue.record("a batch came") }
                guard case .offsetOutOfRange(let lost, let offset) = event else { continue }
                #expect(lost == place)
                #expect(offset == 3)
                break
            }
            try await consumer.seek([place: .earliest])
            let first = try #require(try await consumer.read(1).first)
            #expect(first.offset > 3)
            await consumer.shutdown()
        }
    }

    @Test("stopped and started again from the handled positions: each message once")
    func restart() async throws {
        try await withKafka { kafka in
            let topic = try await kafka.topic("restart", partitions: 3)
            let count = 3000
            try await fill(kafka, topic, count, partitions: 3)
            var handled: [ReadMessage] = []
            var positions: [TopicPartition: Int64] = [:]
            for stop in [1000, count] {
                let consumer = try kafka.consumer(topic, group: topic) { $0.maximumBatchMessages = 100 }
                var isRevoked = false
                for try await event in consumer.events {
                    switch event {
                    case .assigned(let assignment):
                        assignment.start(at: positions.mapValues { .at($0) })
                    case .batch(let batch):
                        #expect(!isRevoked)
                        for message in batch.messages {
                            handled.append(message)
                            positions[message.place] = message.offset + 1
                        }
                        consumer.commit(positions)
                        // Goes on iterating while it closes: what is buffered still comes, then the revocation, then
                        // the end.
                        if handled.count >= stop { Task { await consumer.shutdown() } }
                    case .revoked(let revocation):
                        #expect(!revocation.lost)
                        #expect(revocation.partitions.count == 3)
                        isRevoked = true
                        revocation.acknowledge()
                    case .offsetOutOfRange, .error:
                        Issue.record("\(event)")
                    }
                }
                #expect(isRevoked)
            }
            #expect(handled.count == count)
            #expect(Set(handled.compactMap(\.value)).count == count)
        }
    }

    @Test("a commit that Kafka answers with ILLEGAL_GENERATION costs the assignment, and not a message")
    func lostByCommit() async throws {
        try await withKafka(embeddedOnly: true) { kafka in
            let topic = try await kafka.topic("lost")
            try await fill(kafka, topic, 10)
            let place = TopicPartition(topic: topic, partition: 0)
            let consumer = try kafka.consumer(topic)
            try kafka.embedded?.pushRequestErrors(
                .offsetCommit, [KafkaError.Code(number: 22, name: "ILLEGAL_GENERATION")])
            var next: Int64 = 0
            var isLost = false
            var committing: Task<Void, any Error>?
            for try await event in consumer.events {
                switch event {
                case .assigned(let assignment):
                    assignment.start(at: [place: .at(next)])
                case .batch(let batch):
                    for message in batch.messages {
                        #expect(message.offset == next)
                        next = message.offset + 1
                    }
                    // None is sent within a second of the rebalance, so it takes several.
                    committing =
                        committing
                        ?? Task { [next] in
                            while true {
                                consumer.commit([place: next])
                                try await Task.sleep(for: .milliseconds(200))
                            }
                        }
                case .revoked(let revocation):
                    committing?.cancel()
                    #expect(revocation.lost)
                    isLost = true
                    try await fill(kafka, topic, 5)
                    revocation.acknowledge()
                case .offsetOutOfRange:
                    Issue.record("\(event)")
                case .error: continue
                }
                if next == 15 { break }
            }
            #expect(isLost)
            await consumer.shutdown()
        }
    }

    @Test("a receiver that does not acknowledge a revocation holds it up until the timeout")
    func unacknowledged() async throws {
        try await withKafka { kafka in
            let topic = try await kafka.topic("unacknowledged")
            let consumer = try kafka.consumer(topic) { $0.revocationTimeout = .milliseconds(400) }
            try await consumer.assignment().start(at: [:])
            let receiving = Task {
                var revocations: [KafkaRevocation] = []
                for try await event in consumer.events {
                    if case .revoked(let revocation) = event { revocations.append(revocation) }
                }
                return revocations
            }
            while !consumer.hasReceiver { await Task.yield() }
            let begun = ContinuousClock.now
            await consumer.shutdown()
            #expect(begun.duration(to: .now) >= .milliseconds(400))
            #expect(try await receiving.value.map(\.partitions) == [[TopicPartition(topic: topic, partition: 0)]])
            #expect(consumer.counters.unacknowledgedRevocations == 1)
        }
    }

    @Test("a fatal error ends the events by throwing, after what came before it")
    func fatal() async throws {
        try await withKafka { kafka in
            let topic = try await kafka.topic("fatal")
            try await fill(kafka, topic, 1)
            let consumer = try kafka.consumer(topic)
            var batches = 0
            let error = await #expect(throws: KafkaError.self) {
                for try await event in consumer.events {
                    if case .assigned(let assignment) = event { assignment.start(at: [:]) }
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

    @Test("shutdown while the broker is away ends, whether anybody iterates or not")
    func shutdownWithoutBroker() async throws {
        try await withKafka(embeddedOnly: true) { kafka in
            let topic = try await kafka.topic("away")
            try await fill(kafka, topic, 1)
            let consumer = try kafka.consumer(topic) { $0.revocationTimeout = .seconds(2) }
            #expect(try await consumer.read(1).count == 1)
            try kafka.embedded?.stopBroker(1)
            await consumer.shutdown()
            #expect(try await consumer.rest().isEmpty == false)

            let never = try kafka.consumer(topic)
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

    /// What is left after the shutdown.
    func rest() async throws -> [KafkaConsumerEvent] {
        var rest: [KafkaConsumerEvent] = []
        for try await event in events { rest.append(event) }
        return rest
    }
}
