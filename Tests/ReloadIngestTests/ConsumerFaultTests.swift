// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import Logging
import PostgresClient
import Synchronization
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

/// Faults of Kafka: after the brokers have recovered, every event has been applied exactly once.
@Suite("Consumer faults", .timeLimit(.patience))
struct ConsumerFaultTests {
    struct Case: CustomTestStringConvertible, Sendable {
        let request: KafkaRequestKind
        let codes: [KafkaError.Code]

        var testDescription: String { "\(request): \(codes.map(\.name).joined(separator: ", "))" }
    }

    static let cases = [
        Case(request: .fetch, codes: [.notLeaderForPartition, .disconnect, .topicAuthorizationFailed, .disconnect]),
        Case(request: .fetch, codes: [.unknownTopicOrPartition, .unknownTopicOrPartition]),
        Case(request: .listOffsets, codes: [.notLeaderForPartition, .disconnect]),
        Case(request: .metadata, codes: [.disconnect, .disconnect]),
        Case(request: .offsetCommit, codes: [.notCoordinator, .coordinatorNotAvailable, .disconnect]),
        Case(request: .offsetCommit, codes: [.illegalGeneration, .unknownMemberID]),
        Case(request: .findCoordinator, codes: [.coordinatorNotAvailable, .disconnect]),
    ]

    @Test("Errors of each request lose and duplicate no event", arguments: cases)
    func requestErrors(_ fault: Case) async throws {
        try await IngestHarness.lend(partitions: 2, maximumBatch: 50) { ingest in
            guard let embedded = ingest.kafka.embedded else { return }
            try await ingest.place(users: 20)
            let service = ingest.quickService()
            // Errors at the start …
            try embedded.pushRequestErrors(fault.request, fault.codes)
            try await ingest.running([service]) {
                try await ingest.publish((0..<200).map { ingest.push("u\($0 % 20)") })
                try await ingest.waitUntilApplied(200)
                // … and in a running consumer.
                try embedded.pushRequestErrors(fault.request, fault.codes)
                for _ in 0..<10 { try await ingest.publish((0..<40).map { ingest.push("u\($0 % 20)") }) }
                try await ingest.waitUntilApplied(600)
                try await eventually("no obstacles remain") { service.obstacles.isEmpty }
            }
            #expect(try await ingest.counted() == 600)
            #expect(try await ingest.store.integer("SELECT count(*) FROM dead_letter") == 0)
        }
    }

    @Test("Every event is applied once after two broker outages")
    func brokerDown() async throws {
        try await IngestHarness.lend(partitions: 2, maximumBatch: 50) { ingest in
            guard let embedded = ingest.kafka.embedded else { return }
            try await ingest.place(users: 20)
            let service = ingest.quickService()
            try await ingest.running([service]) {
                try await ingest.publish((0..<500).map { ingest.push("u\($0 % 20)") })
                try await eventually("some events are applied") { try await ingest.applied() > 0 }
                for round in 1...2 {
                    try embedded.stopBroker(1)
                    try await Task.sleep(for: .seconds(round == 1 ? 1 : 7))
                    try embedded.startBroker(1)
                    try await ingest.publish((0..<500).map { ingest.push("u\($0 % 20)") })
                    try await ingest.waitUntilApplied(500 + round * 500)
                }
                try await eventually("no obstacles remain") { service.obstacles.isEmpty }
            }
            #expect(try await ingest.counted() == 1500)
        }
    }

    @Test("A missing topic is reported, and read once it exists")
    func unknownTopic() async throws {
        try await IngestHarness.lend(partitions: 2) { ingest in
            guard let embedded = ingest.kafka.embedded else { return }
            try await ingest.place(users: 20)
            let topic = ingest.configuration.topics.widgets
            try embedded.setTopicError(topic, .unknownTopicOrPartition)
            let log = RecordedLog()
            let service = ingest.quickService(
                logger: log.logger,
                {
                    $0.recheckInterval = .milliseconds(100)
                    $0.noticeInterval = .milliseconds(300)
                })
            try await ingest.running([service]) {
                // The other topics are read meanwhile.
                try await ingest.publish((0..<100).map { ingest.push("u\($0 % 20)") })
                try await ingest.waitUntilApplied(100)
                try await eventually("the missing topic is reported") {
                    service.obstacles.contains("the topic \(topic) is not there: create it")
                }
                try await eventually("the report is repeated") {
                    log.lines.count { $0.text == "ingest is blocked" } >= 2
                }
                try embedded.setTopicError(topic, nil)
                try await eventually("the topic is read") { service.obstacles.isEmpty }
                try await ingest.publish([.placed(.test("w-new", user: "u-new"))])
                try await ingest.waitUntilApplied(101)
            }
            #expect(try await ingest.store.integer("SELECT count(*) FROM widget WHERE id = 'w-new'") == 1)
        }
    }

    @Test("Credentials that may not use the group lose only the offsets for lag tools")
    func groupAuthorization() async throws {
        try await IngestHarness.lend(partitions: 2) { ingest in
            guard let embedded = ingest.kafka.embedded else { return }
            try await ingest.place(users: 20)
            for request in [KafkaRequestKind.findCoordinator, .offsetCommit] {
                try embedded.pushRequestErrors(request, Array(repeating: .groupAuthorizationFailed, count: 1_000))
            }
            let service = ingest.quickService()
            try await ingest.running([service]) {
                try await ingest.publish((0..<100).map { ingest.push("u\($0 % 20)") })
                try await ingest.waitUntilApplied(100)
                #expect(service.obstacles.isEmpty)
            }
            #expect(try await ingest.counted() == 100)
        }
    }

    @Test("Ingest reports a topic that it may not describe or read, and recovers once it may")
    func topicAuthorization() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            guard let embedded = ingest.kafka.embedded else { return }
            try await ingest.place(users: 20)
            let topic = ingest.configuration.topics.pushes
            let reason = "the brokers do not let these credentials read the topic \(topic)"
            try embedded.setTopicError(topic, .topicAuthorizationFailed)
            let service = ingest.quickService()
            try await ingest.running([service]) {
                try await eventually("the topic is reported as hidden") {
                    service.obstacles.contains { $0.hasPrefix(reason) }
                }
                try embedded.setTopicError(topic, nil)
                try await ingest.publish((0..<100).map { ingest.push("u\($0 % 20)") })
                try await ingest.waitUntilApplied(100)
                #expect(service.obstacles.isEmpty)
                // Now the topic is visible but not readable; no new message would reveal the change.
                try embedded.pushRequestErrors(.fetch, Array(repeating: .topicAuthorizationFailed, count: 10_000))
                try await eventually("the topic is reported as unreadable") {
                    service.obstacles.contains { $0.hasPrefix("the brokers do not let these credentials read") }
                }
                try embedded.clearRequestErrors(.fetch)
                try await eventually("ingest recovers without a new message") { service.obstacles.isEmpty }
                try await ingest.publish((0..<100).map { ingest.push("u\($0 % 20)") })
                try await ingest.waitUntilApplied(200)
            }
            #expect(try await ingest.counted() == 200)
        }
    }

    @Test("Events count once when another process takes partitions in the middle of a transaction")
    func takenInTransaction() async throws {
        try await IngestHarness.lend(partitions: 2, maximumBatch: 100) { ingest in
            guard ingest.kafka.embedded != nil else { return }
            try await ingest.place(users: 20)
            let (first, second) = (ingest.quickService(), ingest.quickService())
            try await ingest.running([first]) {
                try await ingest.publish((0..<200).map { ingest.push("u\($0 % 20)") })
                try await ingest.waitUntilApplied(200)
                let joining = try await ingest.store.pool.withTransaction { connection in
                    try await connection.simple("SELECT 1 FROM timeline ORDER BY id FOR UPDATE")
                    try await ingest.publish((0..<200).map { ingest.push("u\($0 % 20)") })
                    try await ingest.store.waitUntilBlocked()
                    // The second process applies nothing, and so stays, while the timelines are locked.
                    let joining = Task {
                        try await ingest.running([second]) {
                            try await eventually("the second process has its share") {
                                if second.metrics.ingestEvents.total(["outcome": "applied"]) > 0 { return true }
                                try await ingest.publish((0..<20).map { ingest.push("u\($0)") })
                                return false
                            }
                        }
                    }
                    try await eventually("the second process is registered") {
                        try await ingest.store.integer("SELECT count(*) FROM ingest_member") == 2
                    }
                    return joining
                }
                try await joining.value
                try await eventually("all events are applied") {
                    let ends = try await ingest.bounds(ofAll: ingest.configuration.topics.pushes, partitions: 2)
                    return try await ingest.applied() == Int(ends)
                }
            }
            let applied = try await ingest.applied()
            #expect(try await ingest.counted() == applied)
            #expect(applied >= 420)
        }
    }
}

extension IngestHarness {
    /// Number of messages published to a topic.
    fileprivate func bounds(ofAll topic: String, partitions: Int32) async throws -> Int64 {
        let admin = KafkaAdmin(configuration: kafka.configuration, logger: Self.quiet)
        var sum: Int64 = 0
        for partition in 0..<partitions {
            sum += try await admin.bounds(of: TopicPartition(topic: topic, partition: partition)).upperBound
        }
        return sum
    }
}
