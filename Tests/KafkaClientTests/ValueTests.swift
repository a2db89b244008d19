// SPDX-License-Identifier: Apache-2.0

import Testing

@testable import KafkaClient

/// Configuration, errors, batches and the producer's bookkeeping, without a broker.
struct ValueTests {
    @Test("Log lines list partitions as a limited number of ranges")
    func partitionSummary() {
        func places(_ topic: String, _ partitions: some Sequence<Int32>) -> [TopicPartition] {
            partitions.map { TopicPartition(topic: topic, partition: $0) }
        }
        #expect((places("b", 0..<256) + places("a", [7, 0, 2, 1])).summary == "a[0-2,7] b[0-255]")
        let gaps = places("a", stride(from: 0, to: 256, by: 2)).summary
        #expect(gaps == "a[0,2,4,6,8,10,12,14,… 128 in all]")
        #expect(places("a", []).summary == "")
    }

    @Test("Secrets are never printed")
    func redaction() {
        let configuration = KafkaConfiguration(
            bootstrapServers: "broker:9092",
            properties: [
                "sasl.username": "freshet", "sasl.password": "pa55word", "ssl.key.password": "k3y",
                "ssl.key.pem": "-----",
                "sasl.oauthbearer.client.secret": "s3cret", "sasl.oauthbearer.config": "principal=x", "linger.ms": "1",
            ])
        let text = "\(configuration)" + String(reflecting: configuration)
        for secret in ["pa55word", "k3y", "-----", "s3cret", "principal"] { #expect(!text.contains(secret)) }
        #expect(text.contains("sasl.username=freshet"))
        #expect(text.contains("linger.ms=1"))
        #expect(text.contains("sasl.password=<redacted>"))
        let redact = ClientCallbacks(logger: quiet, configuration: configuration).redact
        #expect(redact("a pa55word and k3y, pa55word") == "a <redacted> and <redacted>, <redacted>")
        #expect(redact("") == "")
        #expect(redact("pa55wor") == "pa55wor")
    }

    @Test("All invalid properties are reported in one error, without secrets")
    func wrongProperties() throws {
        let configuration = KafkaConfiguration(
            bootstrapServers: "",
            properties: [
                "linger.sm": "5", "acks": "1", "sasl.password": "pa55word", "security.protocol": "carrier-pigeon",
                "fetch.wait.max.ms": "soon", "message.max.bytes": "-3",
            ])
        let error = try #require(throws: KafkaError.self) {
            try KafkaProducer(configuration: configuration, maximumQueuedMessages: 0, logger: quiet)
        }
        #expect(error.code == .invalidConfiguration)
        #expect(!error.isRetriable)
        for name in [
            "bootstrap.servers", "linger.sm", "acks", "security.protocol", "fetch.wait.max.ms", "message.max.bytes",
            "maximumQueuedMessages",
        ] {
            #expect(error.message.contains("\(name): "), "\(name) in \(error.message)")
        }
        #expect(!error.message.contains("pa55word"))
    }

    @Test("Fixed properties cannot be changed, but may be given in another notation")
    func fixedProperties() async throws {
        let consumer = { (properties: [String: String]) throws(KafkaError) in
            try KafkaConsumer(
                configuration: KafkaConsumerConfiguration(
                    kafka: KafkaConfiguration(bootstrapServers: "127.0.0.1:1", properties: properties), group: "g",
                    maximumBatchMessages: properties.count == 1 ? 0 : 10), logger: quiet)
        }
        let error = try #require(throws: KafkaError.self) { try consumer(["enable.auto.commit": "true"]) }
        #expect(error.message.contains("enable.auto.commit: is fixed to false"))
        #expect(error.message.contains("maximumBatchMessages"))
        let fine = try consumer([
            "enable.auto.commit": "0", "enable.auto.offset.store": "False", "acks": "1", "socket.timeout.ms": "1000",
        ])
        await fine.abandon()
    }

    @Test("Properties that contradict each other are reported")
    func contradiction() throws {
        let error = try #require(throws: KafkaError.self) {
            try KafkaConsumer(
                configuration: KafkaConsumerConfiguration(
                    kafka: KafkaConfiguration(
                        bootstrapServers: "127.0.0.1:1",
                        properties: ["max.poll.interval.ms": "1000", "session.timeout.ms": "6000"]), group: "g"),
                logger: quiet)
        }
        #expect(error.code == .invalidConfiguration)
        #expect(error.message.contains("max.poll.interval.ms"))
    }

    @Test("An error reports the operation, the partition and whether to retry")
    func errorText() {
        let error = KafkaError(
            code: .messageTimedOut, message: "too slow", isRetriable: true,
            context: .init(operation: "produce", topic: "t", partition: 3))
        #expect("\(error)" == "Kafka produce t[3]: too slow [_MSG_TIMED_OUT (-192), can be retried]")
        var fatal = error
        fatal.isFatal = true
        fatal.context.partition = nil
        #expect("\(fatal)" == "Kafka produce t: too slow [_MSG_TIMED_OUT (-192), fatal]")
    }

    @Test("A batch distinguishes null and empty values and keeps the order of headers")
    func batch() {
        let messages = [
            KafkaMessage(
                topic: "a", partition: 0, key: nil, value: [1, 2],
                headers: [.init(name: "h", value: nil), .init(name: "é", value: "x")]),
            KafkaMessage(topic: "b", partition: 1, key: [], value: nil),
            KafkaMessage(
                topic: "a", partition: 2, key: [9], value: [], headers: [.init(name: "", value: [])],
                timestampMilliseconds: 7),
        ]
        let batch = KafkaBatch(
            messages.enumerated().map { (offset: Int64($0) + 100, message: $1) })
        #expect(batch.topics == ["a", "b"])
        for (index, message) in messages.enumerated() {
            #expect(batch.topicPartition(index) == TopicPartition(topic: message.topic, partition: Int32(index)))
            #expect(batch.topic(index) == message.topic)
            #expect(batch.key(index).map { Array(batch.bytes[$0]) } == message.key)
            #expect(batch.value(index).map { Array(batch.bytes[$0]) } == message.value)
            #expect(batch.headerValues(index) == message.headers)
            #expect(batch.records[index].timestampMilliseconds == message.timestampMilliseconds ?? -1)
        }
    }

    @Test("A batch without a partition keeps the messages of the others")
    func removedPartition() {
        var batch = KafkaBatch([
            (offset: 100, message: KafkaMessage(topic: "a", partition: 0, key: nil, value: [1], headers: [])),
            (offset: 101, message: KafkaMessage(topic: "b", partition: 1, key: [], value: nil)),
            (
                offset: 102,
                message: KafkaMessage(
                    topic: "a", partition: 2, key: [9], value: [], headers: [.init(name: "", value: [])])
            ),
        ])
        batch.remove([TopicPartition(topic: "a", partition: 0)])
        #expect(batch.messages.map(\.offset) == [101, 102])
        #expect(batch.headerValues(1) == [.init(name: "", value: [])])
    }

    @Test("A builder is full by number or bytes, and is empty after its batch is taken")
    func builder() {
        func add(_ builder: inout BatchBuilder, bytes: Int) {
            builder.append(
                topicIndex: 0, partition: 0, offset: 0, timestampMilliseconds: -1, key: nil,
                value: Array(repeating: 1, count: bytes), headers: [])
        }
        var byNumber = BatchBuilder(maximumMessages: 2, maximumBytes: 1000)
        add(&byNumber, bytes: 1)
        #expect(!byNumber.isFull)
        add(&byNumber, bytes: 1)
        #expect(byNumber.isFull)
        #expect(byNumber.take()?.count == 2)
        #expect(byNumber.isEmpty)
        var byBytes = BatchBuilder(maximumMessages: 10, maximumBytes: 100)
        add(&byBytes, bytes: 99)
        #expect(!byBytes.isFull)
        add(&byBytes, bytes: 500)
        #expect(byBytes.isFull)
        #expect(byBytes.take()?.bytes.count == 599)
    }

    @Test("An empty queue is polled soon, and less often if polls find nothing")
    func starvation() {
        var starvation = Starvation()
        #expect(starvation.wait(atMost: 100) == 5 && starvation.mayAsk)
        starvation.recordCheck(isBehind: false)
        #expect(starvation.wait(atMost: 100) == 100)
        starvation.reset()
        #expect(starvation.wait(atMost: 100) == 5 && starvation.mayAsk)
        for _ in 0..<20 { starvation.recordCheck(isBehind: true) }
        #expect(!starvation.mayAsk && starvation.wait(atMost: 100) == 100)
        starvation.reset()
        #expect(starvation.mayAsk)
    }

    @Test("Tags of messages under way are distinct and never 0")
    func tags() {
        var slots = DeliverySlots()
        let sends = (0..<2).map { _ in SendBatch([KafkaMessage("t", "1"), KafkaMessage("t", "2")]) }
        let tags = sends.flatMap { send in (0..<2).map { slots.insert(send, $0) } }
        #expect(Set(tags).count == 4)
        #expect(!tags.contains(0))
        for (place, tag) in tags.enumerated() {
            #expect(slots.message(tag)?.batch === sends[place / 2])
            #expect(slots.message(tag)?.index == place % 2)
        }
    }

    @Test("The slot of a send is removed once, and used again")
    func slots() {
        var slots = DeliverySlots()
        let sends = (0..<3).map { SendBatch([KafkaMessage("t", "\($0)")]) }
        let tags = sends[..<2].map { slots.insert($0, 0) }
        slots.remove(sends[0])
        slots.remove(sends[0])
        #expect(slots.message(tags[0]) == nil)
        #expect(slots.message(0) == nil)
        #expect(slots.message(-1) == nil)
        #expect(slots.message(77 << 32 | 1) == nil)
        #expect(slots.insert(sends[2], 0) == tags[0])
        #expect(slots.message(tags[0])?.batch === sends[2])
        #expect(slots.message(tags[1])?.batch === sends[1])
    }

    @Test("A message's parts are those that it was made of, null and empty ones included")
    func messageParts() {
        let parts: [[UInt8]?] = [nil, [], [1, 2, 3]]
        for value in parts {
            for key in parts {
                let headers = parts.map { KafkaHeader(name: "ä", value: $0) } + [KafkaHeader(name: "", value: [4])]
                let message = KafkaMessage(topic: "t", key: key, value: value, headers: headers)
                #expect(message.value == value && message.key == key && message.headers == headers)
                #expect(message.byteCount == (value?.count ?? 0) + (key?.count ?? 0) + 10)
                #expect(KafkaMessage(topic: "t", key: key, value: value).headers.isEmpty)
            }
        }
    }

    @Test("Sends wait in order of arrival and can be removed")
    func queue() {
        var queue = SendQueue()
        let batches = (0..<200).map { SendBatch((0...$0 % 3).map { KafkaMessage("t", "\($0)") }) }
        for batch in batches { queue.append(batch) }
        #expect(queue.messageCount == batches.reduce(0) { $0 + $1.messages.count })
        for expected in batches[..<100] {
            #expect(queue.first === expected)
            queue.removeFirst()
        }
        let removed = queue.removeAll { $0.messages.count == 1 }
        #expect(removed.allSatisfy { $0.messages.count == 1 })
        let rest = batches[100...].filter { $0.messages.count > 1 }
        for expected in rest {
            #expect(queue.first === expected)
            queue.removeFirst()
        }
        #expect(queue.isEmpty)
        #expect(queue.first == nil)
    }

    @Test("A send is complete with its last message, and returns results in the messages' order")
    func sendBatch() async throws {
        let batch = SendBatch((0..<3).map { KafkaMessage("t", "\($0)") })
        let outcomes = await withCheckedContinuation { continuation in
            batch.begin(continuation, epoch: 1)
            batch.handedOver = 1
            #expect(batch.complete(0, .success(KafkaDelivery(partition: 0, offset: 5))) == 2)
            #expect(batch.complete(0, .success(KafkaDelivery(partition: 9, offset: 9))) == nil)
            #expect(batch.complete(3, .success(KafkaDelivery(partition: 9, offset: 9))) == nil)
            #expect(batch.waiting == 2)
            let error = KafkaError(
                code: .cancelled, message: "x", isRetriable: true, context: .init(operation: "produce"))
            #expect(batch.failWaiting { error.about($0) })
        }
        #expect(outcomes.count == 3)
        #expect(try outcomes[0].get().offset == 5)
        #expect(throws: KafkaError.self) { try outcomes[2].get() }
        #expect(batch.waiting == 0)
    }
}
