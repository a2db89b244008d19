// SPDX-License-Identifier: Apache-2.0

import Foundation
package import KafkaClient
package import Logging

/// Kafka for one test: an embedded cluster, or uniquely named topics on the broker that
/// `FRESHET_TEST_BOOTSTRAP_SERVERS` names. `FRESHET_TEST_KAFKA_PROPERTIES` holds librdkafka properties (TLS, SASL …)
/// for that broker, as `name=value,name=value`.
package final class TestKafka: Sendable {
    package let configuration: KafkaConfiguration
    /// The embedded cluster; `nil` with a real broker.
    package let embedded: EmbeddedKafka?
    private let suffix: String

    private init(configuration: KafkaConfiguration, embedded: EmbeddedKafka?) {
        self.configuration = configuration
        self.embedded = embedded
        suffix = embedded == nil ? "-\(UInt64.random(in: 0...UInt64.max))" : ""
    }

    /// Returns the name on the cluster of a test's topic.
    package func name(_ topic: String) -> String { topic + suffix }

    fileprivate static func make(logger: Logger) throws -> TestKafka {
        let environment = ProcessInfo.processInfo.environment
        let servers = environment["FRESHET_TEST_BOOTSTRAP_SERVERS"] ?? ""
        if !servers.isEmpty {
            let properties = try KafkaProperties.parse(environment["FRESHET_TEST_KAFKA_PROPERTIES"] ?? "")
            return TestKafka(
                configuration: KafkaConfiguration(bootstrapServers: servers, properties: properties), embedded: nil)
        }
        let embedded = try EmbeddedKafka(logger: logger)
        return TestKafka(
            configuration: KafkaConfiguration(
                bootstrapServers: embedded.bootstrapServers, properties: EmbeddedKafka.clientProperties),
            embedded: embedded)
    }

    /// Creates a topic, named ``name(_:)`` on the cluster.
    package func create(_ topic: String, partitions: Int) async throws {
        if let embedded {
            try embedded.createTopic(name(topic), partitions: partitions)
        } else {
            _ = try await KafkaAdmin(configuration: configuration, logger: Logger(label: "test")).createTopics([
                KafkaTopicSpecification(name: name(topic), partitions: partitions, replicationFactor: 1)
            ])
        }
    }
}

/// Parses `name=value,name=value`.
private enum KafkaProperties {
    /// Reports the position of the error instead of the text, which may be a password.
    struct Malformed: Error, CustomStringConvertible {
        let position: Int
        var description: String { "FRESHET_TEST_KAFKA_PROPERTIES: property \(position) is not name=value" }
    }

    static func parse(_ text: String) throws -> [String: String] {
        var properties: [String: String] = [:]
        for (index, property) in text.split(separator: ",").enumerated() {
            let parts = property.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, !parts[0].isEmpty else { throw Malformed(position: index + 1) }
            properties[String(parts[0])] = String(parts[1])
        }
        return properties
    }
}

/// Creates the topics and passes Kafka to the closure.
package func withKafka<Result: Sendable>(
    topics: [String], partitions: Int = 4,
    logger: Logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
    _ body: (TestKafka) async throws -> Result
) async throws -> Result {
    let kafka = try TestKafka.make(logger: logger)
    defer { kafka.embedded?.close() }
    for topic in topics { try await kafka.create(topic, partitions: partitions) }
    return try await body(kafka)
}
