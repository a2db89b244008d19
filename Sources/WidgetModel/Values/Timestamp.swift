// SPDX-License-Identifier: Apache-2.0

import JSON

/// A point in time in microseconds since the Unix epoch, the resolution of PostgreSQL's `timestamptz`.
///
/// Arithmetic saturates at the ends of the range, so no input can trap.
package struct Timestamp: Hashable, Comparable, Sendable, CustomStringConvertible {
    package var microseconds: Int64

    package init(microseconds: Int64) {
        self.microseconds = microseconds
    }

    /// Later than every time; PostgreSQL's `infinity`.
    package static let distantFuture = Timestamp(microseconds: .max)
    /// Earlier than every time; PostgreSQL's `-infinity`.
    package static let distantPast = Timestamp(microseconds: .min)

    package static func < (left: Timestamp, right: Timestamp) -> Bool {
        left.microseconds < right.microseconds
    }

    package static func + (time: Timestamp, duration: Duration) -> Timestamp {
        let microseconds = duration.wholeMicroseconds
        let (sum, overflow) = time.microseconds.addingReportingOverflow(microseconds)
        if overflow || microseconds == .max || microseconds == .min {
            return duration < .zero ? .distantPast : .distantFuture
        }
        return Timestamp(microseconds: sum)
    }

    package static func - (time: Timestamp, duration: Duration) -> Timestamp { time + (.zero - duration) }

    /// Time from `right` to `left`; negative when `left` is before.
    package static func - (left: Timestamp, right: Timestamp) -> Duration {
        let (difference, overflow) = left.microseconds.subtractingReportingOverflow(right.microseconds)
        return Duration(wholeMicroseconds: overflow ? (left < right ? .min : .max) : difference)
    }

    package var description: String { rfc3339 }

    /// The time of a stored change; `distantPast`, which no change precedes, for one after now.
    ///
    /// A clock that was ahead has stored such a time, and it says nothing about the order of changes.
    package func usable(at now: Timestamp) -> Timestamp { self > now ? .distantPast : self }
}

extension Duration {
    private static let attosecondsInMicrosecond: Int128 = 1_000_000_000_000

    /// Whole microseconds, rounded towards zero, saturating.
    package var wholeMicroseconds: Int64 { Int64(clamping: attoseconds / Self.attosecondsInMicrosecond) }

    /// The duration of a number of microseconds: `microseconds(_:)` for a known type of number, without its cost.
    init(wholeMicroseconds: Int64) {
        self.init(attoseconds: Int128(wholeMicroseconds) * Self.attosecondsInMicrosecond)
    }
}

// MARK: - RFC 3339

extension Timestamp {
    /// Reads an RFC 3339 date-time with its offset, such as `2020-06-22T10:00:00.5+02:00`.
    ///
    /// Strict: the offset is required, and years are 0001 to 9999, as written and in UTC. Digits beyond microseconds
    /// are cut off. A leap second (`23:59:60` UTC) is read as the second that follows it.
    package init?(rfc3339 text: String) {
        self.init(rfc3339: Array(text.utf8)[...])
    }

    /// Reads an RFC 3339 date-time from bytes; see `init(rfc3339:)`.
    package init?(rfc3339 bytes: ArraySlice<UInt8>) { self.init(rfc3339: bytes.span) }

    /// Reads an RFC 3339 date-time from bytes; see `init(rfc3339:)`.
    package init?(rfc3339 bytes: Span<UInt8>) {
        guard bytes.count >= 20 else { return nil }
        let fields = DateFields(bytes)
        guard fields.areDigits, let (microseconds, offset) = Self.fractionAndOffset(bytes) else { return nil }
        let (year, month, day) = (fields.year, fields.month, fields.day)
        let (hour, minute, second) = (fields.hour, fields.minute, fields.second)
        guard year >= 1, (1...12).contains(month), day >= 1,
            day <= 28 || day <= Self.days(inMonth: month, of: year), hour <= 23, minute <= 59, second <= 60
        else { return nil }
        let days = Self.dayNumber(year: year, month: month, day: day)
        let minutes = days * 1440 + hour * 60 + minute - offset
        if second == 60 {
            // A leap second is always the last of a UTC day.
            let minuteOfDay = ((minutes % 1440) + 1440) % 1440
            guard minuteOfDay == 1439 else { return nil }
        }
        let time = (minutes * 60 + second) * 1_000_000 + microseconds
        // The offset may move it into a year that cannot be written.
        guard Self.writable.contains(time) else { return nil }
        self.init(microseconds: time)
    }

    /// The fraction of a second in microseconds and the offset in minutes east of UTC, which end the bytes.
    @inline(__always)
    private static func fractionAndOffset(_ bytes: Span<UInt8>) -> (microseconds: Int64, minutes: Int64)? {
        var scanner = DigitScanner(position: 19, count: bytes.count)
        // Most times are whole seconds in UTC.
        if bytes.count == 20, scanner.take(bytes, "Z", or: "z") { return (0, 0) }
        guard let microseconds = scanner.fraction(bytes), let minutes = scanner.offsetMinutes(bytes), scanner.isAtEnd
        else { return nil }
        return (microseconds, minutes)
    }

    /// Reads milliseconds since 1970, such as the timestamp of a Kafka message.
    ///
    /// The result is nil for a negative number, and for a time that RFC 3339 cannot express: such a number is most
    /// probably one of microseconds or nanoseconds.
    package init?(milliseconds: Int64) {
        let (microseconds, overflow) = milliseconds.multipliedReportingOverflow(by: 1_000)
        guard milliseconds >= 0, !overflow, Self.writable.contains(microseconds) else { return nil }
        self.init(microseconds: microseconds)
    }

    /// From 0001-01-01T00:00:00Z until before the year 10000.
    private static let writable: Range<Int64> = -62_135_596_800_000_000..<253_402_300_800_000_000

    /// RFC 3339 in UTC, with a fraction of a second only if there is one, such as `2020-06-22T08:00:00.5Z`.
    ///
    /// Years outside 0000 to 9999, which RFC 3339 cannot express, are written with all their digits.
    package var rfc3339: String {
        var out: [UInt8] = []
        out.reserveCapacity(32)
        appendRFC3339(to: &out)
        return String(decoding: out, as: UTF8.self)
    }

    /// Appends ``rfc3339``.
    func appendRFC3339(to out: inout [UInt8]) {
        let (seconds, fraction) = Self.floorDivide(microseconds, by: 1_000_000)
        let (days, second) = Self.floorDivide(seconds, by: 86_400)
        let date = Self.date(dayNumber: days)
        if date.year < 0 { out.append(UInt8(ascii: "-")) }
        let year = date.year.magnitude
        if year > 9999 { out.append(String(year / 10_000)) }
        let (minute, hour) = (second / 60, second / 3600)
        // Zeros and separators as in `DateFields`, and a Z that is left out before a fraction.
        let words = (
            0x2D30_302D_3030_3030 &+ Self.digits(year / 100) &+ Self.digits(year % 100) &<< 16
                &+ Self.digits(date.month.magnitude) &<< 40,
            0x3030_3A30_3054_3030 &+ Self.digits(date.day.magnitude) &+ Self.digits(hour.magnitude) &<< 24
                &+ Self.digits(minute.magnitude % 60) &<< 48,
            0x5A30_303A &+ Self.digits(second.magnitude % 60) &<< 8
        )
        out.append(words: words, count: fraction == 0 ? 20 : 19)
        guard fraction != 0 else { return }
        out.append(UInt8(ascii: "."))
        let digits = fraction.magnitude
        let word =
            0x3030_3030_3030 &+ Self.digits(digits / 10_000) &+ Self.digits(digits / 100) &<< 16
            &+ Self.digits(digits) &<< 32
        out.append(words: (word, 0, 0), count: 6)
        while out.last == UInt8(ascii: "0") { out.removeLast() }
        out.append(UInt8(ascii: "Z"))
    }

    private static func floorDivide(_ value: Int64, by divisor: Int64) -> (quotient: Int64, remainder: Int64) {
        let (quotient, remainder) = value.quotientAndRemainder(dividingBy: divisor)
        return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
    }

    /// The last two decimal digits of a number, the first one in the lowest byte.
    private static func digits(_ number: UInt64) -> UInt64 {
        let pair = number % 100
        return pair / 10 | (pair % 10) &<< 8
    }
}

/// Days of the proleptic Gregorian calendar, counted from 1970-01-01 (Howard Hinnant's algorithms).
extension Timestamp {
    private static func date(dayNumber: Int64) -> (year: Int64, month: Int64, day: Int64) {
        // Eras of 400 years that start on 1 March, so that the leap day is the last of its year.
        let shifted = dayNumber + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * shiftedMonth + 2) / 5 + 1)
    }

    /// - Parameter year: from 1.
    private static func dayNumber(year: Int64, month: Int64, day: Int64) -> Int64 {
        let year = UInt32(truncatingIfNeeded: month <= 2 ? year - 1 : year)
        let month = UInt32(truncatingIfNeeded: month > 2 ? month - 3 : month + 9)
        let century = year / 100
        let days = 365 &* year &+ year / 4 &- century &+ century / 4 &+ (153 &* month &+ 2) / 5
        return Int64(days) + day - 719_469
    }

    private static func days(inMonth month: Int64, of year: Int64) -> Int64 {
        switch month {
        case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }
}

/// The fields of `YYYY-MM-DDTHH:MM:SS`, read as words of eight bytes.
private struct DateFields {
    /// Whether digits and separators are in their places. Otherwise the fields are meaningless.
    let areDigits: Bool
    let year: Int64, month: Int64, day: Int64, hour: Int64, minute: Int64, second: Int64

    /// - Parameter bytes: at least 19.
    init(_ bytes: Span<UInt8>) {
        /// The values of digits in place of the bytes from an index on, and zeros for separators.
        func word(_ index: Int, _ form: UInt64) -> UInt64 {
            unsafe UInt64(littleEndian: bytes.bytes.unsafeLoadUnaligned(fromByteOffset: index, as: UInt64.self)) ^ form
        }
        // The forms are `0000-00-`, `00T00:00` and `00:00:00`; a small `t` is allowed, too.
        let date = word(0, 0x2D30_302D_3030_3030)
        let time = word(8, 0x3030_3A30_3054_3030) & ~0x0020_0000
        let end = word(11, 0x3030_3A30_303A_3030)
        // Digits have at most 9 in their bytes, separators 0. A sum with 6 has a high nibble for a larger one.
        func isForm(_ word: UInt64, _ digits: UInt64) -> Bool {
            (word | (word &+ (digits & 0x0606_0606_0606_0606))) & (0xF0F0_F0F0_F0F0_F0F0 | ~digits) == 0
        }
        areDigits =
            isForm(date, 0x00FF_FF00_FFFF_FFFF) && isForm(time, 0xFFFF_00FF_FF00_FFFF)
            && isForm(end, 0xFFFF_00FF_FF00_FFFF)
        /// Number of the two digits from a byte on.
        func pair(_ word: UInt64, _ byte: UInt64) -> Int64 {
            let digits = word &>> (8 &* byte)
            return Int64(truncatingIfNeeded: (digits & 0xF) &* 10 &+ (digits &>> 8) & 0xF)
        }
        (year, month, day) = (pair(date, 0) &* 100 &+ pair(date, 2), pair(date, 5), pair(time, 0))
        (hour, minute, second) = (pair(time, 3), pair(time, 6), pair(end, 6))
    }
}

/// Reads decimal fields.
private struct DigitScanner {
    private var position: Int
    private let count: Int

    init(position: Int, count: Int) {
        self.position = position
        self.count = count
    }

    var isAtEnd: Bool { position == count }

    @inline(__always)
    mutating func take(_ bytes: Span<UInt8>, _ scalar: Unicode.Scalar, or other: Unicode.Scalar? = nil) -> Bool {
        guard position < count else { return false }
        let found = Unicode.Scalar(bytes[position])
        guard found == scalar || found == other else { return false }
        position += 1
        return true
    }

    @inline(__always)
    private mutating func digit(_ bytes: Span<UInt8>) -> Int64? {
        guard position < count, bytes[position].isASCIIDigit else { return nil }
        defer { position += 1 }
        return Int64(bytes[position] - 48)
    }

    @inline(__always)
    mutating func number(_ bytes: Span<UInt8>, digits: Int, in range: ClosedRange<Int64>) -> Int64? {
        var value: Int64 = 0
        for _ in 0..<digits {
            guard let digit = digit(bytes) else { return nil }
            value = value * 10 + digit
        }
        return range.contains(value) ? value : nil
    }

    /// The fraction of a second in microseconds, or 0. Digits after the sixth are dropped.
    mutating func fraction(_ bytes: Span<UInt8>) -> Int64? {
        guard take(bytes, ".") else { return 0 }
        var (value, unit): (Int64, Int64) = (0, 100_000)
        guard let first = digit(bytes) else { return nil }
        var next: Int64? = first
        while let digit = next {
            value += digit * unit
            unit /= 10
            next = self.digit(bytes)
        }
        return value
    }

    /// `Z` or `±HH:MM`, in minutes east of UTC.
    mutating func offsetMinutes(_ bytes: Span<UInt8>) -> Int64? {
        if take(bytes, "Z", or: "z") { return 0 }
        let isEast = take(bytes, "+")
        guard isEast || take(bytes, "-"), let hours = number(bytes, digits: 2, in: 0...23), take(bytes, ":"),
            let minutes = number(bytes, digits: 2, in: 0...59)
        else { return nil }
        return (isEast ? 1 : -1) * (hours * 60 + minutes)
    }
}

extension Duration {
    /// Description of durations as text, for messages.
    package static let textForm = "a duration such as 250ms, 10s, 5m, 1h or 14d"

    private static let units: [(suffix: String, milliseconds: Int64)] = [
        ("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000),
    ]

    /// Reads a whole number with a unit, as in manifests, settings and options; nil for anything else and for more than
    /// a thousand years.
    package init?(text: String) {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        guard !digits.isEmpty, let count = Int64(digits),
            let unit = Self.units.first(where: { $0.suffix == text.dropFirst(digits.count) })
        else { return nil }
        let (milliseconds, overflows) = count.multipliedReportingOverflow(by: unit.milliseconds)
        guard !overflows, milliseconds <= 365_000 * 86_400_000 else { return nil }
        self = .milliseconds(milliseconds)
    }

    /// The duration as ``init(text:)`` reads it, rounded down to milliseconds, in the largest unit that leaves no
    /// fraction.
    package var text: String {
        let (seconds, attoseconds) = components
        let milliseconds = seconds * 1_000 + attoseconds / 1_000_000_000_000_000
        guard milliseconds != 0 else { return "0s" }
        let unit = Self.units.last { milliseconds % $0.milliseconds == 0 } ?? Self.units[0]
        return "\(milliseconds / unit.milliseconds)\(unit.suffix)"
    }

    /// A duration from seconds in JSON, to the millisecond; nil if it is negative or more than a thousand years.
    init?(jsonSeconds seconds: Double) {
        guard seconds >= 0, seconds <= 365_000 * 86_400 else { return nil }
        self = .milliseconds(Int64((seconds * 1_000).rounded()))
    }

    /// Seconds as a JSON number.
    var jsonSeconds: JSONValue {
        let milliseconds = wholeMicroseconds / 1_000
        if milliseconds % 1_000 == 0 { return .count(milliseconds / 1_000) }
        return .decimal(Double(milliseconds) / 1_000)
    }
}

extension Duration {
    /// For people, rounded down to the two largest units: `4 min 10 s`. Below ten seconds, with tenths.
    package var words: String {
        let seconds = max(0, components.seconds)
        switch seconds {
        case ..<10: return "\(Double(max(0, wholeMicroseconds) / 100_000) / 10) s"
        case ..<60: return "\(seconds) s"
        case ..<3_600: return "\(seconds / 60) min \(seconds % 60) s"
        case ..<86_400: return "\(seconds / 3_600) h \(seconds % 3_600 / 60) min"
        default: return "\(seconds / 86_400) d \(seconds % 86_400 / 3_600) h"
        }
    }
}

extension Timestamp {
    /// RFC 3339 without a fraction of a second, for people.
    package var wholeSeconds: String {
        Timestamp(microseconds: microseconds / 1_000_000 * 1_000_000).rfc3339
    }

    /// `at 2026-01-01T09:00:00Z (in 4 min 10 s)`, or `(4 min 10 s ago)`.
    package func words(from now: Timestamp) -> String {
        let distance = self > now ? "in \((self - now).words)" : "\((now - self).words) ago"
        return "at \(wholeSeconds) (\(distance))"
    }
}
