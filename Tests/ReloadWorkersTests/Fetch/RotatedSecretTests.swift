// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

@Suite(.tags(.database), .timeLimit(.patience))
struct RotatedSecretTests {
    private func expect(
        _ requests: [StubProvider.Request], areSignedWith secrets: [[UInt8]], _ comment: Comment
    ) throws {
        try #require(!requests.isEmpty, comment)
        for request in requests {
            let id = try #require(request.headers["webhook-id"])
            let timestamp = try #require(request.headers["webhook-timestamp"].flatMap { Int64($0) })
            let expected = ProviderClient.signature(secrets: secrets, id: id, timestamp: timestamp, body: request.body)
            #expect(request.headers["webhook-signature"] == expected, comment)
        }
    }

    @Test func whileASecretIsReplacedEveryRequestIsSignedWithBoth() async throws {
        try await withWorker(minimumSpacing: .zero) { worker in
            let old = try #require(try await worker.store.directory().apps[TestKinds.app]?.signingSecret)
            let new: [UInt8] = [7, 8, 9]
            worker.provider.respond(to: .snapshot) { .list("snapshots", $0.ids.map { .stubSnapshot($0) }) }
            _ = try await worker.store.store.rotateSecret(app: TestKinds.app, to: new)
            try await worker.store.apply([.placed(.test("w1"))], at: Timestamp(microseconds: 1_700_000_000_000_000))
            try await worker.drain()
            try expect(worker.provider.requests, areSignedWith: [new, old], "timelines")
            try expect(worker.provider.requests(to: .snapshot), areSignedWith: [new, old], "snapshots")

            #expect(try await worker.store.store.endSecretRotation(app: TestKinds.app))
            let before = worker.provider.requests.count
            try await worker.store.markUser("u1")
            try await worker.drain()
            try expect(Array(worker.provider.requests.dropFirst(before)), areSignedWith: [new], "it is over")
        }
    }
}
