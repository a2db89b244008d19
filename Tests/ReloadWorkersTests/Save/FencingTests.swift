import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// A worker whose lease has ended changes nothing any more, and what it published is repaired.
@Suite(.serialized, .tags(.database), .timeLimit(.minutes(5)))
struct FencingTests {
    /// Answers the first request only when the gate is open, with "old"; the others at once, with "new".
    private func hold(_ provider: StubProvider, _ gate: Gate) {
        let first = Tally()
        provider.respond { request in
            first.add()
            guard first.count == 1 else {
                return .timelines(request.ids.map { .stubTimeline($0, content: "new") })
            }
            try await gate.pass()
            return .timelines(request.ids.map { .stubTimeline($0, content: "old") })
        }
    }

    @Test func anExpiredLeaseIsClaimedAgainAndTheFirstResultNeverLands() async throws {
        try await withWorker { slow in
            let id = try await slow.store.place([.test("w1")])[0]
            let gate = Gate()
            hold(slow.provider, gate)
            async let late: Int = slow.turn()
            try await slow.provider.received.reaches(1)

            let quick = slow.another()
            #expect(try await quick.turn() == 0, "the lease holds")
            try await slow.store.passTime(31)
            #expect(try await quick.turn() == 1)
            gate.open()
            _ = try await late

            let detail = try await slow.store.detail(id)
            #expect(detail.content?.contains("new") == true)
            #expect(slow.publisher.messages(of: id).map(\.revision) == [detail.revision])
            #expect(slow.counts.fenced == 1 && slow.counts.stored == 0 && slow.counts.completed == 0)
            #expect(quick.counts.stored == 1)
            #expect(!detail.isLeased && detail.decision == .reloaded)
        }
    }

    @Test func aFailureThatComesLateDoesNotEndTheNextClaim() async throws {
        try await withWorker { slow in
            let id = try await slow.store.place([.test("w1")])[0]
            let first = try await slow.claim()
            try await slow.store.passTime(31)
            let quick = slow.another()
            let second = try await quick.claim()
            slow.provider.respond { _ in .status(500) }
            await slow.run(first)
            #expect(try await slow.store.detail(id).isLeased)
            slow.provider.respond { .timelines($0.ids.map { .stubTimeline($0) }) }
            await quick.run(second)
            #expect(try await slow.store.detail(id).decision == .reloaded)
        }
    }

    @Test func publishedUnderALostClaimIsPublishedAnewWithAHigherRevision() async throws {
        try await withWorker { slow in
            let id = try await slow.store.place([.test("w1")])[0]
            let quick = slow.another()
            let first = Tally()
            slow.publisher.respond { _ in
                first.add()
                guard first.count == 1 else { return nil }
                // While the first message is on its way, its lease ends and another worker does all of it.
                try? await slow.store.passTime(31)
                _ = try? await quick.turn()
                return nil
            }
            try await slow.turn()
            #expect(slow.counts.fenced == 1)
            let between = try await slow.store.detail(id)
            #expect(between.publishedHash == nil, "what was published last may not be what is stored")
            #expect(try #require(between.secondsToDue) <= 0)

            try await slow.drain()
            let detail = try await slow.store.detail(id)
            let last = try #require(slow.publisher.messages(of: id).last)
            #expect(last.revision == slow.publisher.messages(of: id).map(\.revision).max())
            #expect(slow.publisher.messages(of: id).count == 3)
            #expect(detail.publishedHash == detail.storedHash)
        }
    }

    @Test func aLateMessageFencesWhoeverHasPublishedBeforeIt() async throws {
        try await withWorker { slow in
            let id = try await slow.store.place([.test("w1")])[0]
            let quick = slow.another()
            let works = try await slow.claim()
            try await slow.store.passTime(31)
            let published = Gate()
            let settled = Gate()
            let order = Tally()
            slow.publisher.respond { _ in
                order.add()
                guard order.count == 1 else { return nil }
                // The quick worker's message is acknowledged, but it has not completed yet.
                published.open()
                try? await settled.pass()
                return nil
            }
            async let completing: Int = quick.turn()
            try await published.pass()
            _ = try await slow.store.pool.query(RepublishTimelines([id]))
            settled.open()
            _ = try await completing
            #expect(quick.counts.fenced == 1 && quick.counts.completed == 0)
            await slow.run(works)
            try await quick.drain()
            let detail = try await slow.store.detail(id)
            #expect(detail.publishedHash == detail.storedHash)
            #expect(try #require(slow.publisher.messages(of: id).last).revision > detail.revision ?? 0)
        }
    }

    @Test func aTimelineThatWasCollectedMeanwhileGetsItsTombstoneLast() async throws {
        try await withWorker { slow in
            let id = try await slow.store.place([.test("w1")])[0]
            let first = Tally()
            slow.publisher.respond { _ in
                first.add()
                guard first.count == 1 else { return nil }
                try? await slow.store.removeWidgets(showing: id)
                try? await slow.store.passTime(31)
                try? await slow.another().drain()
                return nil
            }
            try await slow.turn()
            #expect(try await slow.store.timeline(id) == nil)
            #expect(try #require(slow.publisher.messages(of: id).last).value == nil)
        }
    }
}
