// SPDX-License-Identifier: Apache-2.0

import JSON
import TestSupport
import Testing
import WidgetModel

@testable import SampleProvider

@Suite("Sample content that changes with time", .timeLimit(.patience))
struct ChangeIntervalTests {
    private static let now = Timestamp(rfc3339: "2026-06-22T10:00:00Z") ?? .distantPast

    private static func item(_ kind: String, user: String, timeZone: String = "Europe/London") -> ProviderEndpoint.Item
    {
        let identity = TimelineIdentity(
            app: SampleWorld.bank, kind: kind, sharing: .perUser, variesBy: .all, family: .systemSmall,
            configuration: .empty, environment: WidgetEnvironment(storedLocale: "en-GB", timeZone: timeZone),
            user: user)
        return (id: identity.id, identity: identity)
    }

    private static func timelines(
        _ provider: SampleProvider, _ items: [ProviderEndpoint.Item], at time: Timestamp = now
    ) throws -> [ParsedTimeline] {
        let batch = try SampleRequest.batch(ProviderEndpoint.encode(timelines: items), app: .bank)
        let contents = try #require(batch.contents(of: .bank))
        let bytes = try #require(provider.timelines(batch, of: .bank, contents: contents, at: time)).bytes
        return try ProviderResponse.parse(bytes, requested: items.map { RequestedTimeline($0.id) }).outcomes.map {
            guard case .success(let timeline) = $0 else { throw CancellationError() }
            return timeline
        }
    }

    @Test("Content changes once in each interval, and different contents change at different times")
    func interval() throws {
        let provider = SampleProvider(seed: 1, changeInterval: .seconds(300))
        let items = (0..<20).map { Self.item("RecentPurchases", user: "u\($0)") }
        let hours = try (0...600).map { second in
            try Self.timelines(provider, items, at: Self.now + .seconds(second))
        }
        let changes = items.indices.map { index in
            (1...600).filter { hours[$0][index] != hours[$0 - 1][index] }
        }
        #expect(changes.allSatisfy { $0.count == 2 && $0[1] - $0[0] == 300 })
        #expect(Set(changes.map { $0[0] }).count > 15)
        #expect(try Self.timelines(provider, items) == hours[0])
    }

    @Test(
        "Due dates count local days, and are not requested again at a full hour",
        arguments: [
            "Asia/Kolkata", "America/New_York", "Etc/UTC", "Africa/Cairo",
        ])
    func dueDates(timeZone: String) throws {
        let offset = ["Asia/Kolkata": 19_800, "America/New_York": -14_400, "Africa/Cairo": 10_800][timeZone] ?? 0
        let items = (0..<50).map { Self.item("DueDate", user: "u\($0)", timeZone: timeZone) }
        let timelines = try Self.timelines(SampleProvider(seed: 1), items)
        for timeline in timelines {
            let entries = try #require(try JSONValue.parse(timeline.content)["entries"]?.arrayValue)
            let dates = entries.compactMap { $0["date"]?.stringValue.flatMap { Timestamp(rfc3339: $0) } }
            #expect(dates.dropFirst().allSatisfy { ($0 + .seconds(offset)).microseconds % 86_400_000_000 == 0 })
            #expect(entries.last?["content"]?["daysLeft"] == 0)
            #expect(!timeline.lints.contains(.roundHour))
        }
        #expect(Set(timelines.map(\.entryCount)).count > 5)
    }
}
