// SPDX-License-Identifier: Apache-2.0

import JSON
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// The step between claim and fetch.
@Suite(.serialized, .tags(.database), .timeLimit(.patience))
struct SnapshotStepTests {
    private let answers: StubProvider.Script = { .list("snapshots", $0.ids.map { .stubSnapshot($0) }) }

    @Test func snapshotsOfNewTimelinesAreRequestedFirstInOneRequest() async throws {
        try await withWorker { worker in
            worker.provider.respond(to: .snapshot, answers)
            let ids = try await worker.store.place([.test("w1"), .test("w2", user: "u2")])
            worker.provider.respond { request in
                // The snapshots are stored by this time.
                for id in request.ids {
                    let shown = try await worker.store.detail(id).fallback
                    guard case .snapshot(#"{"content":{"text":"at once"},"date":"2026-01-01T00:00:00Z"}"#, _)? = shown
                    else { return .status(500) }
                }
                return .timelines(request.ids.map { .stubTimeline($0) })
            }
            try await worker.drain()
            let asked = try #require(worker.provider.requests(to: .snapshot).first)
            #expect(worker.provider.requests(to: .snapshot).count == 1)
            #expect(Set(asked.ids) == Set(ids))
            #expect(asked.body == worker.provider.requests.first?.body)
            #expect(asked.headers["webhook-signature"]?.hasPrefix("v1,") == true)
            #expect(worker.metrics.providerRequests.total() == 1 && worker.metrics.failures.isEmpty)
            for id in ids {
                #expect(try await worker.store.detail(id).fallback == nil)
                #expect(try await worker.store.detail(id).content != nil)
            }
            #expect(try await worker.store.integer("SELECT count(*) FROM snapshot") == 0)
        }
    }

    @Test("A rendered timeline needs no snapshot")
    func rendered() async throws {
        try await withWorker { worker in
            worker.provider.respond(to: .snapshot, answers)
            try await worker.store.place([.test("w1"), .test("w2", user: "u2")])
            try await worker.drain()
            for user in ["u1", "u2"] { try await worker.store.markUser(user, lane: .interactive) }
            try await worker.drain()
            #expect(worker.provider.requests(to: .snapshot).count == 1)
            #expect(worker.provider.requests.count == 2)
        }
    }

    @Test func aTimelineThatFailsLeavesItsSnapshotAndIsNotAskedForAnother() async throws {
        try await withWorker { worker in
            worker.provider.respond(to: .snapshot, answers)
            worker.provider.respond { _ in .status(503) }
            let id = try await worker.store.place([.test("w1")])[0]
            try await worker.turn()
            try await worker.store.passTime(3_600)
            try await worker.turn()
            #expect(worker.provider.requests.count == 2)
            #expect(worker.provider.requests(to: .snapshot).count == 1)
            #expect(try await worker.store.detail(id).fallback?.isSnapshot == true)
        }
    }

    @Test func importsGetNone() async throws {
        try await withWorker { worker in
            worker.provider.respond(to: .snapshot, answers)
            try await worker.store.place([.test("w1")])
            try await worker.store.sql("UPDATE work SET lane = \(ReloadLane.bulk.rawValue)")
            try await worker.drain()
            #expect(worker.provider.requests.count == 1)
            #expect(worker.provider.requests(to: .snapshot).isEmpty)
        }
    }

    @Test func kindsWithoutSnapshotsAreNotAsked() async throws {
        try await withWorker { worker in
            worker.provider.respond(to: .snapshot, answers)
            var apps = TestKinds.apps(provider: worker.provider.url, timeout: .longestTimeout)
            apps[0].kinds[0].hasSnapshots = false
            _ = try await worker.store.store.apply(apps, secrets: [:]) { [] }
            let ids = try await worker.store.place([.test("w1"), .test("w2", kind: "DueDate")])
            try await worker.drain()
            #expect(worker.provider.requests(to: .snapshot).flatMap(\.ids) == [ids[1]])
            #expect(Set(worker.provider.requestedIDs) == Set(ids))
        }
    }

    // MARK: Failures

    private static let failures: [(ProviderFailure.Reason, StubProvider.Answer)] = [
        (.status, .status(404)), (.status, .status(500)), (.invalid, .body(Array("{]".utf8))),
        (.invalid, .body(Array(#"{"timelines":[]}"#.utf8))), (.invalid, .body([], contentType: "text/html")),
        (.tooLarge, .stream(bytes: 1 << 21)), (.missing, .list("snapshots", [])),
    ]

    @Test(arguments: failures)
    func whatFailsIsCountedAndCostsTheTimelineNothing(
        reason: ProviderFailure.Reason, answer: StubProvider.Answer
    ) async throws {
        let limit: (inout WorkerConfiguration) -> Void = { $0.maximumResponseBytes = 1 << 20 }
        try await withWorker(configure: limit) { worker in
            worker.provider.respond(to: .snapshot) { _ in answer }
            let id = try await worker.store.place([.test("w1")])[0]
            try await worker.drain()
            #expect(worker.failures(logged: "no snapshots") == ["\(reason)": 1])
            #expect(worker.metrics.failures.isEmpty)
            let detail = try await worker.store.detail(id)
            #expect(detail.content != nil && detail.attempts == 0 && !detail.isStale)
            #expect(try await worker.store.integer("SELECT count(*) FROM snapshot") == 0)
        }
    }

    @Test func anInvalidSnapshotFailsAlone() async throws {
        try await withWorker { worker in
            let ids = try await worker.store.place((1...5).map { .test("w\($0)", user: "u\($0)") })
            worker.provider.respond(to: .snapshot) { request in
                .list(
                    "snapshots",
                    [
                        .stubSnapshot(ids[0]), .stubError(ids[1], code: "busy"), .stubSnapshot(ids[2]),
                        .stubSnapshot(ids[2]), ["id": .string(ids[3].description), "entry": ["content": 1]],
                        .stubSnapshot(TimelineID(high: 1, low: 1)),
                    ])
            }
            worker.provider.respond { _ in .status(503) }
            try await worker.turn()
            #expect(
                worker.failures(logged: "no snapshots")
                    == ["provider": 1, "duplicate": 1, "invalid": 1, "missing": 1])
            #expect(try await worker.store.integer("SELECT count(*) FROM snapshot") == 1)
            // Only one answer fails, so the endpoint is asked for the next widget.
            try await worker.store.place([.test("w9", user: "u9")])
            try await worker.turn()
            #expect(worker.provider.requests(to: .snapshot).count == 2)
        }
    }

    @Test(arguments: [404, 405, 501])
    func aProviderWithoutTheEndpointIsAskedOnce(status: Int) async throws {
        try await withWorker { worker in
            worker.provider.respond(to: .snapshot) { _ in .status(status) }
            for user in 1...3 {
                try await worker.store.place([.test("w\(user)", user: "u\(user)")])
                try await worker.drain()
            }
            #expect(worker.provider.requests(to: .snapshot).count == 1)
            #expect(worker.metrics.completed == 3)
            // Another process has to learn about the failure itself.
            try await worker.store.place([.test("w4", user: "u4")])
            try await worker.another().drain()
            #expect(worker.provider.requests(to: .snapshot).count == 2)
        }
    }

    @Test func aSnapshotThatHangsIsGivenUpAndTheTimelineIsFetched() async throws {
        let limit: (inout WorkerConfiguration) -> Void = { $0.snapshotLimit = .milliseconds(100) }
        try await withWorker(timeout: .seconds(100), configure: limit) { worker in
            worker.provider.respond(to: .snapshot) { _ in
                try await Gate().pass()
                return .status(200)
            }
            let id = try await worker.store.place([.test("w1")])[0]
            try await worker.drain()
            #expect(worker.failures(logged: "no snapshots") == ["timeout": 1])
            #expect(try await worker.store.detail(id).content != nil)
        }
    }

    @Test func aWorkerThatHasLostItsClaimStoresNoSnapshot() async throws {
        try await withWorker { slow in
            let id = try await slow.store.place([.test("w1")])[0]
            let isFirst = Tally()
            let other = slow.another()
            slow.provider.respond(to: .snapshot) { request in
                isFirst.add()
                guard isFirst.count == 1 else { return .status(404) }
                // During the wait the lease expires, and another worker renders the timeline.
                try await slow.store.endLeases()
                try await other.drain()
                return .list("snapshots", request.ids.map { .stubSnapshot($0) })
            }
            try await slow.turn()
            #expect(slow.provider.requests(to: .snapshot).count == 2)
            #expect(try await slow.store.integer("SELECT count(*) FROM snapshot") == 0)
            #expect(try await slow.store.detail(id).content != nil)
        }
    }
}
