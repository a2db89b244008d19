// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import WidgetStore

@Suite("Positions of partitions", .timeLimit(.patience))
struct PositionTests {
    private func take(_ store: TestStore, on cluster: String?) async throws -> [Int64] {
        try await store.pool.query(Statements.takePartitions([(topic: "t", partition: 0)], cluster: cluster)).map(
            \.epoch)
    }

    @Test("Positions are taken only by processes on the same Kafka cluster")
    func cluster() async throws {
        try await withStore { store in
            #expect(try await take(store, on: "old") == [1], "no cluster is recorded yet")
            _ = try await store.pool.query(.recordCluster("old"))
            #expect(try await take(store, on: "old") == [2])
            try await withThrowingTaskGroup(of: [Int64].self) { group in
                try await store.pool.withTransaction { accepting in
                    _ = try await accepting.execute(.replaceCluster("new"))
                    group.addTask { try await take(store, on: "old") }
                    try await store.waitUntilBlocked()
                }
                #expect(try await group.next() == [])
            }
            #expect(try await take(store, on: "old") == [])
            #expect(try await take(store, on: "new") == [3])
            #expect(try await take(store, on: nil) == [4])
        }
    }
}
