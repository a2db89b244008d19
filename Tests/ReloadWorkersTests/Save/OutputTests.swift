import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// What happens when Kafka does not take what is published.
@Suite(.serialized, .tags(.database), .timeLimit(.minutes(5)))
struct OutputTests {
    @Test func whatCannotBePublishedIsStoredGivenBackAndPublishedLater() async throws {
        try await withWorker {
            $0.outputBackoff = Backoff(base: .zero, cap: .zero)
        } _: { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            worker.publisher.respond { _ in .testTimeout }
            try await worker.turn()
            let detail = try await worker.store.detail(id)
            #expect(detail.storedHash != nil && detail.publishedHash == nil)
            #expect(!detail.isLeased && detail.attempts == 0 && detail.decision == .released)
            #expect(detail.isStale, "not completed")
            #expect(try #require(detail.secondsToDue) > 0.5 && (try #require(detail.secondsToDue)) < 1.1)
            #expect(worker.counts.unpublished == 1 && worker.counts.released == 1)

            worker.publisher.respond { _ in nil }
            try await worker.store.passTime(2)
            try await worker.turn()
            let mended = try await worker.store.detail(id)
            #expect(mended.publishedHash == mended.storedHash && !mended.isStale)
            #expect(mended.revision == detail.revision, "the content had been stored before")
            let message = try #require(worker.publisher.messages(of: id).last)
            #expect(message.revision > mended.revision ?? 0)
            #expect(worker.counts.stored == 1)
        }
    }

    @Test func nothingIsClaimedWhileTheOutputIsDownButProbes() async throws {
        try await withWorker(maxBatch: 10) {
            $0.outputBackoff = Backoff(base: .seconds(60), cap: .seconds(60))
        } _: {
            worker in
            try await worker.store.place((0..<50).map { .test("w\($0)", user: "u\($0)") })
            worker.publisher.respond { _ in .testTimeout }
            try await worker.turn()
            #expect(worker.counts.claimed == 50)
            try await worker.store.passTime(2)
            #expect(try await worker.turn() == 0, "the output is down")
            #expect(worker.counts.claimed == 50)
        }
        try await withWorker(maxBatch: 10) {
            $0.outputBackoff = Backoff(base: .zero, cap: .zero)
        } _: { worker in
            try await worker.store.place((0..<50).map { .test("w\($0)", user: "u\($0)") })
            worker.publisher.respond { _ in .testTimeout }
            try await worker.turn()
            try await worker.store.passTime(2)
            let probe = try await worker.claim()
            #expect(worker.counts.claimed == 60, "a probe is small")
            #expect(try await worker.claim().isEmpty, "one probe at a time")
            worker.publisher.respond { _ in nil }
            await worker.run(probe)
            try await worker.drain()
            #expect(worker.counts.published == 50)
        }
    }

    @Test func aTimelineTooLargeToPublishFailsAlone() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            worker.publisher.respond { _ in .testTooLarge }
            try await worker.turn()
            let detail = try await worker.store.detail(id)
            #expect(detail.attempts == 1 && detail.decision == .failed)
            #expect(worker.counts.failed == [.storage: 1])
            #expect(worker.context.output.allowance() == .everything, "the output works")
        }
    }

    @Test func nothingIsPublishedWhenTooLittleIsLeftOfTheLease() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            let works = try await worker.claim()
            guard case .reload(let batch)? = works.first else {
                Issue.record("expected a batch")
                return
            }
            let late = ReloadBatch(
                kind: batch.kind, app: batch.app, provider: batch.provider, timelines: batch.timelines,
                leaseEnds: worker.context.clock.elapsed + .seconds(4))
            let saved = [
                SavedTimeline(
                    fetched: FetchedTimeline(
                        timeline: batch.timelines[0], content: Array("{}".utf8), hash: ContentHash(of: []),
                        policy: .never, lastEntry: WallClock.now(), lints: [], fetchTime: .zero), isChanged: true,
                    publishedHash: nil)
            ]
            #expect(try await BatchRunner(context: worker.context).publish(saved, of: late).isEmpty)
            #expect(worker.publisher.messages.isEmpty)
            #expect(try await !worker.store.detail(id).isLeased)
        }
    }

    @Test func whatIsFatalToAProducersClientIsAFailureLikeOthers() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            worker.publisher.respond { _ in .testFatal }
            try await worker.turn()
            #expect(try await !worker.store.detail(id).isLeased, "given up, to be published later")
            guard case .nothing = worker.context.output.allowance() else {
                Issue.record("claiming goes on while the output is down")
                return
            }
        }
    }
}
