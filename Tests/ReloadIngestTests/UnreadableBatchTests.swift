// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import Logging
import PostgresClient
import TestSupport
import Testing
import WidgetEvents
import WidgetStore

@testable import ReloadIngest

/// A batch that librdkafka cannot read, and whether it says so.
struct BrokenBatch: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let content: RawRecordBatch.Content

    static let all = [
        BrokenBatch(testDescription: "zstd", content: .unreadableZstd),
        BrokenBatch(testDescription: "LZ4", content: .unreadableLZ4),
        BrokenBatch(testDescription: "a record that is longer than its batch", content: .unreadableRecord),
    ]
}

@Suite("Batches that cannot be read", .timeLimit(.patience))
struct UnreadableBatchTests {
    @Test(
        "The partition is named with offset and command and is stopped, others continue, and the batch can be skipped",
        arguments: BrokenBatch.all)
    func stops(broken: BrokenBatch) async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            guard let embedded = ingest.kafka.embedded else { return }
            try await ingest.place(users: 1)
            let place = TopicPartition(topic: ingest.configuration.topics.pushes, partition: 0)
            let log = RecordedLog()
            let service = ingest.quickService(logger: log.logger, { $0.noticeInterval = .milliseconds(500) }) {
                $0.silenceLimit = .milliseconds(500)
                $0.unreadableRetry = .milliseconds(100)
            }
            try await ingest.running([service]) {
                try await ingest.publish([ingest.push("u0")])
                try await RawRecordBatch(broken.content).produce(to: embedded, place)
                try await RawRecordBatch(broken.content).produce(to: embedded, place)
                try await ingest.publish([ingest.push("u0")])
                try await eventually("the partition reports that it is stopped") {
                    service.status.stalledPartitions == 1 && service.obstacles.contains { $0.contains("\(place)") }
                }
                let reason = try #require(service.obstacles.first { $0.contains("\(place)") })
                for part in [
                    "\(place): the batch at offset 1 cannot be read", "freshet positions set \(place.topic) 0 readable",
                ] {
                    #expect(reason.contains(part), "\(reason)")
                }
                #expect(try await ingest.counted() == 1)
                // Another partition is still read.
                try await ingest.publish([.placed(.test("w-new", user: "u-new"))])
                try await eventually("events of the other topic are applied") {
                    try await ingest.store.integer("SELECT count(*) FROM widget WHERE id = 'w-new'") == 1
                }
                try await eventually("the obstacle is repeated in the log") {
                    log.lines.count { $0.text == "ingest is blocked" } >= 3
                }
                #expect(service.status.stalledPartitions == 1)
                let reader = KafkaReader(configuration: ingest.kafka.configuration, logger: IngestHarness.quiet)
                let answers = try await reader.messages(at: [place: 1], timeout: .seconds(10))
                #expect(throws: KafkaError.self) { try answers[place]?.get() }
                let next = try await reader.firstReadable(of: place, from: 1, timeout: .seconds(10))
                #expect(next == 3)
                _ = try await ingest.store.pool.execute(
                    .setPosition(topic: place.topic, partition: place.partition, nextOffset: next))
                try await eventually("the partition continues") { try await ingest.counted() == 2 }
                try await eventually("no obstacles remain") { service.obstacles.isEmpty }
                #expect(service.status.stalledPartitions == 0)
            }
            // The retries are not logged.
            let members = log.lines.filter { $0.level == .critical }.map { line in
                ["partition", "offset", "command"].map { line.metadata[$0].map { "\($0)" } }
            }
            #expect(members == [["0", "1", "freshet positions set \(place.topic) 0 readable"]])
            #expect(!log.lines.contains { $0.text == "Kafka consumer" })
        }
    }

    @Test("The end of many batches that are dropped silently is found without waiting for each, and told")
    func many() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            guard let embedded = ingest.kafka.embedded else { return }
            let place = TopicPartition(topic: ingest.configuration.topics.pushes, partition: 0)
            for _ in 0..<40 { try await RawRecordBatch(.unreadableLZ4).produce(to: embedded, place) }
            try await ingest.publish([ingest.push("u0")])
            let reader = KafkaReader(configuration: ingest.kafka.configuration, logger: IngestHarness.quiet)
            var told: [Int64] = []
            let begin = ContinuousClock.now
            let found = try await reader.firstReadable(of: place, from: 0, timeout: .seconds(10)) { told.append($0) }
            #expect(found == 40 && told == [32])
            #expect(begin.duration(to: .now) < .seconds(200), "one after the other they take 400 s")
        }
    }
}
