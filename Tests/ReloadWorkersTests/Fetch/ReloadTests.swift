// SPDX-License-Identifier: Apache-2.0

import JSON
import Synchronization
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

extension Tag {
    /// Each test has its own database. The suites are serialized, so that a test's time limit does not include the wait
    /// for other tests' databases.
    @Tag static var database: Self
}

/// From a due timeline to a stored and published one.
@Suite(.serialized, .tags(.database), .timeLimit(.patience))
struct ReloadTests {
    /// Two timelines that were fetched after their placement, each with its own content.
    private func withTwoFetched(
        onStored: (@Sendable (TimelineID, EventPosition?) -> Void)? = nil,
        _ body: (_ worker: TestWorker, _ ids: [TimelineID]) async throws -> Void
    ) async throws {
        try await withWorker(onStored: onStored) { worker in
            let ids = try await worker.store.place([.test("w1"), .test("w2", user: "u2")])
            worker.provider.respond { request in
                .timelines(request.ids.map { .stubTimeline($0, content: ["for": .string($0.description)]) })
            }
            try await worker.drain()
            try await body(worker, ids)
        }
    }

    @Test func placedTimelinesAreFetchedInOneRequestAndStored() async throws {
        try await withTwoFetched { worker, ids in
            #expect(Set(worker.provider.requestedIDs) == Set(ids))
            #expect(worker.provider.requests.count == 1)
            for id in ids {
                let detail = try await worker.store.detail(id)
                #expect(!detail.isStale && detail.attempts == 0)
                #expect(detail.text.contains(#""for":"\#(id)""#))
                #expect(detail.decision == .reloaded)
                #expect(detail.secondsToDue == nil, "its policy is never")
            }
        }
    }

    @Test func storedTimelinesArePublishedWithTheirRevisions() async throws {
        let stored = Mutex<[TimelineID]>([])
        let onStored: @Sendable (TimelineID, EventPosition?) -> Void = { id, _ in stored.withLock { $0.append(id) } }
        try await withTwoFetched(onStored: onStored) { worker, ids in
            for id in ids {
                let message = try #require(worker.publisher.messages(of: id).first)
                #expect(try await worker.store.detail(id).revision == message.revision)
                #expect(message.value?.contains(#""for":"\#(id)""#) == true)
            }
            #expect(Set(stored.withLock { $0 }) == Set(ids))
        }
    }

    @Test func publishedTimelinesAreCompletedAndLeaveNoWork() async throws {
        try await withTwoFetched { worker, _ in
            #expect(
                worker.metrics.stored.total() == 2 && worker.metrics.published.total() == 2
                    && worker.metrics.completed == 2)
            #expect(worker.context.leases.held == 0)
            let lists = try await worker.store.lists()
            #expect(lists == 0)
        }
    }

    @Test func requestsAskForNoMoreThanTheIdentityHolds() async throws {
        try await withWorker { worker in
            try await worker.store.place([
                .test("w1", user: "u7", family: .systemMedium, configuration: #"{"card":"acme"}"#),
                .test("w2", user: "u8", kind: "Weather", configuration: #"{"city":"Oslo"}"#),
            ])
            try await worker.drain()

            let request = try #require(worker.provider.requests.first)
            #expect(worker.provider.requests.count == 1, "kinds of one URL share a request")
            #expect(Set(request.kinds) == ["Purchases", "Weather"])
            let purchases = request.items[request.kinds.firstIndex(of: "Purchases") ?? 0]
            #expect(purchases["user"] == "u7")
            #expect(purchases["family"] == "systemMedium")
            #expect(purchases["configuration"] == ["card": "acme"])
            #expect(purchases["environment"] == ["locale": "en-GB", "timeZone": "Europe/London"])
            let weather = request.items[request.kinds.firstIndex(of: "Weather") ?? 0]
            #expect(weather["configuration"] == ["city": "Oslo"])
            #expect(weather["user"] == nil && weather["family"] == nil && weather["environment"] == nil)
        }
    }

    @Test func batchesHoldUpToTheKindsMaximum() async throws {
        try await withWorker(maxBatch: 40) { worker in
            try await worker.store.place((0..<100).map { .test("w\($0)", user: "u\($0)") })
            try await worker.drain()
            #expect(worker.provider.requests.map(\.ids.count).sorted() == [20, 40, 40])
            #expect(Set(worker.provider.requestedIDs).count == 100)
            #expect(worker.metrics.providerRequests.total() == 3)
        }
    }

    @Test func aThousandWidgetsOfASharedKindAreAsManyTimelinesAsConfigurations() async throws {
        try await withWorker { worker in
            let placements = (0..<1_000).map {
                WidgetPlacement.test(
                    "w\($0)", user: "u\($0)", kind: "Weather", configuration: #"{"city":"c\#($0 % 10)"}"#)
            }
            try await worker.store.place(placements)
            try await worker.drain()
            #expect(worker.provider.requestedIDs.count == 10)
            #expect(worker.publisher.messages.count == 10)
            #expect(try await worker.store.integer("SELECT count(*) FROM timeline WHERE content IS NOT NULL") == 10)
        }
    }

    private static let withPastPolicy: StubProvider.Script = {
        .timelines($0.ids.map { .stubTimeline($0, policy: ["after": "2000-01-01T00:00:00Z"]) })
    }

    @Test("A policy's past time counts as soon as the spacing allows, with jitter of at most a tenth")
    func pastTime() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            worker.provider.respond(Self.withPastPolicy)
            try await worker.drain()
            let wait = try #require(try await worker.store.detail(id).secondsToDue)
            #expect(wait > 200)
            #expect(wait < 400)
        }
    }

    @Test("Equal content is neither written nor published, but its next time is")
    func equalContent() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            worker.provider.respond(Self.withPastPolicy)
            try await worker.drain()
            let first = try await worker.store.detail(id)
            try await worker.store.passTime(400)
            try await worker.drain()
            let second = try await worker.store.detail(id)
            #expect(worker.provider.requests.count == 2)
            #expect(second.storedAt == first.storedAt && second.revision == first.revision)
            #expect(second.decision == .unchanged)
            #expect(try #require(second.secondsToDue) > 200)
            #expect(second.lane == .scheduled)
            #expect(worker.publisher.messages.count == 1)
            #expect(worker.metrics.gateTimelines.total() == 1 && worker.metrics.stored.total() == 1)
        }
    }

    @Test func theNextTimeIsThePolicysAndIsNeverEarly() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            let inAnHour = Timestamp.now() + .seconds(3_600)
            worker.provider.respond { request in
                .timelines(request.ids.map { .stubTimeline($0, date: inAnHour.rfc3339, policy: "atEnd") })
            }
            try await worker.drain()
            let detail = try await worker.store.detail(id)
            let next = try #require(detail.nextLook)
            #expect(next >= inAnHour)
            #expect(next <= inAnHour + .seconds(360), "jitter is at most a tenth of the interval")
        }
    }

    @Test func developerModeLiftsTheSpacingButNotIntoALoop() async throws {
        try await withWorker(developerMode: true) { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            worker.provider.respond {
                .timelines($0.ids.map { .stubTimeline($0, policy: ["after": "2000-01-01T00:00:00Z"]) })
            }
            let begin = try await worker.store.detail(id).readAt
            try await worker.turn()
            let detail = try await worker.store.detail(id)
            let next = try #require(detail.nextLook)
            #expect(next - begin >= .seconds(1))
            #expect(next - (try #require(detail.renderedAt)) < .seconds(200), "the spacing is 300 s")
            try await worker.store.markUser("u1", isFree: false)
            #expect(try await worker.store.detail(id).secondsToDue ?? 1 <= 0, "a request waits for no spacing")
        }
    }

    @Test func spacingDefersBudgetedRequestsAndFreeOnesGoAhead() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            try await worker.drain()
            try await worker.store.markUser("u1", isFree: false)
            #expect(try #require(await worker.store.detail(id).secondsToDue) > 200)
            try await worker.store.markUser("u1", isFree: true)
            try await worker.drain()
            #expect(worker.provider.requests.count == 2)
        }
    }

    @Test("Kinds of one app that share a URL share requests; a kind at another URL and another app's do not")
    func sharedRequests() async throws {
        try await withWorker { worker in
            try await worker.store.redefine {
                if $0.name == "DueDate" {
                    $0.providerURL = $0.providerURL.replacing("/widgets", with: "/others")
                }
            }
            try await worker.store.place([
                .test("w1"), .test("w2", kind: "Weather"), .test("w3", kind: "DueDate"),
                .test("w1", app: TestKinds.otherApp),
            ])
            try await worker.drain()
            let kinds = worker.provider.requests.map { $0.kinds.sorted() }.sorted { $0.count > $1.count }
            #expect(kinds.count == 3 && kinds.first == ["Purchases", "Weather"])
            #expect(Set(kinds.dropFirst().flatMap(\.self)) == ["DueDate", "Purchases"])
            #expect(try await worker.store.stale() == 0)
        }
    }

    @Test func appsAreAskedWithTheirOwnSecrets() async throws {
        try await withWorker { worker in
            try await worker.store.sql("UPDATE app SET signing_secret = convert_to(name, 'UTF8')")
            try await worker.store.place([.test("w1"), .test("w1", app: TestKinds.otherApp)])
            try await worker.drain()
            let requests = worker.provider.requests
            #expect(requests.count == 2, "kinds of one name of two apps are two kinds")
            var apps: Set<String> = []
            for request in requests {
                let id = try #require(request.headers["webhook-id"])
                let timestamp = try #require(request.headers["webhook-timestamp"].flatMap { Int64($0) })
                apps.formUnion(
                    [TestKinds.app, TestKinds.otherApp].filter {
                        let signature = ProviderClient.signature(
                            secrets: [Array($0.utf8)], id: id, timestamp: timestamp, body: request.body)
                        return signature == request.headers["webhook-signature"]
                    })
            }
            #expect(apps == [TestKinds.app, TestKinds.otherApp])
        }
    }
}
