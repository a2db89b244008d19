import WidgetModel

/// The header `Retry-After` (RFC 9110, section 10.2.3): seconds, or a date in any of HTTP's three forms.
enum RetryAfter {
    /// How long to wait; nil when it says nothing that can be read. What is past is zero.
    ///
    /// - Parameters:
    ///   - date: the answer's own `Date`, so that only the provider's clock is compared with itself.
    ///   - now: time of day, for answers without a date.
    static func delay(_ text: String, date: String?, now: Timestamp) -> Duration? {
        let text = trimmed(text)
        guard !text.isEmpty else { return nil }
        if text.utf8.allSatisfy({ (48...57).contains($0) }) {
            // More digits than fit are a very long time.
            return .seconds(min(Int64(text) ?? .max, longest))
        }
        guard let time = HTTPDate.parse(text, now: now) else { return nil }
        let base = date.flatMap { HTTPDate.parse(trimmed($0), now: now) } ?? now
        return max(.zero, time - base)
    }

    /// A century: what is longer is no different.
    private static let longest: Int64 = 3_155_760_000

    private static func trimmed(_ text: String) -> String {
        String(text.drop { $0 == " " || $0 == "\t" }.reversed().drop { $0 == " " || $0 == "\t" }.reversed())
    }
}

/// Dates as HTTP writes them (RFC 9110, section 5.6.7).
enum HTTPDate {
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// Reads `Sun, 06 Nov 1994 08:49:37 GMT`, `Sunday, 06-Nov-94 08:49:37 GMT` and `Sun Nov  6 08:49:37 1994`. The day of
    /// the week is not looked at.
    static func parse(_ text: String, now: Timestamp) -> Timestamp? {
        guard text.utf8.count <= 64, text.utf8.allSatisfy({ $0 < 128 }) else { return nil }
        let words = text.split(separator: " ").map(String.init)
        switch words.count {
        case 6:
            guard words[0].hasSuffix(","), words[5] == "GMT" else { return nil }
            return timestamp(day: words[1], month: words[2], year: number(words[3], digits: 4), time: words[4])
        case 4:
            guard words[0].hasSuffix(","), words[3] == "GMT" else { return nil }
            let parts = words[1].split(separator: "-", omittingEmptySubsequences: false).map(String.init)
            guard parts.count == 3, let year = number(parts[2], digits: 2) else { return nil }
            return timestamp(day: parts[0], month: parts[1], year: century(of: year, now: now), time: words[2])
        case 5:
            return timestamp(day: words[2], month: words[1], year: number(words[4], digits: 4), time: words[3])
        default:
            return nil
        }
    }

    /// A year of two digits that seems more than fifty years ahead is the most recent one with these digits.
    private static func century(of year: Int, now: Timestamp) -> Int {
        let current = Int(now.rfc3339.prefix(4)) ?? 2000
        let candidate = current / 100 * 100 + year
        return candidate > current + 50 ? candidate - 100 : candidate
    }

    private static func timestamp(day: String, month: String, year: Int?, time: String) -> Timestamp? {
        guard let day = number(day, digits: 1...2), let month = months.firstIndex(of: month), let year else {
            return nil
        }
        let parts = time.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 3, parts.allSatisfy({ number($0, digits: 2) != nil }) else { return nil }
        // The one reader of civil dates checks the ranges.
        return Timestamp(
            rfc3339: "\(padded(year, to: 4))-\(padded(month + 1, to: 2))-\(padded(day, to: 2))T\(time)Z")
    }

    private static func padded(_ number: Int, to digits: Int) -> String {
        let text = String(number)
        return String(repeating: "0", count: max(0, digits - text.count)) + text
    }

    private static func number(_ text: String, digits: Int) -> Int? {
        number(text, digits: digits...digits)
    }

    private static func number(_ text: String, digits: ClosedRange<Int>) -> Int? {
        guard digits.contains(text.utf8.count), text.utf8.allSatisfy({ (48...57).contains($0) }) else { return nil }
        return Int(text)
    }
}
