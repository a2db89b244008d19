// SPDX-License-Identifier: Apache-2.0

import Foundation
import KafkaClient
import Logging
import TestSupport
import Testing
import WidgetEvents
import WidgetModel

@testable import FreshetClient

let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
let topics = ["freshet.pushes", "freshet.app-changes", "freshet.widgets", "freshet.donations"]

/// A message as received by a consumer of Freshet's topics.
struct Received: Sendable {
    let topic: String
    let key: String
    /// Headers without those that differ between events.
    let headers: [String: String]
    let event: DecodedEvent
}

/// Folder of the repository.
let repository = URL(filePath: #filePath)
    .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

/// Creates an embedded cluster with the topics of the client's events, one partition each, and passes it to the
/// closure.
func withCluster<Value: Sendable>(_ body: (EmbeddedKafka) async throws -> Value) async throws -> Value {
    let kafka = try EmbeddedKafka(logger: quiet)
    defer { kafka.close() }
    for topic in topics { try kafka.createTopic(topic, partitions: 1) }
    return try await body(kafka)
}

extension EmbeddedKafka {
    func center(
        app: String = "com.example.bank", deliveryTimeout: Duration = Patience.delivery,
        change: (inout WidgetCenterConfiguration) -> Void = { _ in }
    ) throws -> WidgetCenter {
        var configuration = WidgetCenterConfiguration(bootstrapServers: bootstrapServers, source: "/tests")
        configuration.properties = Self.clientProperties
        configuration.deliveryTimeout = deliveryTimeout
        change(&configuration)
        return try WidgetCenter(app: app, configuration: configuration, logger: quiet)
    }

    /// Returns the first `count` events of the topics, as decoded by Freshet.
    func received(count: Int) async throws -> [Received] {
        let consumer = try KafkaConsumer(
            configuration: KafkaConsumerConfiguration(kafka: configuration, group: "test"),
            logger: quiet)
        try await consumer.assignAll(of: topics)
        var received: [Received] = []
        let decoder = EventDecoder()
        for try await event in consumer.events {
            switch event {
            case .batch(let batch):
                for index in 0..<batch.count { received.append(try Self.read(batch, index, decoder)) }
            case .offsetOutOfRange, .otherLog, .error, .interrupted, .advanced, .unreadable: break
            }
            if received.count >= count { break }
        }
        await consumer.shutdown()
        return received
    }

    private static func read(_ batch: KafkaBatch, _ index: Int, _ decoder: EventDecoder) throws -> Received {
        let topic = batch.topicPartition(index).topic
        let sort = try #require(EventTopic.allCases.first { $0.defaultName == topic })
        let key = try #require(batch.key(index))
        let headers = batch.headers(index)
        let decoded = try decoder.decode(
            bytes: batch.bytes, value: batch.value(index), headers: headers, topic: sort)
        var texts: [String: String] = [:]
        for header in headers {
            let name = String(decoding: batch.bytes[header.name], as: UTF8.self)
            if name == "ce_id" || name == "ce_time" { continue }
            texts[name] = header.value.map { String(decoding: batch.bytes[$0], as: UTF8.self) } ?? "null"
        }
        return Received(
            topic: topic, key: String(decoding: batch.bytes[key], as: UTF8.self), headers: texts, event: decoded)
    }
}

/// Passes a center for `app` on an embedded cluster to the closure; returns the published events, as decoded by
/// Freshet.
func published(
    count: Int, app: String = "com.example.bank", _ body: @Sendable (WidgetCenter) async throws -> Void
) async throws -> [Received] {
    try await withCluster { kafka in
        let center = try kafka.center(app: app)
        try await body(center)
        await center.shutdown()
        return try await kafka.received(count: count)
    }
}
