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

@Suite("Stored offsets outside the log", .timeLimit(.patience))
struct OutOfRangeTests {
    private let partition = TopicPartition(topic: "t", partition: 2)

    @Test("The bounds of the log explain the gap")
    func causes() {
        func cause(_ offset: Int64, _ bounds: Range<Int64>?) -> LogGap.Cause {
            LogGap(partition: partition, offset: offset, bounds: bounds).cause
        }
        let bounds = Int64(10)..<20
        #expect(cause(3, bounds) == .retention(lost: 7))
        #expect(cause(9, bounds) == .retention(lost: 1))
        for offset: Int64 in [10, 15, 20] { #expect(cause(offset, bounds) == .none) }
        #expect(cause(21, bounds) == .beyondEnd)
        #expect(cause(5, 0..<0) == .beyondEnd)
        #expect(cause(5, nil) == .unknown)
        let gap = LogGap(partition: partition, offset: 3, bounds: bounds)
        #expect(gap.explanation.contains("removed 7 offsets from 3 on"))
        #expect(gap.command == "freshet positions set t 2 earliest")
    }

    /// A partition whose stored position, 3, retention has removed from the log.
    private func withRemovedPosition(
        _ body: (_ ingest: IngestHarness, _ topic: String, _ bounds: Range<Int64>) async throws -> Void
    ) async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            guard ingest.kafka.embedded != nil else { return }
            try await ingest.place(users: 10)
            let topic = ingest.configuration.topics.pushes
            try await ingest.publishLarge(80, users: 10)
            let bounds = try await ingest.bounds(of: topic)
            #expect(bounds.lowerBound > 3 && bounds.upperBound == 80)
            _ = try await ingest.store.pool.execute(.setPosition(topic: topic, partition: 0, nextOffset: 3))
            try await body(ingest, topic, bounds)
        }
    }

    @Test("With `earliest` the position moves to the oldest message, and lost messages are logged and counted")
    func earliest() async throws {
        try await withRemovedPosition { ingest, topic, bounds in
            let log = RecordedLog()
            let service = ingest.quickService(logger: log.logger, { $0.offsetOutOfRange = .earliest })
            try await ingest.running([service]) {
                try await ingest.waitUntilApplied(80)
                #expect(service.obstacles == [])
                // The partition then continues normally.
                try await ingest.publish((0..<20).map { ingest.push("u\($0 % 10)") })
                try await ingest.waitUntilApplied(100)
            }
            let lost = bounds.lowerBound - 3
            #expect(try await ingest.counted() == 100 - Int(bounds.lowerBound))
            #expect(service.metrics.ingestLost.total() == Int(lost))
            #expect(service.metrics.ingestOutOfRange.total() == 1)
            let line = try #require(log.lines.first { $0.level == .critical })
            #expect(line.metadata["topic"] == "\(topic)" && line.metadata["partition"] == "0")
            #expect(line.metadata["from"] == "3" && line.metadata["to"] == "\(bounds.lowerBound)")
            #expect(line.metadata["lost"] == "\(lost)")
        }
    }

    @Test("A stopped partition reports the reason and resumes when its position is set; other partitions continue")
    func stop() async throws {
        try await withRemovedPosition { ingest, topic, bounds in
            let log = RecordedLog()
            let service = ingest.quickService(logger: log.logger)
            try await ingest.running([service]) {
                try await eventually("the partition reports that it is stopped") { !service.status.reasons.isEmpty }
                let reason = try #require(service.obstacles.first)
                #expect(reason.contains("\(topic)[0] is stopped"))
                #expect(service.status.stalledPartitions == 1)
                #expect(reason.contains("retention has removed \(bounds.lowerBound - 3) offsets"))
                #expect(reason.contains("freshet positions set \(topic) 0 earliest"))
                // Another partition is still read.
                try await ingest.publish([.placed(.test("w-new", user: "u-new"))])
                try await eventually("events of the other topic are applied") {
                    try await ingest.store.integer("SELECT count(*) FROM widget WHERE id = 'w-new'") == 1
                }
                #expect(try await ingest.counted() == 0)
                #expect(service.metrics.ingestLost.total() == 0)
                _ = try await ingest.store.pool.execute(.setPosition(topic: topic, partition: 0, nextOffset: nil))
                try await eventually("the partition resumes") {
                    try await ingest.store.pool.query(Statements.listPositions())
                        .contains { $0.topic == topic && $0.nextOffset == 80 }
                }
                try await eventually("no obstacles remain") { service.obstacles.isEmpty }
            }
            #expect(try await ingest.counted() == 80 - Int(bounds.lowerBound))
            let line = try #require(log.lines.first { $0.level == .critical })
            #expect(line.metadata["command"] == "freshet positions set \(topic) 0 earliest")
        }
    }

    @Test("Ingest retries a position while the bounds of the log are unknown")
    func unknownBounds() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            guard let embedded = ingest.kafka.embedded else { return }
            try await ingest.place(users: 10)
            let log = RecordedLog()
            let service = ingest.quickService(logger: log.logger)
            try await ingest.running([service]) {
                try await ingest.publish((0..<20).map { ingest.push("u\($0 % 10)") })
                try await ingest.waitUntilApplied(20)
                // As during a change of leaders: the offset is briefly out of range and no broker answers.
                try embedded.pushRequestErrors(
                    .listOffsets, Array(repeating: .topicAuthorizationFailed, count: 1_000))
                try embedded.pushRequestErrors(.fetch, [.offsetOutOfRange])
                try await eventually("the query for the bounds fails") {
                    log.lines.contains { $0.text == "cannot ask for the bounds of a log" }
                }
                try embedded.clearRequestErrors(.listOffsets)
                try await ingest.publish((0..<20).map { ingest.push("u\($0 % 10)") })
                try await ingest.waitUntilApplied(40)
                try await eventually("no obstacles remain") { service.obstacles.isEmpty }
            }
            #expect(try await ingest.counted() == 40)
            #expect(!log.lines.contains { $0.level == .critical })
        }
    }

    @Test("A position beyond the end of a recreated topic's log is reported and moved")
    func beyondEnd() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            try await ingest.place(users: 10)
            let topic = ingest.configuration.topics.pushes
            try await ingest.publish((0..<50).map { ingest.push("u\($0 % 10)") })
            _ = try await ingest.store.pool.execute(.setPosition(topic: topic, partition: 0, nextOffset: 5_000))
            let log = RecordedLog()
            let service = ingest.quickService(logger: log.logger, { $0.offsetOutOfRange = .earliest })
            try await ingest.running([service]) {
                try await eventually("the log is read from its beginning") { try await ingest.counted() == 50 }
            }
            #expect(service.metrics.ingestOutOfRange.total() == 1)
            #expect(service.metrics.ingestLost.total() == 0)
            let line = try #require(log.lines.first { $0.level == .critical })
            #expect(line.metadata["cause"].map { "\($0)" }?.contains("beyond the end of the log (50)") == true)
            let position = try await ingest.store.pool.query(Statements.listPositions()).first { $0.topic == topic }
            #expect(position?.nextOffset == 50)
        }
    }
}
