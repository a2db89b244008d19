// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing
import WidgetModel

@testable import FreshetService

@Suite("Values of options")
struct OptionTextTests {
    @Test("Times may be relative to now")
    func times() throws {
        #expect(try OptionText.time("2026-06-22T10:00:00Z") == Timestamp(rfc3339: "2026-06-22T10:00:00Z"))
        for (text, distance) in [("now", Duration.zero), ("now-1h", .seconds(-3_600)), ("now+90s", .seconds(90))] {
            let time = try OptionText.time(text)
            #expect(abs((time - Timestamp.now() - distance).wholeMicroseconds) < 60_000_000, "\(text)")
        }
        for text in ["now-", "now-1", "now*1h", "1h", "yesterday", "now-9999999999999999999d"] {
            #expect(throws: (any Error).self) { try OptionText.time(text) }
        }
    }

    @Test("Dates may be relative to today, in the clock's time zone")
    func dates() throws {
        let evening = try #require(Timestamp(rfc3339: "2026-03-28T20:00:00Z"))
        let kolkata = try #require(LocalClock(timeZone: "Asia/Kolkata"))
        #expect(OptionText.date("today", .utc, now: evening) == "2026-03-28")
        #expect(OptionText.date("today", kolkata, now: evening) == "2026-03-29")
        #expect(OptionText.date("yesterday", .utc, now: evening) == "2026-03-27")
        #expect(OptionText.date("tomorrow", kolkata, now: evening) == "2026-03-30")
        #expect(OptionText.date("2026-06-22", .utc) == "2026-06-22" && OptionText.date("soon", .utc) == nil)
    }
}
