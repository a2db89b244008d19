// SPDX-License-Identifier: Apache-2.0

import JSON
import TestSupport
import Testing
import WidgetModel

@testable import SampleProvider

@Suite("Sample content", .timeLimit(.patience))
struct SampleContentTests {
    private static let now = Timestamp(rfc3339: "2020-06-22T10:00:00.25Z") ?? Timestamp(microseconds: 0)

    private func provider(seed: UInt64 = 1, faults: SampleProvider.Faults = .init()) -> SampleProvider {
        SampleProvider(seed: seed, faults: faults, now: { Self.now })
    }

    private func item(
        _ app: SampleApp, _ kind: String, configuration: JSONValue = [:], user: String = "u1",
        family: WidgetFamily = .systemMedium, sharing: KindSharing = .perUser, variesBy: KindVariation = .all
    ) throws -> ProviderEndpoint.Item {
        let identity = TimelineIdentity(
            app: "com.example.\(app.rawValue)", kind: kind, sharing: sharing, variesBy: variesBy, family: family,
            configuration: try WidgetConfiguration(configuration),
            environment: try WidgetEnvironment(locale: "en-GB", timeZone: "Europe/London"), user: user)
        return (id: identity.id, identity: identity)
    }

    /// Sends a request and reads the answer like a worker.
    private func fetch(
        _ provider: SampleProvider, _ app: SampleApp, _ items: [ProviderEndpoint.Item],
        volatileFields: [JSONPointer] = []
    ) throws -> [Result<ParsedTimeline, ProviderFailure>] {
        let batch = try SampleRequest.batch(ProviderEndpoint.encode(timelines: items), app: app)
        let contents = try #require(batch.contents(of: app))
        let answer = try #require(provider.timelines(batch, of: .bank, contents: contents, at: Self.now))
        let volatileFields = volatileFields
        let response = try ProviderResponse.parse(
            answer.bytes, requested: items.map { RequestedTimeline($0.id, volatileFields: volatileFields) })
        #expect(response.foreignCount == 0)
        #expect(response.unreadable.isEmpty)
        return response.outcomes
    }

    private func timeline(_ outcome: Result<ParsedTimeline, ProviderFailure>) throws -> ParsedTimeline {
        guard case .success(let timeline) = outcome else {
            Issue.record("no timeline: \(outcome)")
            throw CancellationError()
        }
        return timeline
    }

    private func content(_ outcome: Result<ParsedTimeline, ProviderFailure>) throws -> JSONValue {
        try JSONValue.parse(try timeline(outcome).content)
    }

    static let kinds: [(SampleApp, String)] = SampleApp.allCases.flatMap { app in app.kinds.map { (app, $0) } }

    @Test(arguments: kinds)
    func workersAcceptEveryKindInEveryFamily(app: SampleApp, kind: String) throws {
        let items = try WidgetFamily.allCases.map { try item(app, kind, family: $0) }
        for outcome in try fetch(provider(), app, items) {
            let timeline = try timeline(outcome)
            #expect(timeline.entryCount >= 1)
            #expect(timeline.firstEntryDate == Self.now.wholeSecond)
            // The timeline does not request an immediate reload.
            let next = timeline.policy.earliestReload(lastEntry: timeline.lastEntryDate)
            #expect(try #require(next) >= Self.now + .seconds(300))
        }
    }

    @Test(arguments: kinds)
    func sameSeedSameAnswers(app: SampleApp, kind: String) throws {
        let items = [try item(app, kind), try item(app, kind, configuration: ["city": "Oslo", "card": "soup"])]
        let first = try fetch(provider(seed: 7), app, items)
        #expect(try fetch(provider(seed: 7), app, items) == first)
        // Neither the order nor other timelines in the batch make a difference.
        #expect(try fetch(provider(seed: 7), app, items.reversed()) == first.reversed())
        #expect(try fetch(provider(seed: 8), app, items) != first)
    }

    @Test(arguments: kinds)
    func everyFetchShows(app: SampleApp, kind: String) throws {
        let provider = provider()
        let item = try item(app, kind)
        var hashes: Set<ContentHash> = []
        let volatileFields = [try #require(JSONPointer("/generatedAt"))]
        for revision in 1...5 {
            let outcome = try fetch(provider, app, [item], volatileFields: volatileFields)[0]
            hashes.insert(try timeline(outcome).hash)
            let entry = try #require(try content(outcome)["entries"]?.arrayValue?.first)
            #expect(entry["content"]?["revision"] == .number(JSONNumber(revision)))
        }
        #expect(hashes.count == 5)
    }

    @Test func usersAndConfigurationsHaveRevisionsOfTheirOwn() throws {
        let provider = provider()
        let items = [
            try item(.bank, "RecentPurchases", user: "u1"), try item(.bank, "RecentPurchases", user: "u2"),
            try item(.bank, "RecentPurchases", configuration: ["card": "soup"], user: "u1"),
        ]
        _ = try fetch(provider, .bank, [items[0]])
        let outcomes = try fetch(provider, .bank, items)
        let revisions = try outcomes.map { outcome in
            try content(outcome)["entries"]?.arrayValue?.first?["content"]?["revision"]?.numberValue?.int64
        }
        #expect(revisions == [2, 1, 1])
        #expect(try content(outcomes[2])["entries"]?.arrayValue?.first?["content"]?["card"] == "Soup Pay")
    }

    @Test func cityIsSharedByEveryone() throws {
        let provider = provider()
        let city: JSONValue = ["city": "Osaka"]
        let one = try item(.weather, "Weather", configuration: city, user: "u1", sharing: .shared, variesBy: [])
        let other = try item(
            .weather, "Weather", configuration: city, user: "u2", family: .systemLarge, sharing: .shared, variesBy: [])
        #expect(one.id == other.id)
        let outcome = try fetch(provider, .weather, [one])[0]
        let entries = try #require(try content(outcome)["entries"]?.arrayValue)
        #expect(entries.count == 6)
        #expect(entries.allSatisfy { $0["content"]?["city"] == "Osaka" })
    }

    @Test("A request may have timelines of several kinds; a kind that the app lacks has none")
    func severalKinds() throws {
        let items = [
            try item(.bank, "RecentPurchases"), try item(.bank, "DueDate"),
            try item(.bank, "RecentPurchases", user: "u2"),
        ]
        let contents = try fetch(provider(), .bank, items).map {
            try content($0)["entries"]?.arrayValue?.first?["content"]
        }
        #expect(contents.map { $0?["purchases"] != nil } == [true, false, true])
        #expect(contents.map { $0?["daysLeft"] != nil } == [false, true, false])
        let others = try SampleRequest.batch(
            ProviderEndpoint.encode(timelines: items + [try item(.bank, "Weather")]), app: .bank)
        #expect(others.contents(of: .bank) == nil)
    }

    // MARK: Fallback content

    @Test(arguments: kinds)
    func workersAcceptSnapshotsOfEveryKindInEveryFamily(app: SampleApp, kind: String) throws {
        let items = try WidgetFamily.allCases.map { try item(app, kind, family: $0) }
        let provider = provider()
        let batch = try SampleRequest.batch(ProviderEndpoint.encode(timelines: items), app: app)
        let contents = try #require(batch.contents(of: app))
        let response = try FallbackResponse.snapshots(
            provider.snapshots(batch, contents: contents, at: Self.now), requested: items.map(\.id))
        #expect(response.foreignCount == 0 && response.unreadable.isEmpty)
        for outcome in response.outcomes {
            guard case .success(let bytes) = outcome else {
                Issue.record("\(outcome)")
                continue
            }
            // The content shown now, without a regeneration.
            let entry = try JSONValue.parse(bytes)
            #expect(entry["date"]?.stringValue.flatMap { Timestamp(rfc3339: $0) } == Self.now.wholeSecond)
            #expect(entry["content"]?["revision"] == 0)
        }
        let first = try fetch(provider, app, [items[0]])[0]
        #expect(try self.content(first)["entries"]?.arrayValue?.first?["content"]?["revision"] == 1)
    }

    @Test(arguments: kinds)
    func workersAcceptPlaceholdersOfEveryKindInEveryFamily(app: SampleApp, kind: String) throws {
        let items = WidgetFamily.allCases.map {
            PlaceholderIdentity(kind: kind, family: $0, locale: "en-GB", timeZone: "Europe/London")
        }
        let batch = try SampleRequest.batch(ProviderEndpoint.encode(placeholders: items, kind: kind), app: app)
        let contents = try #require(batch.contents(of: app))
        let response = try FallbackResponse.placeholders(
            provider().placeholders(batch, contents: contents), requested: items.map(\.id))
        #expect(response.foreignCount == 0 && response.unreadable.isEmpty)
        for outcome in response.outcomes {
            guard case .success = outcome else {
                Issue.record("\(outcome)")
                continue
            }
        }
    }

    // MARK: Healing

    @Test func healedInTenMinutesThereAreTenEntries() throws {
        let outcome = try fetch(provider(), .rangers, [try item(.rangers, "EmojiRanger")])[0]
        let timeline = try timeline(outcome)
        #expect(timeline.policy == .atEnd)
        #expect(timeline.entryCount == 10)
        #expect(timeline.lastEntryDate - timeline.firstEntryDate == .seconds(9 * 60))
        let entries = try #require(try content(outcome)["entries"]?.arrayValue)
        let health = entries.compactMap { $0["content"]?["health"]?.numberValue?.double }
        let scores = entries.compactMap { $0["relevance"]?["score"]?.numberValue?.double }
        #expect(health == [0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95])
        #expect(scores == health)
        #expect(entries.first?["content"]?["hero"]?["name"] == "Power Panda")
        #expect(entries.first?["url"] == "ranger:///panda")
    }

    @Test(arguments: [(0, 1), (1, 1), (59, 1), (60, 1), (61, 2), (119, 2), (120, 2), (600, 10), (601, 11), (-60, 1)])
    func endIsExcluded(seconds: Int, count: Int) {
        let dates = SampleContent.healingDates(from: Self.now, until: Self.now + .seconds(seconds))
        #expect(dates.count == count)
        #expect(dates.first == Self.now)
        #expect(dates.dropFirst().allSatisfy { $0 < Self.now + .seconds(seconds) })
    }

    @Test func smallShowsTheAvatarAndMediumTheBiography() throws {
        let items = [
            try item(.rangers, "EmojiRanger", configuration: ["hero": "Spouty"], family: .systemSmall),
            try item(.rangers, "EmojiRanger", configuration: ["hero": "Spouty"], family: .systemMedium),
        ]
        let outcomes = try fetch(provider(), .rangers, items)
        let contents = try outcomes.map { try #require(try content($0)["entries"]?.arrayValue?.first?["content"]) }
        #expect(contents.map { $0["hero"]?["avatar"] } == ["🐳", "🐳"])
        #expect(contents[0]["hero"]?["biography"] == nil)
        #expect(contents[1]["hero"]?["biography"]?.stringValue?.isEmpty == false)
    }

    // MARK: Bank

    @Test func dueDateCountsDown() throws {
        let outcome = try fetch(provider(), .bank, [try item(.bank, "DueDate")])[0]
        let entries = try #require(try content(outcome)["entries"]?.arrayValue)
        let days = entries.compactMap { $0["content"]?["daysLeft"]?.numberValue?.int64 }
        #expect((0...13).contains(try #require(days.first)))
        #expect(days == Array((0...(days.first ?? 0)).reversed()))
        #expect(entries.last?["relevance"]?["score"]?.numberValue?.double == 1)
    }

    @Test func categoryFilters() throws {
        let outcome = try fetch(
            provider(), .bank,
            [try item(.bank, "RecentPurchases", configuration: ["category": "travel"], family: .systemLarge)])[0]
        let purchases = try #require(
            try content(outcome)["entries"]?.arrayValue?.first?["content"]?["purchases"]?.arrayValue)
        #expect(purchases.count == 6)
        #expect(purchases.allSatisfy { $0["category"] == "travel" })
        #expect(purchases.allSatisfy { $0["amount"]?.stringValue?.split(separator: ".").last?.count == 2 })
    }

    // MARK: Faults

    @Test func timelinesFailInTheShareAskedFor() throws {
        let items = try (0..<1_000).map { try item(.bank, "DueDate", user: "u\($0)") }
        let provider = provider(faults: .init(timelineFailures: 0.2))
        let outcomes = try fetch(provider, .bank, items)
        let failed = outcomes.count { outcome in
            if case .failure(let failure) = outcome { failure.message.hasPrefix("unavailable: ") } else { false }
        }
        #expect((150...250).contains(failed))
        // The failing timelines are the same in every run.
        #expect(try fetch(self.provider(faults: .init(timelineFailures: 0.2)), .bank, items) == outcomes)
    }

    @Test func requestsFailInTheShareAskedFor() throws {
        let provider = provider(faults: .init(requestFailures: 0.5))
        var failed = 0
        for user in 0..<400 {
            let body = ProviderEndpoint.encode(timelines: [try item(.bank, "DueDate", user: "u\(user)")])
            let batch = try SampleRequest.batch(body, app: .bank)
            let contents = try #require(batch.contents(of: .bank))
            if provider.timelines(batch, of: .bank, contents: contents, at: Self.now) == nil { failed += 1 }
        }
        #expect((150...250).contains(failed))
    }
}
