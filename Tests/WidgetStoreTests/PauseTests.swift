// SPDX-License-Identifier: Apache-2.0

import Logging
import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@Suite("Pausing apps and kinds", .timeLimit(.patience))
struct PauseTests {
    @Test("Pausing is idempotent and keeps its first time")
    func repeatable() async throws {
        try await withStore { store in
            let first = try #require(try await store.store.pause(app: TestKinds.app, kind: "Purchases"))
            #expect(first.isChanged && first.pausedAt != nil && !first.isAppPaused)
            let again = try #require(try await store.store.pause(app: TestKinds.app, kind: "Purchases"))
            #expect(!again.isChanged && again.pausedAt == first.pausedAt)
        }
    }

    @Test("A paused app pauses all of its kinds and none of another app")
    func wholeApp() async throws {
        try await withStore { store in
            _ = try await store.store.pause(app: TestKinds.app, kind: "Purchases")
            let app = try #require(try await store.store.pause(app: TestKinds.app))
            #expect(app.isChanged && app.pausedAt != nil)
            let kinds = try await store.pool.query(.listKinds(app: TestKinds.app)).readable
            #expect(kinds.allSatisfy { $0.isPaused && $0.appPausedAt == app.pausedAt })
            #expect(kinds.filter { $0.pausedAt != nil }.map(\.definition.name) == ["Purchases"])
            #expect(
                try await store.pool.query(.listKinds(app: TestKinds.otherApp)).readable.allSatisfy { !$0.isPaused })
        }
    }

    @Test("A resumed kind stays paused with its app, and resuming is idempotent")
    func resumed() async throws {
        try await withStore { store in
            _ = try await store.store.pause(app: TestKinds.app, kind: "Purchases")
            _ = try await store.store.pause(app: TestKinds.app)
            let resumed = try #require(try await store.store.resume(app: TestKinds.app, kind: "Purchases"))
            #expect(resumed.isChanged && resumed.pausedAt == nil && resumed.isAppPaused)
            #expect(try await store.store.resume(app: TestKinds.app)?.isChanged == true)
            #expect(try await store.store.resume(app: TestKinds.app)?.isChanged == false)
            #expect(try await store.pool.query(.listKinds()).readable.allSatisfy { !$0.isPaused })
        }
    }

    @Test("Pausing or resuming a missing app or kind is reported")
    func missing() async throws {
        try await withStore { store in
            let app = try await store.store.pause(app: "com.example.nobody")
            #expect(app == nil)
            let kind = try await store.store.pause(app: TestKinds.app, kind: "Nothing")
            #expect(kind == nil)
            let resumed = try await store.store.resume(app: TestKinds.otherApp, kind: "Weather")
            #expect(resumed == nil)
        }
    }

    @Test("Resuming wakes the workers of other processes, even if it changes nothing")
    func wakes() async throws {
        try await withStore { store in
            let (stream, heard) = AsyncStream.makeStream(of: String.self)
            let configuration = store.pool.configuration
            let running = Task {
                try await configuration.listen(
                    to: [DueNotifier.channel], logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
                ) { heard.yield($0?.channel ?? "connected") }
            }
            var notifications = stream.makeAsyncIterator()
            #expect(await notifications.next() == "connected")
            for _ in 1...2 {
                _ = try await store.store.resume(app: TestKinds.app)
                #expect(await notifications.next() == DueNotifier.channel)
            }
            running.cancel()
            try await running.value
        }
    }

    @Test("Bumps, placements and marks are kept while the kind is paused")
    func nothingLost() async throws {
        try await withStore { store in
            try await store.place([.test("w1"), .test("w2", kind: "DueDate")])
            try await store.settle()
            _ = try await store.store.pause(app: TestKinds.app, kind: "Purchases")
            let kind = try await store.kind()
            _ = try await store.pool.query(.bumpKinds([EveryoneReload(appID: kind.appID, kindID: nil)]))
            func sweep() async throws {
                for sweep in try await store.pool.query(.listSweeps(limit: 10, maximumLists: 100)) {
                    _ = try await store.pool.query(.walkKind(sweep.id, limit: 10, maximumLists: 10))
                }
            }
            try await sweep()
            try await store.place([.test("w3", user: "u3")])
            try await store.apply([try await store.mark(.user, "u1")])
            let dueDate = try await store.kind("DueDate").id
            for lane in ReloadLane.allCases {
                #expect(try await store.claim(lane).allSatisfy { $0.kindID == dueDate })
            }
            let depths = Statements.queueDepths(limit: 100, overdueAfter: .zero)
            #expect(try await store.pool.query(depths).allSatisfy { $0.queue.kindID == dueDate })
            _ = try await store.store.resume(app: TestKinds.app, kind: "Purchases")
            try await sweep()
            var claimed = 0
            for lane in ReloadLane.allCases { claimed += try await store.claim(lane).flatMap(\.timelines).count }
            #expect(claimed == 3, "w1 by its mark and by the sweep, w3 by its placement")
        }
    }
}
