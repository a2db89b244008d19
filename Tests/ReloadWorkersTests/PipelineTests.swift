// SPDX-License-Identifier: Apache-2.0

import JSON
import PostgresClient
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// The complete path from a request in the database to a message on Kafka, through the running services.
@Suite("From a request to its message", .serialized, .tags(.database, .kafka), .timeLimit(.patience))
struct PipelineTests {
    /// Waits until the last message of each timeline carries its stored content, and the audit finds nothing.
    private func expectPublished(_ ids: [TimelineID], _ worker: TestWorker, _ topic: TimelinesTopic) async throws {
        try await worker.store.settles()
        try await eventually("the last messages carry the stored content") {
            for id in ids {
                guard let detail = try await worker.store.timeline(id) else {
                    guard topic.message(of: id)?.value == nil else { return false }
                    continue
                }
                guard let message = topic.message(of: id), message.revision == detail.revision else { return false }
            }
            return true
        }
        #expect(try await worker.store.unappointed() == 0)
    }

    private func answer(_ worker: TestWorker, _ text: String) {
        worker.provider.respond { .timelines($0.ids.map { .stubTimeline($0, content: .string(text)) }) }
    }

    @Test("Lists that wait for their end take up room, so that ends that fall behind hold up claims")
    func unendedLists() async throws {
        try await withWorker { worker in
            let small = worker.another { $0.maximumTimelinesInFlight = 8 }
            for index in 0..<24 { try await worker.store.place([.test("w\(index)", user: "u\(index)")]) }
            let count = try await small.claim()
            try await small.finish(endsLists: false)
            #expect(count > 0 && small.context.leases.held == 0 && small.pipeline.closer.waitingLists == count)
            #expect(try await small.claim() == 0)
            try await small.finish()
            #expect(try await small.turn() == count)
        }
    }

    @Test("A placed widget's timeline is fetched, stored and published, and again after a push")
    func push() async throws {
        try await withWorker { worker in
            try await withTimelinesTopic { publisher, topic in
                let service = TestService(beside: worker, publisher: publisher)
                try await serving([service]) {
                    answer(worker, "first.")
                    let id = try await worker.store.place([.test("w1")])[0]
                    service.signals.signalAll()
                    try await expectPublished([id], worker, topic)
                    #expect(topic.message(of: id)?.value?.contains("first.") == true)
                    answer(worker, "second.")
                    try await worker.store.markUser("u1")
                    service.signals.signalAll()
                    try await expectPublished([id], worker, topic)
                    #expect(topic.message(of: id)?.value?.contains("second.") == true)
                    #expect(topic.messages == 2 && service.metrics.providerRequests.total() == 2)
                }
            }
        }
    }

    @Test("Two services on one database share the work and fetch each timeline once")
    func two() async throws {
        try await withWorker(maxBatch: 10) { worker in
            try await withTimelinesTopic { publisher, topic in
                let ids = try await worker.store.placeApart(60)
                let services = (0..<2).map { _ in TestService(beside: worker, publisher: publisher) }
                try await serving(services) {
                    try await expectPublished(ids, worker, topic)
                    for user in 0..<60 { try await worker.store.markUser("u\(user)") }
                    for service in services { service.signals.signalAll() }
                    try await expectPublished(ids, worker, topic)
                }
                #expect(Set(worker.provider.requestedIDs) == Set(ids))
                #expect(worker.provider.requestedIDs.count == 120, "each timeline is fetched once")
                #expect(try await worker.store.lists() == 0)
            }
        }
    }

    @Test("Another service publishes the content of one cancelled between storing and publishing")
    func cancelledBeforePublishing() async throws {
        try await withWorker { worker in
            try await withTimelinesTopic { publisher, topic in
                let stored = Gate()
                worker.publisher.respond { _ in
                    stored.open()
                    try? await Gate().pass()
                    return .testTimeout
                }
                // The first service's publisher accepts nothing.
                let first = TestService(beside: worker)
                let id = try await worker.store.place([.test("w1")])[0]
                let running = Task { try await first.service.run() }
                try await stored.pass()
                running.cancel()
                try await running.value
                #expect(try await worker.store.detail(id).content != nil && topic.messages == 0)
                #expect(try await worker.store.integer("SELECT leases FROM work WHERE lease IS NULL") == 1)
                let second = TestService(beside: worker, publisher: publisher)
                try await serving([second]) {
                    try await expectPublished([id], worker, topic)
                }
                #expect(worker.provider.requests.count == 1, "stored content is not fetched again")
                #expect(try await worker.store.lists() == 0)
            }
        }
    }

    @Test("A reload of everyone is swept, fetched and published")
    func everyone() async throws {
        try await withWorker(maxBatch: 50) {
            $0.sweepChunk = 40
            $0.bulkHighWater = 400
        } _: { worker in
            try await withTimelinesTopic { publisher, topic in
                let ids = try await worker.store.place((0..<250).map { .test("w\($0)", user: "u\($0)") })
                let services = (0..<2).map { _ in TestService(beside: worker, publisher: publisher) }
                try await serving(services) {
                    try await expectPublished(ids, worker, topic)
                    answer(worker, "everyone.")
                    try await worker.store.bumpKind("Purchases")
                    for service in services { service.signals.signalAll() }
                    try await expectPublished(ids, worker, topic)
                }
                for id in ids { #expect(topic.message(of: id)?.value?.contains("everyone.") == true) }
                #expect(services.reduce(0) { $0 + $1.metrics.swept.total() } == 250)
                #expect(try await worker.store.integer("SELECT count(*) FROM sweep") == 0)
            }
        }
    }

    @Test("A removed widget's timeline gets a tombstone, and content after a new placement")
    func removed() async throws {
        try await withWorker { worker in
            try await withTimelinesTopic { publisher, topic in
                let service = TestService(beside: worker, publisher: publisher)
                let at = Timestamp(microseconds: 1_700_000_000_000_000)
                try await serving([service]) {
                    try await worker.store.apply([.placed(.test("w1"))], at: at)
                    service.signals.signalAll()
                    let id = try #require(try await worker.store.timelineID(of: "w1"))
                    try await expectPublished([id], worker, topic)
                    try await worker.store.apply([.removed(app: TestKinds.app, widget: "w1")], at: at + .seconds(1))
                    service.signals.signalAll()
                    try await eventually("the timeline is collected") { try await worker.store.timeline(id) == nil }
                    try await expectPublished([id], worker, topic)
                    try await worker.store.apply([.placed(.test("w1"))], at: at + .seconds(2))
                    service.signals.signalAll()
                    try await eventually("the timeline is published again") { topic.message(of: id)?.value != nil }
                    try await expectPublished([id], worker, topic)
                }
            }
        }
    }

    @Test("Spacing and budget defer a push; a failed fetch is retried after its back-off")
    func deferral() async throws {
        try await withWorker { worker in
            try await withTimelinesTopic { publisher, topic in
                let service = TestService(beside: worker, publisher: publisher)
                try await serving([service]) {
                    let id = try await worker.store.place([.test("w1")])[0]
                    try await expectPublished([id], worker, topic)
                    try await worker.store.markUser("u1", isFree: false)
                    service.signals.signalAll()
                    #expect(try #require(await worker.store.detail(id).secondsToDue) > 100)
                    #expect(try await worker.store.unappointed() == 0)
                    // The service does not retry before the test passes the time.
                    worker.provider.respond { request in
                        .timelines(request.ids.map { .stubError($0, code: "busy", retryAfter: 3_600) })
                    }
                    try await worker.store.passTime(400)
                    service.signals.signalAll()
                    try await worker.provider.received.reaches(2)
                    try await eventually("the failure is recorded") { try await worker.store.detail(id).attempts == 1 }
                    #expect(try await worker.store.detail(id).isStale)
                    answer(worker, "at last.")
                    try await worker.store.passTime(4_000)
                    service.signals.signalAll()
                    try await expectPublished([id], worker, topic)
                    #expect(topic.message(of: id)?.value?.contains("at last.") == true)
                    #expect(worker.provider.requests.count == 3)
                }
            }
        }
    }

    @Test("Timelines that ingest hands over in the same process are published without a claim")
    func handedOver() async throws {
        try await withWorker { worker in
            try await withTimelinesTopic { publisher, topic in
                let service = TestService(beside: worker, publisher: publisher) { $0.pollInterval = .seconds(3_600) }
                let id = try await worker.store.place([.test("w1")])[0]
                let known = try await worker.store.directory()
                let kindID = try await worker.store.kindID("Purchases")
                try await serving([service]) {
                    try await expectPublished([id], worker, topic)
                    answer(worker, "handed over.")
                    let claims = service.metrics.claims.total()
                    let grant = try #require(service.handOver.reserve([kindID]))
                    #expect(grant.shares.map(\.kindIDs) == [[kindID]])
                    var input = MarkInput()
                    input.marks = [
                        TimelineMark(
                            audience: .user, appID: try #require(known.apps[TestKinds.app]).id, audienceID: "u1",
                            kindID: nil, matching: nil, events: 1, urgency: .free, lane: .push, cause: TestStore.cause,
                            reason: .foreground)
                    ]
                    let rows = try await worker.store.pool.query(
                        .markTimelines(input, limit: 1_000, handOver: grant))
                    service.handOver.accept(grant, Claim(handedOver: rows.compactMap(\.timeline)))
                    try await expectPublished([id], worker, topic)
                    #expect(topic.message(of: id)?.value?.contains("handed over.") == true)
                    #expect(service.metrics.claims.total() == claims + 1)
                }
                #expect(service.handOver.reserve([kindID]) == nil, "a stopped service grants nothing")
                #expect(try await worker.store.lists() == 0)
            }
        }
    }
}
