// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadIngest

@Suite("Assignment of partitions to processes", .timeLimit(.patience))
struct IngestMembershipTests {
    private let places = ["a", "b"].flatMap { topic in
        (0..<10).map { TopicPartition(topic: topic, partition: Int32($0)) }
    }

    @Test("Each partition belongs to one process, and each process has its share of every topic", arguments: 1...12)
    func shares(count: Int) {
        let shares = (0..<count).map { IngestMembership.share(of: places, rank: $0, among: count) }
        #expect(shares.map(\.count).reduce(0, +) == places.count)
        #expect(shares.reduce(Set()) { $0.union($1) } == Set(places))
        for topic in ["a", "b"] {
            let sizes = shares.map { $0.count { $0.topic == topic } }
            #expect(sizes.max()! - sizes.min()! <= 1)
        }
    }

    @Test("A process that knows only some of the partitions agrees with the others on those")
    func partialKnowledge() {
        let known = places.prefix(7)
        for rank in 0..<3 {
            let share = IngestMembership.share(of: places, rank: rank, among: 3)
            #expect(IngestMembership.share(of: known, rank: rank, among: 3) == share.intersection(known))
        }
    }

    @Test("A process releases partitions of others and of halted topics, and takes unread ones")
    func changes() {
        let change = IngestMembership.Change(
            from: [places[0]: 1, places[1]: 1, places[10]: 1], to: [places[0], places[2], places[10]], epochs: [:],
            halted: ["b"])
        #expect(change.released == [places[1], places[10]])
        #expect(change.taken == [places[2]])
        #expect(IngestMembership.Change(from: [places[0]: 1], to: [places[0]], epochs: [:], halted: []).isEmpty)
    }

    @Test("A position that was moved externally is taken again, unless it belongs to another process")
    func moved() {
        let epochs: [TopicPartition: Int64] = [places[0]: 2, places[1]: 2, places[2]: 5]
        let change = IngestMembership.Change(
            from: [places[0]: 1, places[1]: 1, places[2]: 5], to: [places[0], places[2]], epochs: epochs,
            halted: [])
        #expect(change.released == [places[0], places[1]])
        #expect(change.taken == [places[0]])
    }

    @Test("A silent process counts as dead after the timeout, one that has left immediately")
    func registry() async throws {
        try await withStore { store in
            let ids = [2, 1, 3].map { UInt128($0) }
            func look(_ index: Int, timeout: Duration = .seconds(60)) async throws -> [Int] {
                let rows = try await store.pool.query(.registerIngest(ids[index], timeout: timeout))
                return rows.flatMap { [$0.rank, $0.count] }
            }
            #expect(try await look(0) == [0, 1])
            #expect(try await look(1) == [0, 2])
            #expect(try await look(0) == [1, 2])
            #expect(try await look(2) == [2, 3])
            try await store.sql(
                "UPDATE ingest_member SET seen_at = now() - interval '30 s' WHERE id::text LIKE '%1'")
            #expect(try await look(0, timeout: .seconds(20)) == [0, 2])
            #expect(try await look(1, timeout: .seconds(20)) == [0, 3])
            _ = try await store.pool.execute(.leaveIngest(ids[1]))
            #expect(try await look(2) == [1, 2])
        }
    }

    @Test("A process gets its share when it joins and returns it when it stops; a dead one is replaced")
    func handOver() async throws {
        try await IngestHarness.lend(partitions: 4) { ingest in
            let (first, second) = (ingest.service(), ingest.service())
            func partitions(_ service: IngestService) -> Int { service.metrics.ingestPartitions.total() }
            try await ingest.running([first]) {
                try await eventually("the first process reads everything") { partitions(first) == 16 }
                try await ingest.running([second]) {
                    try await eventually("both processes have half of the partitions") {
                        partitions(first) == 8 && partitions(second) == 8
                    }
                }
                try await eventually("the first process reads everything again") { partitions(first) == 16 }
                // Leaves the same state as a killed process. Its registration gets old only after the first process has
                // seen it.
                try await ingest.store.sql(
                    "INSERT INTO ingest_member (id, seen_at) VALUES (gen_random_uuid(), now() + interval '1 day')")
                try await eventually("the dead process's share waits") { partitions(first) == 8 }
                try await ingest.store.sql("UPDATE ingest_member SET seen_at = now() - interval '1 min'")
                try await eventually("the dead process's share is taken") { partitions(first) == 16 }
            }
            #expect(try await ingest.store.integer("SELECT count(*) FROM ingest_member") == 1)
        }
    }

    @Test("A process without brokers is unregistered, so that others read its partitions")
    func brokersAway() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            guard let embedded = ingest.kafka.embedded else { return }
            let service = ingest.service(configure: { $0.memberTimeout = .seconds(1) })
            func isRegistered() async throws -> Bool {
                let id: UInt128 = 1
                let row = try await ingest.store.pool.query(.registerIngest(id, timeout: .seconds(1))).first
                return row?.count == 2
            }
            try await ingest.running([service]) {
                try await eventually("the process is registered") { try await isRegistered() }
                try embedded.stopBroker(1)
                try await eventually("the process is unregistered") { try await !isRegistered() }
                try embedded.startBroker(1)
                try await eventually("the process is registered again") { try await isRegistered() }
            }
        }
    }
}
