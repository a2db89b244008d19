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
        var scanner = DigitScanner(count: bytes.count)
        guard let year = scanner.number(bytes, digits: 4, in: 1...9999), scanner.take(bytes, "-"),
            let month = scanner.number(bytes, digits: 2, in: 1...12), scanner.take(bytes, "-"),
            let day = scanner.number(bytes, digits: 2, in: 1...CivilDate.days(inMonth: month, of: year)),
            scanner.take(bytes, "T", or: "t"), let hour = scanner.number(bytes, digits: 2, in: 0...23),
            scanner.take(bytes, ":"),
            let minute = scanner.number(bytes, digits: 2, in: 0...59), scanner.take(bytes, ":"),
            let second = scanner.number(bytes, digits: 2, in: 0...60), let microseconds = scanner.fraction(bytes),
            let offset = scanner.offsetMinutes(bytes), scanner.isAtEnd
        else { return nil }
        let days = CivilDate.dayNumber(year: year, month: month, day: day)
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
        let date = CivilDate(dayNumber: days)
        if date.year < 0 { out.append(UInt8(ascii: "-")) }
        Self.append(date.year.magnitude, digits: 4, to: &out)
        let fields: [(Unicode.Scalar, Int64)] = [
            ("-", date.month), ("-", date.day), ("T", second / 3600), (":", second / 60 % 60), (":", second % 60),
        ]
        for (separator, field) in fields {
            out.append(UInt8(ascii: separator))
            Self.append(field.magnitude, digits: 2, to: &out)
        }
        if fraction != 0 {
            out.append(UInt8(ascii: "."))
            Self.append(fraction.magnitude, digits: 6, to: &out)
            while out.last == UInt8(ascii: "0") { out.removeLast() }
        }
        out.append(UInt8(ascii: "Z"))
    }

    private static func floorDivide(_ value: Int64, by divisor: Int64) -> (quotient: Int64, remainder: Int64) {
        let (quotient, remainder) = value.quotientAndRemainder(dividingBy: divisor)
        return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
    }

    /// Appends at least `digits` decimal digits.
    private static func append(_ value: UInt64, digits: Int, to out: inout [UInt8]) {
        var divisor: UInt64 = 1
        var count = 1
        while count < digits || value / divisor >= 10 {
            divisor *= 10
            count += 1
        }
        while divisor > 0 {
            out.append(UInt8(ascii: "0") + UInt8(value / divisor % 10))
            divisor /= 10
        }
    }
}

/// Days of the proleptic Gregorian calendar, counted from 1970-01-01 (Howard Hinnant's algorithms).
struct CivilDate {
    let year: Int64
    let month: Int64
    let day: Int64

    init(dayNumber: Int64) {
        // Eras of 400 years that start on 1 March, so that the leap day is the last of its year.
        let shifted = dayNumber + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
        month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    }

    static func dayNumber(year: Int64, month: Int64, day: Int64) -> Int64 {
        let shiftedYear = month <= 2 ? year - 1 : year
        let era = (shiftedYear >= 0 ? shiftedYear : shiftedYear - 399) / 400
        let yearOfEra = shiftedYear - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }

    static func days(inMonth month: Int64, of year: Int64) -> Int64 {
        switch month {
        case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }
}

/// Reads fixed-width decimal fields.
private struct DigitScanner {
    private let count: Int
    private var position = 0

    init(count: Int) {
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
