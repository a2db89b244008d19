// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import Logging
import TestSupport
import Testing

/// Faults, administration and logs of the embedded cluster.
@Suite(.tags(.integration), .timeLimit(.patience))
struct ClusterTests {
    @Test("A cluster has an ID; unreachable brokers are an error")
    func clusterID() async throws {
        try await withKafka { kafka in
            let id = try await KafkaAdmin(configuration: kafka.configuration, logger: quiet).clusterID()
            let known = try #require(id)
            #expect(!known.isEmpty && EmbeddedKafka.isID(known) == (kafka.embedded != nil))
        }
        let nobody = KafkaAdmin(
            configuration: KafkaConfiguration(bootstrapServers: "127.0.0.1:1"), timeout: .milliseconds(300),
            logger: quiet)
        await #expect(throws: KafkaError.self) { try await nobody.clusterID() }
    }

    @Test("Topics have the requested partitions, and brokers have their IDs")
    func describe() async throws {
        try await withKafka(brokers: 3) { kafka in
            let topic = try await kafka.topic("describe", partitions: 7)
            let admin = KafkaAdmin(configuration: kafka.configuration, logger: quiet)
            let descriptions = try await admin.describe(topics: [topic])
            #expect(descriptions.map(\.name) == [topic])
            #expect(descriptions[0].partitions.map(\.id) == (0..<7).map { $0 })
            #expect(descriptions[0].partitions.allSatisfy { $0.leader != nil && !$0.replicas.isEmpty })
            if kafka.embedded != nil {
                #expect(descriptions[0].partitions.allSatisfy { (1...3).contains($0.leader ?? 0) })
            }
            #expect(try await admin.describe().map(\.name).contains(topic))
        }
    }

    @Test("Describing a topic that does not exist is an error, and creates nothing")
    func describeUnknown() async throws {
        try await withKafka { kafka in
            let topic = "\(try await kafka.topic("describe"))-not"
            let admin = KafkaAdmin(configuration: kafka.configuration, logger: quiet)
            for _ in 0..<2 {
                let error = await #expect(throws: KafkaError.self) { try await admin.describe(topics: [topic]) }
                #expect(error?.code == .unknownTopicOrPartition)
                #expect(error?.context.topic == topic)
            }
            #expect(try await !admin.describe().map(\.name).contains(topic))
        }
    }

    @Test("An unreachable cluster is a retriable error within the timeout")
    func unreachable() async throws {
        let admin = KafkaAdmin(
            configuration: KafkaConfiguration(bootstrapServers: "127.0.0.1:1"), timeout: .milliseconds(300),
            logger: quiet)
        let error = await #expect(throws: KafkaError.self) { try await admin.describe() }
        #expect(error?.isRetriable == true)
        let wrong = KafkaAdmin(
            configuration: KafkaConfiguration(bootstrapServers: "127.0.0.1:1", properties: ["no.such": "x"]),
            logger: quiet)
        let configuration = await #expect(throws: KafkaError.self) { try await wrong.describe() }
        #expect(configuration?.code == .invalidConfiguration)
    }

    @Test("A route redirects connections from one port to another")
    func routes() async throws {
        try await withKafka(embeddedOnly: true) { kafka in
            let port = try #require(UInt16(kafka.configuration.bootstrapServers.drop { $0 != ":" }.dropFirst()))
            var configuration = KafkaConfiguration(bootstrapServers: "127.0.0.1:1")
            configuration.routes = [1: port]
            let topic = try await kafka.topic("routed")
            let admin = KafkaAdmin(configuration: configuration, timeout: Patience.limit, logger: quiet)
            #expect(try await admin.describe().map(\.name).contains(topic))
        }
    }

    @Test("The embedded cluster has the configured round-trip time")
    func roundTripTime() async throws {
        try await withKafka(embeddedOnly: true) { kafka in
            let topic = try await kafka.topic("slow")
            let producer = try kafka.producer()
            _ = try await producer.send(KafkaMessage(topic, "warm"))
            try kafka.embedded?.setRoundTripTime(broker: 1, .milliseconds(300))
            let begun = ContinuousClock.now
            _ = try await producer.send(KafkaMessage(topic, "slow"))
            #expect(begun.duration(to: .now) >= .milliseconds(290))
            await producer.shutdown()
        }
    }

    @Test("Invalid calls are errors")
    func misuse() async throws {
        #expect(throws: KafkaError.self) { try EmbeddedKafka(brokers: 0, logger: quiet) }
        let embedded = try EmbeddedKafka(logger: quiet)
        #expect(embedded.bootstrapServers.contains(":"))
        try embedded.createTopic("t", partitions: 1)
        #expect(throws: KafkaError.self) { try embedded.createTopic("t", partitions: 1) }
        #expect(throws: KafkaError.self) { try embedded.createTopic("u", partitions: 0) }
        #expect(throws: KafkaError.self) { try embedded.stopBroker(9) }
        embedded.close()
        embedded.close()
        let error = #expect(throws: KafkaError.self) { try embedded.createTopic("v", partitions: 1) }
        #expect(error?.code == .invalidState)
    }

    @Test("librdkafka's logs have their levels and no secrets")
    func logs() async throws {
        try await withKafka(embeddedOnly: true) { kafka in
            let topic = try await kafka.topic("logs")
            let log = RecordedLog()
            let producer = try kafka.producer(
                properties: ["debug": "all", "sasl.password": "pa55word", "sasl.username": "u"], logger: log.logger
            )
            _ = try await producer.send(KafkaMessage(topic, "x"))
            try kafka.embedded?.stopBroker(1)
            let failure = try await log.next { $0.metadata["facility"] == "FAIL" && $0.level != .debug }
            #expect([.info, .error].contains(failure.level))
            await producer.shutdown()
            let lines = log.lines
            #expect(lines.contains { $0.level == .debug && $0.metadata["facility"] == "CONF" })
            #expect(lines.allSatisfy { !$0.text.contains("pa55word") })
            #expect(lines.allSatisfy { $0.metadata["facility"] != nil || $0.level != .debug })
        }
    }

    @Test("Errors of the broker reach the consumer's receiver, which continues")
    func consumerErrors() async throws {
        try await withKafka(embeddedOnly: true) { kafka in
            let topic = try await kafka.topic("errors")
            let producer = try kafka.producer()
            _ = try await producer.send(KafkaMessage(topic, "a"))
            let consumer = try await kafka.consumer(topic)
            #expect(try await consumer.read(1).map(\.value) == ["a"])
            // Twice: librdkafka 2.0.2 ignores the broker's error in the first fetch that reaches the end of the log.
            try kafka.embedded?.pushRequestErrors(
                .fetch, [.topicAuthorizationFailed, .topicAuthorizationFailed, .notLeaderForPartition])
            _ = try await producer.send(KafkaMessage(topic, "b"))
            // The message may arrive before the error, with a fetch that was already under way.
            var error: KafkaError?
            var values: [String?] = []
            for try await event in consumer.events {
                if case .error(let reported) = event { error = error ?? reported }
                if case .batch(let batch) = event { values += batch.messages.map(\.value) }
                if error != nil, !values.isEmpty { break }
            }
            #expect(values == ["b"])
            #expect(error?.code == .topicAuthorizationFailed)
            #expect(error?.isFatal == false)
            await producer.shutdown()
            await consumer.shutdown()
        }
    }

    @Test("A compacted topic is created with its policy, once", .tags(.realBroker), .enabled(if: hasRealBroker))
    func createTopics() async throws {
        try await withKafka { kafka in
            let admin = KafkaAdmin(configuration: kafka.configuration, logger: quiet)
            let name = "compacted-\(UInt64.random(in: 0...UInt64.max))"
            let topic = KafkaTopicSpecification(
                name: name, partitions: 3, replicationFactor: 1, configuration: KafkaTopicSpecification.compacted)
            let bad = KafkaTopicSpecification(
                name: "\(name)-bad", partitions: 1, replicationFactor: 1, configuration: ["cleanup.policy": "never"])
            let errors = try await admin.createTopics([topic, bad])
            #expect(errors.keys.sorted() == [bad.name])
            #expect(errors[bad.name]?.isRetriable == false)
            #expect(try await admin.createTopics([topic])[name]?.code == .topicAlreadyExists)
            #expect(try await admin.describe(topics: [name])[0].partitions.count == 3)
            #expect(try await admin.configuration(ofTopic: name)["cleanup.policy"] == "compact")
            let deleted = try await admin.deleteTopics([name])
            #expect(deleted[name] == .some(.none))
        }
    }

    @Test("A log's bounds are those of its messages; a forbidden topic is an error")
    func bounds() async throws {
        try await withKafka { kafka in
            let topic = try await kafka.topic("bounds", partitions: 2)
            let producer = try kafka.producer()
            for index in 0..<5 { _ = try await producer.send(KafkaMessage(topic, "\(index)", partition: 1)) }
            await producer.shutdown()
            let admin = KafkaAdmin(configuration: kafka.configuration, logger: quiet)
            let empty = try await admin.bounds(of: TopicPartition(topic: topic, partition: 0))
            #expect(empty == 0..<0)
            let full = try await admin.bounds(of: TopicPartition(topic: topic, partition: 1))
            #expect(full == 0..<5)
            await #expect(throws: KafkaError.self) {
                _ = try await admin.bounds(of: TopicPartition(topic: topic, partition: 9))
            }
        }
    }
}
