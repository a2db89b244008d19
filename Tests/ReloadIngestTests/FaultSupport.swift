// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import Logging
import TestSupport
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

/// Steps that tests of faults share.
extension IngestHarness {
    /// Returns a service with short back-offs, adjusted by the test.
    func quickService(
        logger: Logger = quiet, _ adjust: (inout IngestConfiguration) -> Void = { _ in },
        consumer adjustConsumer: (inout KafkaConsumerConfiguration) -> Void = { _ in },
        onConsumer: @escaping @Sendable (KafkaConsumer) -> Void = { _ in }
    ) -> IngestService {
        var configuration = configuration
        configuration.restartCap = .milliseconds(500)
        configuration.recheckInterval = .milliseconds(500)
        adjust(&configuration)
        var consumer = KafkaConsumerConfiguration(
            kafka: kafka.configuration, group: configuration.group,
            maximumBatchMessages: configuration.maximumBatch)
        adjustConsumer(&consumer)
        return IngestService(
            configuration: configuration, pool: store.pool, directory: DirectoryCache(pool: store.pool),
            logger: logger, onLists: {}, onSweeps: {}, onDeadLetters: {},
            makeConsumer: { [consumer] in
                let made = try KafkaConsumer(configuration: consumer, logger: logger)
                onConsumer(made)
                return made
            })
    }

    /// Number of events applied to timelines, without the initial one of each.
    func counted() async throws -> Int {
        try await store.integer("SELECT coalesce(sum(requested) - count(*), 0) FROM timeline")
    }

    func place(users: Int) async throws {
        _ = try await store.place((0..<users).map { .test("w\($0)", user: "u\($0)") })
        try await store.settle()
    }

    /// Publishes pushes of 100 kB each, so that the embedded cluster drops its oldest messages.
    func publishLarge(_ count: Int, users: Int) async throws {
        var generator = SystemRandomNumberGenerator()
        for from in stride(from: 0, to: count, by: 10) {
            let messages = (from..<min(from + 10, count)).map { index in
                let encoded = push("u\(index % users)").encode(
                    id: "large-\(index)", source: "/tests", time: nil, key: nil)
                // Random bytes do not compress.
                let padding = (0..<12_500).flatMap { _ in
                    withUnsafeBytes(of: UInt64.random(in: 0 ... .max, using: &generator)) { Array($0) }
                }
                return KafkaMessage(
                    topic: configuration.topics.pushes, key: encoded.key, value: encoded.value,
                    headers: encoded.headers.map { KafkaHeader(name: $0.name, value: $0.value) }
                        + [KafkaHeader(name: "padding", value: padding)])
            }
            for result in await producer.send(messages) { _ = try result.get() }
        }
    }

    func bounds(of topic: String) async throws -> Range<Int64> {
        try await KafkaAdmin(configuration: kafka.configuration, logger: Self.quiet)
            .bounds(of: TopicPartition(topic: topic, partition: 0))
    }
}
