// SPDX-License-Identifier: Apache-2.0

import JSON
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// Widgets from event to content: store, ingest and workers together.
@Suite(.serialized, .tags(.database), .timeLimit(.patience))
struct LifecycleTests {
    private let at = Timestamp(microseconds: 1_700_000_000_000_000)

    /// Creates a worker with a provider of snapshots, and of timelines that name their requests.
    private func withWidgets(_ body: (TestWorker) async throws -> Void) async throws {
        try await withWorker { worker in
            worker.provider.respond(to: .snapshot) { .list("snapshots", $0.ids.map { .stubSnapshot($0) }) }
            worker.provider.respond { request in
                .timelines(
                    zip(request.ids, request.items).map { id, item in
                        .stubTimeline(id, content: ["of": item["configuration"] ?? .null])
                    })
            }
            try await body(worker)
        }
    }

    private func configuration(_ card: String) throws -> WidgetConfiguration {
        try WidgetConfiguration(["card": .string(card)])
    }

    @Test func aPlacedWidgetShowsThePlaceholderThenTheSnapshotThenTheTimeline() async throws {
        try await withWidgets { worker in
            try await worker.store.apply([.placed(.test("w1"))], at: at)
            #expect(try await worker.store.fallback(of: "w1") == .placeholder(content: "{}", fetchedAt: nil))
            let gate = Gate()
            worker.provider.respond { request in
                try await gate.pass()
                return .timelines(request.ids.map { .stubTimeline($0, content: "whole") })
            }
            _ = try await worker.claim()
            async let running: Void = worker.finish()
            try await worker.provider.received.reaches(1)
            #expect(try await worker.store.fallback(of: "w1")?.isSnapshot == true)
            gate.open()
            try await running
            #expect(try await worker.store.fallback(of: "w1") == nil)
            let id = try #require(try await worker.store.timelineID(of: "w1"))
            #expect(try await worker.store.detail(id).text.contains("whole") == true)
            #expect(worker.publisher.messages(of: id).count == 1, "a snapshot is not published")
        }
    }

    @Test func aWidgetPlacedOnATimelineThatIsThereNeedsNeither() async throws {
        try await withWidgets { worker in
            let city = #"{"city":"Oslo"}"#
            try await worker.store.apply(
                [.placed(.test("w1", kind: "Weather", configuration: city)), .placed(.test("w2"))], at: at)
            try await worker.drain()
            #expect(worker.provider.requestedIDs.count == 2)
            let snapshots = worker.provider.requests(to: .snapshot).count
            // Another person's widget of the city, and the same person's second device.
            try await worker.store.apply(
                [
                    .placed(.test("w3", user: "u2", device: "d2", kind: "Weather", configuration: city)),
                    .placed(.test("w4", device: "d3")),
                ], at: at + .seconds(1))
            #expect(try await worker.store.fallback(of: "w3") == nil)
            #expect(try await worker.store.fallback(of: "w4") == nil)
            try await worker.drain()
            #expect(worker.provider.requestedIDs.count == 2)
            #expect(worker.provider.requests(to: .snapshot).count == snapshots)
            #expect(try await worker.store.integer("SELECT count(*) FROM timeline") == 2)
        }
    }

    @Test func aConfiguredWidgetHasANewTimelineAndTheOldOneIsBuried() async throws {
        try await withWidgets { worker in
            try await worker.store.apply([.placed(.test("w1", configuration: #"{"card":"acme"}"#))], at: at)
            try await worker.drain()
            let old = try #require(try await worker.store.timelineID(of: "w1"))
            let globex = try configuration("globex")
            try await worker.store.apply(
                [.configured(app: TestKinds.app, widget: "w1", configuration: globex)], at: at + .seconds(1))
            let new = try #require(try await worker.store.timelineID(of: "w1"))
            #expect(new != old)
            try await worker.drain()
            #expect(try await worker.store.detail(new).text.contains("globex"))
            #expect(Set(worker.provider.requests(to: .snapshot).flatMap(\.ids)) == [old, new])
            #expect(try await worker.store.timeline(old) == nil)
            #expect(worker.publisher.messages(of: old).map { $0.value == nil } == [false, true])
            #expect(worker.publisher.messages(of: new).map { $0.value == nil } == [false])
            // An older event arrives late.
            let acme = try configuration("acme")
            try await worker.store.apply(
                [.configured(app: TestKinds.app, widget: "w1", configuration: acme)], at: at)
            #expect(try await worker.store.timelineID(of: "w1") == new)
        }
    }

    @Test func aTimelineThatAnotherWidgetStillShowsStays() async throws {
        try await withWidgets { worker in
            try await worker.store.apply(
                [.placed(.test("w1")), .placed(.test("w2", device: "d2"))], at: at)
            try await worker.drain()
            let shared = try #require(try await worker.store.timelineID(of: "w1"))
            #expect(try await worker.store.timelineID(of: "w2") == shared)
            let globex = try configuration("globex")
            try await worker.store.apply(
                [.configured(app: TestKinds.app, widget: "w1", configuration: globex)], at: at + .seconds(1))
            try await worker.drain()
            #expect(try await worker.store.detail(shared).timeline.state.isOrphaned == false)
            try await worker.store.apply([.removed(app: TestKinds.app, widget: "w2")], at: at + .seconds(2))
            try await worker.drain()
            #expect(try await worker.store.timeline(shared) == nil)
            #expect(worker.publisher.messages(of: shared).map { $0.value == nil } == [false, true])
        }
    }

    @Test func aWidgetRemovedBeforeItsTimelineLeavesNothing() async throws {
        try await withWidgets { worker in
            worker.provider.respond { _ in .status(503) }
            try await worker.store.apply([.placed(.test("w1"))], at: at)
            try await worker.turn()
            let id = try #require(try await worker.store.timelineID(of: "w1"))
            #expect(try await worker.store.fallback(of: "w1")?.isSnapshot == true)
            try await worker.store.apply([.removed(app: TestKinds.app, widget: "w1")], at: at + .seconds(1))
            try await worker.drain()
            #expect(try await worker.store.timeline(id) == nil)
            #expect(try await worker.store.integer("SELECT count(*) FROM snapshot") == 0)
            #expect(try #require(worker.publisher.messages(of: id).last).value == nil)
            #expect(try await worker.store.widget("w1")?.timelineID == nil)
        }
    }

    @Test(arguments: ["w1", "w2"])
    func aDeviceThatPlacesAgainBeforeTheBurialKeepsTheTimeline(again: String) async throws {
        try await withWidgets { worker in
            try await worker.store.apply([.placed(.test("w1"))], at: at)
            try await worker.drain()
            let id = try #require(try await worker.store.timelineID(of: "w1"))
            try await worker.store.apply([.removed(app: TestKinds.app, widget: "w1")], at: at + .seconds(1))
            try await worker.store.apply([.placed(.test(again))], at: at + .seconds(2))
            #expect(try await worker.store.timelineID(of: again) == id)
            #expect(try await worker.store.fallback(of: again) == nil, "its last content is available")
            try await worker.drain()
            let detail = try await worker.store.detail(id)
            #expect(!detail.timeline.state.isOrphaned && !detail.isStale)
            #expect(worker.provider.requests(to: .snapshot).count == 1)
            #expect(try #require(worker.publisher.messages(of: id).last).value != nil)
        }
    }

    @Test(arguments: ["w1", "w2"])
    func aDeviceThatPlacesAgainAfterTheBurialBeginsAnew(again: String) async throws {
        try await withWidgets { worker in
            try await worker.store.apply([.placed(.test("w1"))], at: at)
            try await worker.drain()
            let id = try #require(try await worker.store.timelineID(of: "w1"))
            try await worker.store.apply([.removed(app: TestKinds.app, widget: "w1")], at: at + .seconds(1))
            try await worker.drain()
            #expect(try await worker.store.timeline(id) == nil)
            // An older placement does not restore the widget; a newer one does.
            try await worker.store.apply([.placed(.test("w1"))], at: at)
            #expect(try await worker.store.timelineID(of: "w1") == nil)
            try await worker.store.apply([.placed(.test(again))], at: at + .seconds(2))
            #expect(try await worker.store.timelineID(of: again) == id, "equal content has an equal ID")
            try await worker.drain()
            #expect(worker.provider.requests(to: .snapshot).count == 2)
            #expect(worker.publisher.messages(of: id).map { $0.value == nil } == [false, true, false])
            let revisions = worker.publisher.messages(of: id).map(\.revision)
            #expect(revisions == revisions.sorted())
        }
    }

    @Test func widgetsPlacedAtOnceOnOneIdentityAreOneSnapshotAndOneFetch() async throws {
        try await withWidgets { worker in
            let store = worker.store
            try await withThrowingTaskGroup(of: Void.self) { group in
                for index in 0..<8 {
                    group.addTask {
                        try await store.applyRetrying(
                            [.placed(.test("w\(index)", user: "u\(index)", device: "d\(index)", kind: "Weather"))],
                            at: at)
                    }
                }
                try await group.waitForAll()
            }
            #expect(try await store.integer("SELECT count(*) FROM timeline") == 1)
            #expect(try await store.integer("SELECT count(*) FROM widget WHERE timeline_id IS NOT NULL") == 8)
            let workers = (0..<4).map { _ in worker.another() }
            try await withThrowingTaskGroup(of: Void.self) { group in
                for worker in workers { group.addTask { try await worker.drain() } }
                try await group.waitForAll()
            }
            #expect(worker.provider.requests(to: .snapshot).flatMap(\.ids).count == 1)
            #expect(worker.provider.requestedIDs.count == 1)
        }
    }
}
