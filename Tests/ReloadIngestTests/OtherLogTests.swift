// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import Logging
import PostgresClient
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

@Suite("Topics that were deleted and made anew", .timeLimit(.patience))
struct OtherLogTests {
    /// Makes a cluster whose topic of pushes has other messages, more of them than were applied.
    private func withOtherCluster(
        _ ingest: IngestHarness, _ body: (EmbeddedKafka) async throws -> Void
    ) async throws {
        let other = try EmbeddedKafka(logger: IngestHarness.quiet)
        defer { other.close() }
        for topic in ingest.configuration.topics.all { try other.createTopic(topic, partitions: 1) }
        let producer = try KafkaProducer(
            configuration: other.configuration, deliveryTimeout: Patience.delivery, logger: IngestHarness.quiet)
        let messages = (0..<20).map { number in
            let encoded = ingest.push("u0").encode(
                id: "other-\(number)", source: "/tests", time: nil, key: nil)
            return KafkaMessage(
                topic: ingest.configuration.topics.pushes, key: encoded.key, value: encoded.value,
                headers: encoded.headers.map { KafkaHeader(name: $0.name, value: $0.value) })
        }
        for result in await producer.send(messages) { _ = try result.get() }
        await producer.shutdown()
        try await body(other)
    }

    private func applyTen(_ ingest: IngestHarness) async throws {
        try await ingest.place(users: 1)
        for _ in 0..<2 {
            // The second process finds the log as it was.
            let service = ingest.quickService()
            try await ingest.running([service]) {
                let before = try await ingest.applied()
                try await ingest.publish((0..<5).map { _ in ingest.push("u0") })
                try await ingest.waitUntilApplied(before + 5)
                #expect(service.obstacles == [])
            }
        }
        #expect(try await ingest.counted() == 10)
    }

    @Test("A log that has grown past the position is recognized and read from its beginning once the position is set")
    func stop() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            guard ingest.kafka.embedded != nil else { return }
            try await applyTen(ingest)
            let topic = ingest.configuration.topics.pushes
            try await withOtherCluster(ingest) { other in
                let log = RecordedLog()
                let service = ingest.quickService(
                    logger: log.logger, consumer: { $0.kafka = other.configuration })
                try await ingest.running([service]) {
                    try await eventually("the partition reports that it is stopped") {
                        service.status.stalledPartitions == 1 && service.obstacles.contains { $0.contains(topic) }
                    }
                    let reason = try #require(service.obstacles.first { $0.contains(topic) })
                    #expect(reason.contains("\(topic)[0] is stopped: the log has another message at the offset 9"))
                    #expect(reason.contains("freshet positions set \(topic) 0 earliest"))
                    #expect(reason.contains("freshet positions set \(topic) 0 10 "))
                    #expect(service.status.stalledPartitions == 1)
                    #expect(try await ingest.counted() == 10)
                    _ = try await ingest.store.pool.execute(
                        .setPosition(topic: topic, partition: 0, nextOffset: nil))
                    try await eventually("the log is read from its beginning") { try await ingest.counted() == 30 }
                    try await eventually("no obstacles remain") { service.obstacles.isEmpty }
                }
                #expect(log.lines.count { $0.level == .critical } == 1)
                #expect(service.metrics.ingestOutOfRange.total() == 1)
            }
        }
    }

    @Test("With `earliest` another log is read from its beginning")
    func earliest() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            guard ingest.kafka.embedded != nil else { return }
            try await applyTen(ingest)
            try await withOtherCluster(ingest) { other in
                let service = ingest.quickService({ $0.offsetOutOfRange = .earliest }) {
                    $0.kafka = other.configuration
                }
                try await ingest.running([service]) {
                    try await eventually("the log is read from its beginning") { try await ingest.counted() == 30 }
                    #expect(service.obstacles == [])
                }
            }
        }
    }

    @Test("With `earliest` another log whose bounds are unknown at first is read once a broker reports them")
    func earliestWithUnknownBounds() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            guard ingest.kafka.embedded != nil else { return }
            try await applyTen(ingest)
            try await withOtherCluster(ingest) { other in
                let log = RecordedLog()
                let service = ingest.quickService(
                    logger: log.logger,
                    {
                        $0.offsetOutOfRange = .earliest
                        $0.recheckInterval = .milliseconds(100)
                    }
                ) { $0.kafka = other.configuration }
                try other.pushRequestErrors(
                    .listOffsets, Array(repeating: .topicAuthorizationFailed, count: 100_000))
                try await ingest.running([service]) {
                    try await eventually("the query for the bounds fails") {
                        log.lines.contains { $0.text == "cannot ask for the bounds of a log" }
                    }
                    #expect(try await ingest.counted() == 10)
                    try other.clearRequestErrors(.listOffsets)
                    try await eventually("the log is read from its beginning") { try await ingest.counted() == 30 }
                    try await eventually("no obstacles remain") { service.obstacles.isEmpty }
                }
                let topic = ingest.configuration.topics.pushes
                #expect(log.lines.count { $0.level == .critical && $0.metadata["topic"] == "\(topic)" } == 1)
            }
        }
    }

    @Test("A topic that is missing for a while is compared when it is there again")
    func whileRunning() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            guard let embedded = ingest.kafka.embedded else { return }
            try await applyTen(ingest)
            let topic = ingest.configuration.topics.pushes
            let service = ingest.quickService({ $0.recheckInterval = .milliseconds(100) })
            try await ingest.running([service]) {
                try await ingest.publish([ingest.push("u0")])
                try await ingest.waitUntilApplied(11)
                try embedded.setTopicError(topic, .unknownTopicOrPartition)
                try await eventually("the topic is missed") {
                    service.obstacles.contains("the topic \(topic) is not there: create it")
                }
                // The embedded cluster cannot make another log.
                try await ingest.store.pool.withConnection { connection in
                    try await connection.simple(
                        "UPDATE consumer_position SET last_hash = last_hash + 1 WHERE topic = '\(topic)'")
                }
                try embedded.setTopicError(topic, nil)
                try await eventually("the other log is recognized") {
                    service.obstacles.contains { $0.contains("another message at the offset 10") }
                }
                #expect(service.metrics.ingestOutOfRange.total() == 1)
            }
        }
    }
}
