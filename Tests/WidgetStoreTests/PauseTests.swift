// SPDX-License-Identifier: Apache-2.0

import Logging
import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@Suite("Pausing apps and kinds", .timeLimit(.patience))
struct PauseTests {
    @Test("Pausing is idempotent and keeps its first time, operator and reason")
    func repeatable() async throws {
        try await withStore { store in
            let first = try #require(try await store.store.pause(app: TestKinds.app, kind: "Purchases"))
            #expect(first.isChanged && first.pause?.note == .test && !first.isAppPaused)
            let again = try #require(
                try await store.store.pause(app: TestKinds.app, kind: "Purchases", OperatorNote(by: "another")))
            #expect(!again.isChanged && again.pause == first.pause)
        }
    }

    @Test("A paused app pauses all of its kinds and none of another app")
    func wholeApp() async throws {
        try await withStore { store in
            _ = try await store.store.pause(app: TestKinds.app, kind: "Purchases")
            let app = try #require(try await store.store.pause(app: TestKinds.app))
            #expect(app.isChanged && app.pause != nil)
            let kinds = try await store.pool.query(.listKinds(app: TestKinds.app)).readable
            #expect(kinds.allSatisfy { $0.isPaused && $0.appPause == app.pause })
            #expect(kinds.filter { $0.pause != nil }.map(\.definition.name) == ["Purchases"])
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
            #expect(resumed.isChanged && resumed.pause == nil && resumed.isAppPaused)
            #expect(try await store.store.resume(app: TestKinds.app)?.isChanged == true)
            #expect(try await store.store.resume(app: TestKinds.app)?.isChanged == false)
            #expect(try await store.pool.query(.listKinds()).readable.allSatisfy { !$0.isPaused })
        }
    }

    @Test("Actions are recorded latest first, those without an effect are not, and old ones go but for pauses in force")
    func recorded() async throws {
        try await withStore { store in
            func actions(_ kind: String? = nil) async throws -> [RecordedAction] {
                try await store.pool.query(.listActions(app: TestKinds.app, kind: kind, limit: 1_000))
            }
            for _ in 1...2 { _ = try await store.store.pause(app: TestKinds.app) }
            _ = try await store.store.pause(app: TestKinds.app, kind: "DueDate")
            _ = try await store.store.cancelWork(app: TestKinds.app, kind: "Purchases")
            _ = try await store.store.cancelWork(app: TestKinds.otherApp, kind: "Weather")
            let first = try await actions()
            #expect(first.map(\.name) == [.cancel, .pause, .pause])
            #expect(first.map(\.kind) == ["Purchases", "DueDate", nil])
            #expect(first.first?.affected == 0 && first.allSatisfy { $0.action.note == .test })
            #expect(try await actions("Purchases").map(\.kind) == ["Purchases", nil])
            for _ in 1...RecordedAction.kept {
                _ = try await store.pool.query(.recordAction(.reload, app: TestKinds.app, kind: "Purchases", .test))
            }
            let kept = try await actions()
            #expect(kept.count == RecordedAction.kept + 2 && kept.suffix(2).allSatisfy { $0.name == .pause })
            #expect(try await store.kind("DueDate").pause?.note == .test)
            _ = try await store.store.resume(app: TestKinds.app)
            _ = try await store.store.cancelWork(app: TestKinds.app, kind: "Purchases")
            #expect(try await actions().suffix(2).map(\.kind) == ["Purchases", "DueDate"])
        }
    }

    @Test("A pause of an earlier version has no operator, also after one of this version")
    func earlierVersion() async throws {
        try await withStore { store in
            _ = try await store.store.pause(app: TestKinds.app)
            try await store.sql("UPDATE app SET paused_at = now() + interval '1 second'")
            let outcome = try #require(try await store.store.pause(app: TestKinds.app))
            #expect(!outcome.isChanged && outcome.pause != nil && outcome.pause?.note == nil)
        }
    }

    @Test("The work that actions concern is counted by kind, and a cancellation leaves none of everyone's")
    func work() async throws {
        try await withStore { store in
            try await store.place([.test("w1"), .test("w2", user: "u2"), .test("w3", kind: "DueDate")])
            func work(_ kind: String?) async throws -> OperatedWork {
                try #require(try await store.pool.query(.operatedWork(app: TestKinds.app, kind: kind)).first)
            }
            let (some, all) = (try await work("Purchases"), try await work(nil))
            #expect(some.due == 2 && all.due == 3 && all.listedShare == nil)
            try await store.settle()
            let kind = try await store.kind()
            _ = try await store.pool.query(.bumpKinds([EveryoneReload(appID: kind.appID, kindID: kind.id)]))
            let bumped = try await work("Purchases")
            #expect(bumped.sweeps == 1 && bumped.listedShare == 0)
            for sweep in try await store.pool.query(.listSweeps(limit: 10, maximumLists: 100)) {
                _ = try await store.pool.query(.walkKind(sweep.id, limit: 1, maximumLists: 10))
            }
            let walked = try await work("Purchases")
            #expect(walked.everyone == 1 && walked.sweeps == 1)
            #expect(try #require(walked.listedShare) > 0 && walked.listedShare ?? 1 < 1)
            #expect(try await store.store.cancelWork(app: TestKinds.app, kind: "Purchases")?.timelines == 1)
            let left = try await work("Purchases")
            #expect(left.everyone == 0 && left.sweeps == 0)
            let limited = Statements.countTimelines(app: TestKinds.app, kind: nil, limit: 2)
            #expect(try await store.pool.query(limited).first == 2)
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
