// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing
import WidgetModel

@testable import WidgetAPI

@Suite("Waiting for changes", .tags(.api), .timeLimit(.patience))
struct TimelineChangesTests {
    private static let holder = TimelineChanges.Holder(app: "a")

    private static let id = TimelineID(high: 1, low: 1)
    private static let other = TimelineID(high: 1, low: 2)

    @Test("A hint wakes its waiter, also after earlier timeouts, and hints before the next wait are merged")
    func hints() async throws {
        let changes = TimelineChanges()
        let watch = try changes.watch(.poll, [.timeline(Self.id)], for: Self.holder)
        for _ in 0..<3 { #expect(await watch.wait(atMost: .milliseconds(1)) == .timedOut) }
        changes.notify([.timeline(Self.other)])
        #expect(await watch.wait(atMost: .milliseconds(1)) == .timedOut)

        for _ in 0..<3 { changes.notify([.timeline(Self.id)]) }
        #expect(await watch.wait(atMost: .seconds(60)) == .changed)
        #expect(await watch.wait(atMost: .milliseconds(1)) == .timedOut)
        async let waited = watch.wait(atMost: .seconds(60))
        changes.notify([.timeline(Self.id)])
        #expect(await waited == .changed)
    }

    @Test("After its interests have changed a waiter is woken by the new ones only, and by a hint to all")
    func interests() async throws {
        let changes = TimelineChanges()
        let watch = try changes.watch(.poll, [.timeline(Self.id)], for: Self.holder)
        watch.set([.timeline(Self.other), .user(app: "a", user: "u")])
        #expect(changes.wantsUsers)
        changes.notify([.timeline(Self.id)])
        #expect(await watch.wait(atMost: .milliseconds(1)) == .timedOut)
        changes.notify([.user(app: "a", user: "u")])
        #expect(await watch.wait(atMost: .seconds(60)) == .changed)
        changes.notifyAll()
        #expect(await watch.wait(atMost: .seconds(60)) == .changed)
    }

    @Test("Many waiters of one timeline are woken gradually and without omissions, few of them at once")
    func crowd() async throws {
        #expect(TimelineChanges.window(for: 1) == .zero && TimelineChanges.window(for: 64) == .zero)
        #expect(TimelineChanges.window(for: 500) == .milliseconds(500))
        #expect(TimelineChanges.window(for: 2_000) == .seconds(2))
        #expect(TimelineChanges.window(for: 1_000_000) == .seconds(5))
        let changes = TimelineChanges()
        let watches = try (0..<200).map { number in
            try changes.watch(.poll, [.timeline(Self.id)], for: TimelineChanges.Holder(app: "a\(number)"))
        }
        let bystander = try changes.watch(.poll, [.timeline(Self.other)], for: Self.holder)
        let outcomes = await withTaskGroup(of: TimelineChanges.Watch.Outcome.self) { group in
            for watch in watches {
                // Shorter than the period over which wake-ups are spread: a hint in between is kept.
                group.addTask {
                    var outcome = TimelineChanges.Watch.Outcome.timedOut
                    while outcome == .timedOut { outcome = await watch.wait(atMost: .milliseconds(20)) }
                    return outcome
                }
            }
            changes.notify([.timeline(Self.id)])
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(outcomes == Array(repeating: .changed, count: 200))
        #expect(await bystander.wait(atMost: .milliseconds(1)) == .timedOut)
    }

    @Test("The number of polls and streams is bounded, and ended ones make room")
    func bounded() throws {
        let changes = TimelineChanges(limits: TimelineChanges.Limits(polls: 4, streams: 2))
        func polls(_ app: String) -> TimelineChanges.Watch? {
            try? changes.watch(.poll, [.timeline(Self.id)], for: TimelineChanges.Holder(app: app))
        }
        // An app may have half of them.
        var taken = [polls("a"), polls("a"), polls("b"), polls("b")]
        #expect(taken.allSatisfy { $0 != nil })
        #expect(polls("a") == nil)
        #expect(throws: TimelineChanges.Refusal.full) {
            try changes.watch(.poll, [], for: TimelineChanges.Holder(app: "c"))
        }
        let stream = try changes.watch(.stream, [], for: Self.holder)
        #expect(throws: TimelineChanges.Refusal.quota) { try changes.watch(.stream, [], for: Self.holder) }
        taken[2] = nil
        #expect(changes.counts.polls == 3)
        #expect(polls("a") == nil)
        #expect(polls("c") != nil)
        withExtendedLifetime((taken, stream)) {}
    }

    @Test("A user may have only a few polls and streams")
    func person() {
        let changes = TimelineChanges()
        func stream(_ user: String?) -> TimelineChanges.Watch? {
            try? changes.watch(.stream, [], for: TimelineChanges.Holder(app: "a", user: user))
        }
        let taken = (0..<TimelineChanges.placesOfUser).map { _ in stream("u") }
        #expect(taken.allSatisfy { $0 != nil })
        #expect(stream("u") == nil)
        #expect(stream("v") != nil && stream(nil) != nil)
        withExtendedLifetime(taken) {}
    }

    @Test("Shutdown and cancellation end a wait at once")
    func ends() async throws {
        let changes = TimelineChanges()
        let watch = try changes.watch(.poll, [.timeline(Self.id)], for: Self.holder)
        let task = Task { await watch.wait(atMost: .seconds(600)) }
        task.cancel()
        #expect(await task.value == .ended)
        async let waited = watch.wait(atMost: .seconds(600))
        changes.close()
        #expect(await waited == .ended)
        #expect(throws: TimelineChanges.Refusal.full) { try changes.watch(.poll, [], for: Self.holder) }
    }

    @Test("A timeline's owner is read from its message")
    func owner() {
        func owner(_ text: String) -> String? {
            let bytes = Array(("xx" + text).utf8)
            return TimelineTail.owner(in: bytes, 2..<bytes.count).map { "\($0.app) \($0.user)" }
        }
        #expect(owner(#"{"entries":[{"app":"x"}],"app":"a","user":"u"}"#) == "a u")
        #expect(owner(#"{"app":"a"}"#) == nil)
        #expect(owner("nothing") == nil)
    }
}
