// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

@testable import WidgetModel

/// `after(midnight)` from a provider that uses the time zone of its request. The policy is an absolute time, so the
/// calendar belongs to the test and not to the rules.
@Suite("Days end by time zone", .tags(.rules), .timeLimit(.patience))
struct DayBoundaryTests {
    struct Day: Sendable, CustomTestStringConvertible {
        let zone: String
        /// Time of the rendering.
        let rendered: String
        /// Midnight at the end of the day.
        let midnight: String
        /// Length of the day.
        var hours = 24

        var testDescription: String { "\(zone), \(hours) hours until \(midnight)" }
    }

    static let days = [
        Day(zone: "Australia/Sydney", rendered: "2020-06-22T10:00:00Z", midnight: "2020-06-22T14:00:00Z"),
        Day(zone: "Pacific/Honolulu", rendered: "2020-06-22T10:00:00Z", midnight: "2020-06-23T10:00:00Z"),
        Day(zone: "Pacific/Honolulu", rendered: "2020-06-22T09:00:00Z", midnight: "2020-06-22T10:00:00Z"),
        Day(zone: "Asia/Kolkata", rendered: "2020-06-22T10:00:00Z", midnight: "2020-06-22T18:30:00Z"),
        // The clock goes back at 3:00 (25 hours, from +11 to +10) and forward at 2:00 (23 hours, from +10 to +11).
        Day(zone: "Australia/Sydney", rendered: "2020-04-04T13:30:00Z", midnight: "2020-04-05T14:00:00Z", hours: 25),
        Day(zone: "Australia/Sydney", rendered: "2020-10-03T14:30:00Z", midnight: "2020-10-04T13:00:00Z", hours: 23),
        Day(zone: "Europe/Berlin", rendered: "2020-03-28T23:30:00Z", midnight: "2020-03-29T22:00:00Z", hours: 23),
        Day(zone: "Europe/Berlin", rendered: "2020-10-24T22:30:00Z", midnight: "2020-10-25T23:00:00Z", hours: 25),
    ]

    /// Returns the next midnight as a provider computes it, and the length of the day that it ends.
    private func nextMidnight(after now: Timestamp, in zone: String) throws -> (time: Timestamp, day: Duration) {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = try #require(TimeZone(identifier: zone))
        let date = Date(timeIntervalSince1970: Double(now.microseconds) / 1_000_000)
        let day = try #require(calendar.dateInterval(of: .day, for: date))
        return (Timestamp(microseconds: Int64(day.end.timeIntervalSince1970 * 1_000_000)), .seconds(day.duration))
    }

    private func identity(_ zone: String, user: Int) throws -> TimelineIdentity {
        TimelineIdentity(
            app: "com.example.calendar", kind: "Today", sharing: .perUser, variesBy: .all, family: .systemSmall,
            configuration: .empty, environment: try WidgetEnvironment(locale: "en", timeZone: zone), user: "u\(user)")
    }

    @Test("Timelines are due at their own midnight, spread over the tolerance and never early", arguments: days)
    func midnight(_ day: Day) throws {
        let rendered = time(day.rendered)
        let (midnight, length) = try nextMidnight(after: rendered, in: day.zone)
        #expect(midnight == time(day.midnight))
        #expect(length == .hours(day.hours))
        let rules = ReloadRules.test()
        let tolerance = min(.seconds(300), (midnight - rendered) / 10)
        var times: [Timestamp: Int] = [:]
        for user in 0..<400 {
            let id = try identity(day.zone, user: user).id
            let due = try #require(rules.due(.after(midnight), lastEntry: rendered, renderedAt: rendered, timeline: id))
            let late = due - midnight
            guard late >= .zero, late <= tolerance else {
                Issue.record("\(late) after midnight")
                return
            }
            times[due, default: 0] += 1
        }
        // The grid is at least an eighth of the tolerance.
        #expect(times.count >= 4 && times.count <= 8 && times.values.allSatisfy { $0 < 180 }, "\(times)")
    }

    @Test("Time zones 20 hours apart share no due times, with ten thousand widgets each")
    func apart() throws {
        let rendered = time("2020-06-22T10:30:00Z")
        var due: [String: [Timestamp]] = [:]
        for zone in ["Australia/Sydney", "Pacific/Honolulu"] {
            let midnight = try nextMidnight(after: rendered, in: zone).time
            for user in 0..<10_000 {
                let id = try identity(zone, user: user).id
                let time = ReloadRules.test().due(
                    .after(midnight), lastEntry: rendered, renderedAt: rendered, timeline: id)
                due[zone, default: []].append(time ?? .distantPast)
            }
        }
        let sydney = due["Australia/Sydney"] ?? []
        let honolulu = due["Pacific/Honolulu"] ?? []
        let first = time("2020-06-22T14:00:00Z")
        let second = time("2020-06-23T10:00:00Z")
        #expect(sydney.allSatisfy { $0 >= first && $0 <= first + .minutes(5) })
        #expect(honolulu.allSatisfy { $0 >= second && $0 <= second + .minutes(5) })
    }

    /// A widget with today's date across the two days of the year that do not have 24 hours: one reload a day, each
    /// within the tolerance after midnight.
    @Test(
        "A widget with today's date reloads once after each midnight of a year",
        arguments: ["Australia/Sydney", "Pacific/Honolulu", "Europe/Berlin"])
    func year(zone: String) throws {
        let rules = ReloadRules.test()
        let id = try identity(zone, user: 1).id
        var now = time("2020-01-01T12:00:00Z")
        var ledger = BudgetLedger()
        var lengths: [Duration: Int] = [:]
        for _ in 0..<366 {
            let (midnight, _) = try nextMidnight(after: now, in: zone)
            let next = rules.next(
                policy: .after(midnight), lastEntry: now, renderedAt: now, timeline: id, ledger: ledger, views: .often)
            let due = next.policyAt
            #expect(due >= midnight && due <= midnight + .minutes(5))
            ledger.spend(of: 70, at: due)
            lengths[try nextMidnight(after: due, in: zone).day, default: 0] += 1
            now = due
        }
        #expect(lengths[.hours(24)] == (zone == "Pacific/Honolulu" ? 366 : 364))
    }
}
