// SPDX-License-Identifier: Apache-2.0

import Foundation
import KafkaClient
import Logging
import TestSupport
import Testing

extension Tag {
    /// Requires a real cluster.
    @Tag static var realBroker: Self
    /// Starts brokers and clients.
    @Tag static var integration: Self
}

/// Bootstrap servers of a real broker; nil or empty without one.
let realBootstrapServers = ProcessInfo.processInfo.environment["FRESHET_TEST_BOOTSTRAP_SERVERS"]
let hasRealBroker = realBootstrapServers?.isEmpty == false

/// librdkafka properties for a real broker (TLS, SASL …), as `name=value,name=value`. The error reports the position of
/// a malformed property instead of the text, which may be a password.
private func realProperties() throws -> [String: String] {
    var properties: [String: String] = [:]
    let text = ProcessInfo.processInfo.environment["FRESHET_TEST_KAFKA_PROPERTIES"] ?? ""
    for (index, property) in text.split(separator: ",").enumerated() {
        let parts = property.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, !parts[0].isEmpty else {
            throw TestFailure("FRESHET_TEST_KAFKA_PROPERTIES: property \(index + 1) is not name=value")
        }
        properties[String(parts[0])] = String(parts[1])
    }
    return properties
}

let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

/// An embedded cluster, or the real one.
struct TestCluster: Sendable {
    let configuration: KafkaConfiguration
    let embedded: EmbeddedKafka?

    /// Creates a topic with a unique name.
    func topic(_ name: String, partitions: Int = 1) async throws -> String {
        let unique = "\(name)-\(UInt64.random(in: 0...UInt64.max))"
        if let embedded {
            try embedded.createTopic(unique, partitions: partitions)
        } else {
            let errors = try await KafkaAdmin(configuration: configuration, logger: quiet).createTopics([
                KafkaTopicSpecification(name: unique, partitions: partitions, replicationFactor: 1)
            ])
            if let error = errors[unique] { throw error }
        }
        return unique
    }

    func producer(
        deliveryTimeout: Duration = Patience.delivery, maximumQueuedMessages: Int = 100_000,
        maximumQueuedBytes: Int = 64 << 20, properties: [String: String] = [:], logger: Logger = quiet
    ) throws -> KafkaProducer {
        try KafkaProducer(
            configuration: with(properties), deliveryTimeout: deliveryTimeout,
            maximumQueuedMessages: maximumQueuedMessages, maximumQueuedBytes: maximumQueuedBytes, logger: logger)
    }

    /// Creates a consumer of all partitions of the topics, from the given or the earliest offsets.
    func consumer(
        _ topics: String..., at offsets: [TopicPartition: KafkaOffset] = [:], properties: [String: String] = [:],
        logger: Logger = quiet,
        adjust: (inout KafkaConsumerConfiguration) -> Void = { _ in }
    ) async throws -> KafkaConsumer {
        var configuration = KafkaConsumerConfiguration(kafka: with(properties), group: "test")
        adjust(&configuration)
        let consumer = try KafkaConsumer(configuration: configuration, logger: logger)
        try await consumer.assignAll(of: topics, at: offsets)
        return consumer
    }

    func with(_ properties: [String: String]) -> KafkaConfiguration {
        var configuration = configuration
        configuration.properties.merge(properties) { $1 }
        return configuration
    }
}

/// Starts a cluster and passes it to the closure. Tests of faults require the embedded one.
func withKafka(
    brokers: Int = 1, embeddedOnly: Bool = false, _ body: (TestCluster) async throws -> Void
) async throws {
    if let realBootstrapServers, hasRealBroker, !embeddedOnly {
        let configuration = KafkaConfiguration(
            bootstrapServers: realBootstrapServers, properties: try realProperties())
        try await body(TestCluster(configuration: configuration, embedded: nil))
        return
    }
    let embedded = try EmbeddedKafka(brokers: brokers, logger: quiet)
    let outcome = await Result(catching: {
        try await body(TestCluster(configuration: embedded.configuration, embedded: embedded))
    })
    await embedded.shutdown()
    try outcome.get()
}

extension Result where Failure == any Error {
    fileprivate init(catching body: () async throws -> Success) async {
        do { self = .success(try await body()) } catch { self = .failure(error) }
    }
}

struct TestFailure: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// A received message.
struct ReadMessage: Equatable, Sendable {
    var place: TopicPartition
    var offset: Int64
    var key: String?
    var value: String?
}

extension KafkaBatch {
    func message(_ index: Int) -> ReadMessage {
        ReadMessage(
            place: topicPartition(index), offset: records[index].offset,
            key: key(index).map { String(decoding: bytes[$0], as: UTF8.self) },
            value: value(index).map { String(decoding: bytes[$0], as: UTF8.self) })
    }

    var messages: [ReadMessage] { (0..<count).map(message) }
}

extension KafkaConsumer {
    /// Reads this many messages.
    func read(_ count: Int) async throws -> [ReadMessage] {
        var messages: [ReadMessage] = []
        if count == 0 { return messages }
        for try await event in events {
            switch event {
            case .batch(let batch): messages += batch.messages
            case .offsetOutOfRange(let place, let offset): throw TestFailure("\(place) has no offset \(offset)")
            case .otherLog(let place, let offset): throw TestFailure("\(place) has another message at \(offset)")
            case .unreadable(let place, let offset, let reason): throw TestFailure("\(place) at \(offset): \(reason)")
            case .error, .interrupted, .advanced: continue
            }
            if messages.count >= count { break }
        }
        return messages
    }
}

extension KafkaMessage {
    init(_ topic: String, _ value: String, key: String? = nil, partition: Int32? = nil) {
        self.init(
            topic: topic, partition: partition, key: key.map { Array($0.utf8) }, value: Array(value.utf8))
    }
}
