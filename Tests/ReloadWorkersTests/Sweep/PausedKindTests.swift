// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// Only paused kinds and apps wait.
@Suite(.serialized, .tags(.database), .timeLimit(.patience))
struct PausedKindTests {
    private func pause(_ worker: TestWorker, _ kind: String? = "Purchases") async throws {
        #expect(try await worker.store.store.pause(app: TestKinds.app, kind: kind)?.isChanged == true)
    }

    private func resume(_ worker: TestWorker, _ kind: String? = "Purchases") async throws {
        #expect(try await worker.store.store.resume(app: TestKinds.app, kind: kind)?.isChanged == true)
    }

    @Test func nothingOfAPausedKindIsFetchedAndNothingIsLost() async throws {
        try await withWorker { worker in
            let ids = try await worker.store.place([.test("w1"), .test("w2", kind: "DueDate")])
            try await worker.drain()
            try await pause(worker)
            try await worker.store.markUser("u1", events: 3)
            try await worker.store.bumpKind("Purchases")
            let late = try await worker.store.place([.test("w3", user: "u3")])[0]
            try await worker.sweep()
            try await worker.drain()
            #expect(worker.provider.requestedIDs.count == 3 && worker.provider.requestedIDs.last == ids[1])
            #expect(try await worker.store.detail(ids[0]).isStale)
            #expect(try await worker.store.detail(late).rendered == 0)

            try await resume(worker)
            try await worker.sweep()
            try await worker.drain()
            let detail = try await worker.store.detail(ids[0])
            #expect(!detail.isStale && detail.rendered == 4 && detail.timeline.state.generation == 1)
            #expect(try await !worker.store.detail(late).isStale)
        }
    }

    @Test func theClaimLoopDoesNotSpinOnPausedWork() async throws {
        try await withWorker { worker in
            try await worker.store.place((0..<50).map { .test("w\($0)", user: "u\($0)") })
            try await pause(worker, nil)
            var loop = ClaimLoop(context: worker.context, directory: worker.directory, pipeline: worker.pipeline)
            let poll = worker.context.configuration.pollInterval
            for _ in 0..<3 {
                let next = try await loop.turn()
                #expect(next == poll)
            }
            #expect(worker.metrics.claims.total() == 0)
            // A stale directory makes no difference.
            let stale = try await worker.store.directory()
            #expect(
                stale.claimTargets(of: Set(stale.kinds.keys)).values.allSatisfy { target in
                    stale.apps.values.contains { $0.id == target.appID && $0.name == TestKinds.otherApp }
                })
        }
    }

    @Test func aProcessThatReadItsDirectoryWhileItWasPausedGoesOnWhenItIsResumed() async throws {
        try await withWorker {
            $0.directoryAge = .seconds(3_600)
            $0.pollInterval = .zero
        } _: { worker in
            try await pause(worker)
            try await worker.directory.refresh()
            try await worker.store.place([.test("w1")])
            #expect(try await worker.turn() == 0)
            try await resume(worker)
            #expect(try await worker.turn() == 1)
            // Conversely, the database also decides when the directory still has the pause.
            try await pause(worker)
            try await worker.store.markUser("u1")
            #expect(try await worker.turn() == 0)
        }
    }

    @Test func timelinesThatNobodyShowsAreNotCollectedWhileTheAppIsPaused() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            try await worker.drain()
            try await worker.store.removeWidgets(showing: id)
            try await pause(worker, nil)
            try await worker.drain()
            #expect(try await worker.store.timeline(id) != nil)
            try await resume(worker, nil)
            try await worker.drain()
            #expect(try await worker.store.timeline(id) == nil)
            #expect(worker.publisher.messages(of: id).last?.value == nil)
        }
    }

    @Test func recordedSweepsGoOnWithTheOtherKindsAndComeBackForThePausedOne() async throws {
        try await withWorker { configuration in
            configuration.sweepChunk = 4
        } _: { worker in
            let configuration = #"{"card":"acme"}"#
            for kind in ["Purchases", "DueDate"] {
                try await worker.store.place(
                    (0..<6).map { .test("\(kind)\($0)", user: "u\($0)", kind: kind, configuration: configuration) })
            }
            try await worker.store.settle()
            let app = try #require(try await worker.store.directory().apps[TestKinds.app])
            let sweep = EveryoneReload(
                appID: app.id, kindID: nil, matching: configuration, events: 1, urgency: .free, cause: TestStore.cause,
                reason: .foreground)
            _ = try await worker.store.pool.execute(.recordSweep([sweep]))
            try await pause(worker)
            for _ in 0..<3 {
                try await worker.sweep()
                try await worker.drain()
            }
            #expect(Set(worker.provider.requests.flatMap(\.kinds)) == ["DueDate"])
            #expect(Set(worker.provider.requestedIDs).count == 6)

            try await resume(worker)
            repeat { try await worker.sweep() } while try await worker.turn() > 0
            #expect(try await worker.store.integer("SELECT count(*) FROM sweep") == 0)
            #expect(try await worker.store.stale() == 0)
            #expect(Set(worker.provider.requestedIDs).count == 12)
        }
    }
}
