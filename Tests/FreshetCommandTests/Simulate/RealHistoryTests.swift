// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import TestSupport
import Testing
import WidgetModel

@testable import ProviderTools

/// The column of a replay with what really happened.
@Suite(.timeLimit(.patience))
struct RealHistoryTests {
    private static let from = Timestamp(microseconds: 1_782_086_400_000_000)
    private static let span = from..<(from + .seconds(86_400))
    private static let timeline = "4b8f5b7e-7f0a-5c43-9a56-4f2f3d6d9f10"

    private static func data(_ app: String, _ members: [String: JSONValue]) -> JSONValue {
        var object = JSONObject()
        object["app"] = .string(app)
        object["kind"] = "balance"
        object["timeline"] = .string(timeline)
        for (name, value) in members { object[name] = value }
        return .object(object)
    }

    @Test("Counts belong to an app and a kind, and only to the time span")
    func counts() throws {
        var history = RealHistory(Self.span)
        for hour in [-1, 1, 2, 25] {
            history.noteTimeline(Self.data("one", [:]), at: Self.from + .seconds(3_600 * hour))
        }
        history.noteTimeline(Self.data("two", [:]), at: Self.from)
        for decision in ["reloaded", "unchanged", "deferred", "failed", "merged"] {
            history.noteDecision(Self.data("two", ["decision": .string(decision)]), at: Self.from + .seconds(60))
        }
        #expect(history.published == ["one balance": 2, "two balance": 1])
        let decisions: [Decision: Int] = [.reloaded: 1, .unchanged: 1, .deferred: 1, .failed: 1, .merged: 1]
        #expect(history.decided == ["two balance": decisions])
        let id = try #require(TimelineID(Self.timeline))
        #expect(history.fetches[id]?.count == 2)
        // Publications before the span are what people saw at its begin.
        #expect(history.publications[id]?.min() == Self.from - .seconds(3_600))
    }

    @Test("The interval of reloads by policy is learnt for each app")
    func refresh() {
        var history = RealHistory(Self.span)
        for (app, minutes) in [("one", 10), ("two", 50)] {
            let after = (Self.from + .seconds(60 * minutes)).rfc3339
            history.noteTimeline(Self.data(app, ["policy": ["after": .string(after)]]), at: Self.from)
        }
        #expect(history.refresh["one balance"] == .seconds(600))
        #expect(history.refresh["two balance"] == .seconds(3_000))
    }

    @Test("A message that is missing near the time span makes the topic's record incomplete")
    func gaps() {
        func isWhole(_ messages: [(offset: Int64, hour: Int)], end: Int64? = nil) -> Bool {
            var gaps = LogGaps()
            gaps.begin()
            for (offset, hour) in messages { gaps.note(offset, Self.from + .seconds(3_600 * hour)) }
            if let end { gaps.end(end) }
            return gaps.isWhole(in: Self.span)
        }
        #expect(isWhole([(0, -2), (1, 3), (2, 30)], end: 3))
        #expect(isWhole([(4, -9), (7, -2), (8, 3)], end: 9), "gaps before the span")
        #expect(isWhole([(0, 3), (1, 25), (9, 30)], end: 10), "a gap after the span")
        #expect(!isWhole([(0, -2), (2, 3)], end: 3), "a gap at the begin")
        #expect(!isWhole([(0, 3), (2, 4)], end: 3), "a gap in the span")
        #expect(!isWhole([(0, 3), (5, 30)], end: 6), "a gap at the end")
        #expect(!isWhole([], end: 5), "everything has expired")
        #expect(isWhole([], end: 0), "nothing was ever published")
    }
}
