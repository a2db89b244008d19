// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// Devices that change their locale, their time zone or the day.
@Suite(.serialized, .tags(.database), .timeLimit(.patience))
struct EnvironmentTests {
    private let at = Timestamp(microseconds: 1_700_000_000_000_000)
    private let london = WidgetEnvironment(storedLocale: "en-GB", timeZone: "Europe/London")
    private let sydney = WidgetEnvironment(storedLocale: "en-AU", timeZone: "Australia/Sydney")

    private func changed(
        _ environment: WidgetEnvironment, device: String = "d1", isSignificant: Bool = false
    ) -> FreshetEvent {
        .environmentChanged(
            app: TestKinds.app, device: device, environment: environment, significantTimeChange: isSignificant)
    }

    private static let widgets = ["w1", "w2", "w3", "w4"]

    private func timelines(_ worker: TestWorker) async throws -> [TimelineID?] {
        try await Self.widgets.asyncMap { try await worker.store.timelineID(of: $0) }
    }

    /// Three widgets of a device that has moved to Sydney, and one of the person's other device in London.
    private func withMovedDevice(
        _ body: (_ worker: TestWorker, _ before: [TimelineID?], _ after: [TimelineID?]) async throws -> Void
    ) async throws {
        try await withWorker { worker in
            try await worker.store.apply(
                [
                    .placed(.test("w1")), .placed(.test("w2", kind: "DueDate")), .placed(.test("w3", kind: "Weather")),
                    .placed(.test("w4", device: "d2")),
                ], at: at)
            try await worker.drain()
            let before = try await timelines(worker)
            try await worker.store.apply([changed(sydney)], at: at + .seconds(1))
            try await body(worker, before, try await timelines(worker))
        }
    }

    @Test func aDeviceThatMovesTakesItsWidgetsToTheTimelinesOfTheNewEnvironment() async throws {
        try await withMovedDevice { worker, before, after in
            #expect(before[0] == before[3], "the same person's other device")
            #expect(after[0] != before[0] && after[1] != before[1])
            #expect(after[2] == before[2], "the kind does not vary by locale")
            #expect(after[3] == before[3], "another device")
            let environments = try await Self.widgets.asyncMap { try await worker.store.widget($0)?.environment }
            #expect(environments == [sydney, sydney, sydney, london])
        }
    }

    @Test func onlyTheTimelinesToWhichAMovedDeviceCameAreFetched() async throws {
        try await withMovedDevice { worker, _, after in
            let asked = worker.provider.requestedIDs.count
            try await worker.drain()
            let moved = try #require(after[0])
            let request = try #require(worker.provider.requests.last { $0.ids.contains(moved) })
            let item = try #require(request.ids.firstIndex(of: moved).map { request.items[$0] })
            #expect(item["environment"] == ["locale": "en-AU", "timeZone": "Australia/Sydney"])
            #expect(worker.provider.requestedIDs.count == asked + 2)
        }
    }

    @Test func theTimelineThatAMovedDeviceLeavesIsBuriedUnlessAnotherDeviceShowsIt() async throws {
        try await withMovedDevice { worker, before, _ in
            try await worker.drain()
            let (kept, gone) = (try #require(before[0]), try #require(before[1]))
            #expect(try await worker.store.timeline(gone) == nil)
            #expect(worker.publisher.messages(of: gone).map { $0.value == nil } == [false, true])
            #expect(try await worker.store.detail(kept).timeline.state.isOrphaned == false)
            #expect(worker.publisher.messages(of: kept).map { $0.value == nil } == [false])
        }
    }

    @Test func aSecondDeviceThatMovesJoinsTheTimelineOfTheFirst() async throws {
        try await withMovedDevice { worker, before, after in
            try await worker.drain()
            let asked = worker.provider.requestedIDs.count
            try await worker.store.apply([changed(sydney, device: "d2")], at: at + .seconds(2))
            try await worker.drain()
            #expect(try await worker.store.timelineID(of: "w4") == after[0])
            #expect(worker.provider.requestedIDs.count == asked)
            let kept = try #require(before[0])
            #expect(try #require(worker.publisher.messages(of: kept).last).value == nil)
        }
    }

    @Test func anOlderChangeDoesNotOverride() async throws {
        try await withWorker { worker in
            try await worker.store.apply([.placed(.test("w1"))], at: at)
            try await worker.store.apply([changed(sydney)], at: at + .seconds(10))
            let id = try await worker.store.timelineID(of: "w1")
            try await worker.store.apply([changed(london)], at: at + .seconds(9))
            #expect(try await worker.store.widget("w1")?.environment == sydney)
            #expect(try await worker.store.timelineID(of: "w1") == id)
            // At equal times the later event in the log wins.
            try await worker.store.apply([changed(london)], at: at + .seconds(10))
            #expect(try await worker.store.widget("w1")?.environment == london)
            // Both events are in one batch, in either order.
            try await worker.store.apply([changed(sydney), changed(london)], at: at + .seconds(20))
            #expect(try await worker.store.widget("w1")?.environment == london)
        }
    }

    @Test func aSignificantTimeChangeReloadsAtOnceWhereTheEnvironmentIsTheSame() async throws {
        try await withWorker { worker in
            try await worker.store.apply(
                [.placed(.test("w1")), .placed(.test("w2", user: "u2", device: "d2"))], at: at)
            try await worker.drain()
            let id = try #require(try await worker.store.timelineID(of: "w1"))
            #expect(worker.provider.requestedIDs.count == 2)
            // Without the time change no work is pending.
            try await worker.store.apply([changed(london)], at: at + .seconds(1))
            try await worker.drain()
            #expect(worker.provider.requestedIDs.count == 2)
            // The time change is reloaded despite the spacing, which has 300 s left.
            try await worker.store.apply([changed(london, isSignificant: true)], at: at + .seconds(2))
            #expect(try #require(try await worker.store.detail(id).secondsToDue) <= 0)
            try await worker.drain()
            #expect(worker.provider.requestedIDs.suffix(1) == [id])
            #expect(worker.provider.requestedIDs.count == 3)
            #expect(try await worker.store.timelineID(of: "w1") == id)
            #expect(try await worker.store.detail(id).isStale == false)
        }
    }

    // MARK: Day boundaries

    private static func midnight(after time: Timestamp, in zone: String) throws -> Timestamp {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = try #require(TimeZone(identifier: zone))
        let now = Date(timeIntervalSince1970: Double(time.microseconds) / 1_000_000)
        let next = try #require(
            calendar.nextDate(after: now, matching: DateComponents(hour: 0, minute: 0), matchingPolicy: .nextTime))
        return Timestamp(microseconds: Int64(next.timeIntervalSince1970) * 1_000_000)
    }

    @Test func theDayEndsWhereTheWidgetIs() async throws {
        let zones = ["Australia/Sydney", "Pacific/Honolulu", "Asia/Kathmandu", "Pacific/Kiritimati"]
        try await withWorker(minimumSpacing: .seconds(1)) { worker in
            worker.provider.respond { request in
                .timelines(
                    try zip(request.ids, request.items).map { id, item in
                        let zone = try #require(item["environment"]?["timeZone"]?.stringValue)
                        let midnight = try Self.midnight(after: Timestamp.now(), in: zone)
                        return .stubTimeline(id, policy: ["after": .string(midnight.rfc3339)])
                    })
            }
            try await worker.store.apply(
                zones.map { zone in
                    .placed(
                        .test(
                            "w-\(zone)", device: "d-\(zone)",
                            environment: WidgetEnvironment(storedLocale: "en-AU", timeZone: zone)))
                }, at: at)
            let start = Timestamp.now()
            try await worker.drain()
            var days: Set<Timestamp> = []
            for zone in zones {
                let id = try #require(try await worker.store.timelineID(of: "w-\(zone)"))
                let detail = try await worker.store.detail(id)
                let policy = try #require(
                    try JSONValue.parse(detail.content ?? [])["policy"]?["after"]?.stringValue.flatMap {
                        Timestamp(rfc3339: $0)
                    })
                // The test may run across a midnight.
                #expect(
                    [try Self.midnight(after: start, in: zone), try Self.midnight(after: Timestamp.now(), in: zone)]
                        .contains(policy), "\(zone)")
                let due = detail.timeline.state.policyAt
                #expect(due >= policy, "never early")
                #expect(due <= policy + .seconds(301), "at most its tolerance late")
                days.insert(policy)
            }
            #expect(days.count >= 3, "the zones have different midnights")

            // A device that flies to Honolulu gets Honolulu's midnight.
            try await worker.store.apply(
                [
                    changed(
                        WidgetEnvironment(storedLocale: "en-AU", timeZone: "Pacific/Honolulu"),
                        device: "d-Australia/Sydney")
                ], at: at + .seconds(1))
            let moved = try await worker.store.timelineID(of: "w-Australia/Sydney")
            #expect(try await worker.store.timelineID(of: "w-Pacific/Honolulu") == moved)
        }
    }
}

extension Sequence {
    fileprivate func asyncMap<Value>(_ transform: (Element) async throws -> Value) async throws -> [Value] {
        var values: [Value] = []
        for element in self { values.append(try await transform(element)) }
        return values
    }
}
