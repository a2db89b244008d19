// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import WidgetModel

@Suite(.timeLimit(.patience))
struct TimestampTests {
    @Test(arguments: [
        ("1970-01-01T00:00:00Z", 0, "1970-01-01T00:00:00Z"),
        ("1969-12-31T23:59:59.999999Z", -1, "1969-12-31T23:59:59.999999Z"),
        ("2020-06-22T10:00:00.5+02:00", 1_592_812_800_500_000, "2020-06-22T08:00:00.5Z"),
        ("2020-06-22t08:00:00z", 1_592_812_800_000_000, "2020-06-22T08:00:00Z"),
        ("2020-06-22T08:00:00-00:00", 1_592_812_800_000_000, "2020-06-22T08:00:00Z"),
        ("2020-06-22T00:29:59-23:59", 1_592_872_139_000_000, "2020-06-23T00:28:59Z"),
        ("2000-02-29T12:00:00Z", 951_825_600_000_000, "2000-02-29T12:00:00Z"),
        ("2016-12-31T23:59:60Z", 1_483_228_800_000_000, "2017-01-01T00:00:00Z"),
        ("2017-01-01T01:59:60.25+02:00", 1_483_228_800_250_000, "2017-01-01T00:00:00.25Z"),
        ("0001-01-01T00:00:00Z", -62_135_596_800_000_000, "0001-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59.999999999Z", 253_402_300_799_999_999, "9999-12-31T23:59:59.999999Z"),
        ("9999-12-31T23:58:59.999999-00:01", 253_402_300_799_999_999, "9999-12-31T23:59:59.999999Z"),
        ("0001-01-01T00:01:00+00:01", -62_135_596_800_000_000, "0001-01-01T00:00:00Z"),
        ("2020-01-01T00:00:00.1234567891234Z", 1_577_836_800_123_456, "2020-01-01T00:00:00.123456Z"),
    ])
    func valid(text: String, microseconds: Int64, written: String) {
        #expect(Timestamp(rfc3339: text)?.microseconds == microseconds)
        #expect(Timestamp(microseconds: microseconds).rfc3339 == written)
    }

    @Test(arguments: [
        "", "2020", "2020-06-22", "2020-06-22T10:00:00", "2020-06-22 10:00:00Z", "2020-06-22T10:00Z",
        "2020-6-22T10:00:00Z",
        "2020-06-22T10:00:00.Z", "2020-06-22T10:00:00,5Z", "2020-06-22T24:00:00Z", "2020-06-22T10:60:00Z",
        "2020-06-22T10:00:61Z", "2020-06-22T10:00:60Z", "2020-13-01T00:00:00Z", "2020-00-01T00:00:00Z",
        "2020-01-00T00:00:00Z", "2020-01-32T00:00:00Z", "2019-02-29T00:00:00Z", "1900-02-29T00:00:00Z",
        "2020-04-31T00:00:00Z", "0000-01-01T00:00:00Z", "2020-06-22T10:00:00+0200", "2020-06-22T10:00:00+24:00",
        "2020-06-22T10:00:00+02:60", "2020-06-22T10:00:00Zx", "+2020-06-22T10:00:00Z", "2020-06-22T10:00:00 Z",
        "２020-06-22T10:00:00Z",
        // In UTC these times are in years that RFC 3339 cannot represent.
        "0001-01-01T00:00:00+00:01", "0001-01-01T08:59:59.999999+09:00", "9999-12-31T23:59:00-00:01",
        "9999-12-31T23:59:60Z", "9999-12-31T00:01:00-23:59",
    ])
    func invalid(text: String) {
        #expect(Timestamp(rfc3339: text) == nil)
    }

    @Test func everyDayRoundTrips() {
        var day = Timestamp(rfc3339: "1890-01-01T00:00:00Z")?.microseconds ?? 0
        for _ in 0..<80_000 {
            let stamp = Timestamp(microseconds: day + 86_399_999_999)
            if Timestamp(rfc3339: stamp.rfc3339) != stamp { Issue.record("\(stamp.microseconds)") }
            day += 86_400_000_000
        }
    }

    @Test("Milliseconds are a time from 1970 to 9999, and any other number is none")
    func milliseconds() {
        #expect(Timestamp(milliseconds: 0) == time("1970-01-01T00:00:00Z"))
        #expect(Timestamp(milliseconds: 1_592_820_000_500) == time("2020-06-22T10:00:00.5Z"))
        #expect(Timestamp(milliseconds: 253_402_300_799_999) == time("9999-12-31T23:59:59.999Z"))
        let none: [Int64] = [-1, .min, 253_402_300_800_000, 1_592_820_000_500_000, 1_592_820_000_500_000_000, .max]
        for number in none {
            #expect(Timestamp(milliseconds: number) == nil)
        }
    }

    @Test("Durations are added, subtracted and measured to the microsecond")
    func arithmetic() {
        let now = time("2020-06-22T10:00:00Z")
        #expect(now + .seconds(1.5) - now == .seconds(1.5))
        #expect(now - .seconds(60) == time("2020-06-22T09:59:00Z"))
    }

    @Test("Arithmetic saturates at the distant past and future")
    func saturation() {
        let now = time("2020-06-22T10:00:00Z")
        #expect(now + .seconds(Int64.max) == .distantFuture)
        #expect(now - .seconds(Int64.max) == .distantPast)
        #expect(Timestamp.distantFuture + .seconds(1) == .distantFuture)
        #expect(Timestamp.distantPast - .seconds(1) == .distantPast)
        #expect(Timestamp.distantFuture - .distantPast == .microseconds(Int64.max))
        #expect(Timestamp.distantPast - .distantFuture == .microseconds(Int64.min))
    }

    @Test("The distant past and future have a text")
    func distantTexts() {
        #expect(Timestamp.distantFuture.rfc3339.hasSuffix("Z"))
        #expect(Timestamp.distantPast.rfc3339.hasPrefix("-"))
    }

    @Test("Whole microseconds of a duration saturate and are rounded towards zero")
    func wholeMicroseconds() {
        #expect(Duration.seconds(Int64.min).wholeMicroseconds == .min)
        #expect(Duration.nanoseconds(1999).wholeMicroseconds == 1)
        #expect(Duration.nanoseconds(-1999).wholeMicroseconds == -1)
    }
}
