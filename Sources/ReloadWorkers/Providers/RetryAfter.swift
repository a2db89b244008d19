package import NIOHTTP1
package import WidgetModel

/// The header `Retry-After` (RFC 9110, section 10.2.3): seconds, or a date.
package enum RetryAfter {
    /// Delay requested by an answer with these headers; nil without one.
    package static func delay(of headers: HTTPHeaders, now: Timestamp) -> Duration? {
        headers.first(name: "retry-after").flatMap { delay($0, date: headers.first(name: "date"), now: now) }
    }

    /// Delay of a header's value; nil if it is invalid. Past dates give zero.
    ///
    /// - Parameters:
    ///   - date: the answer's `Date`, so that only the provider's clock counts.
    ///   - now: time of day, for answers without a date.
    static func delay(_ text: String, date: String?, now: Timestamp) -> Duration? {
        let text = trimmed(text)
        guard !text.isEmpty else { return nil }
        if text.utf8.allSatisfy({ (48...57).contains($0) }) {
            // A number that does not fit is a very long time.
            return .seconds(min(Int64(text) ?? .max, longest))
        }
        guard let time = HTTPDate.parse(text) else { return nil }
        let base = date.flatMap { HTTPDate.parse(trimmed($0)) } ?? now
        return max(.zero, time - base)
    }

    /// Upper limit: a century.
    private static let longest: Int64 = 3_155_760_000

    private static func trimmed(_ text: String) -> String {
        String(text.drop { $0 == " " || $0 == "\t" }.reversed().drop { $0 == " " || $0 == "\t" }.reversed())
    }
}

/// Dates of HTTP (RFC 9110, section 5.6.7).
enum HTTPDate {
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// Reads the usual form `Sun, 06 Nov 1994 08:49:37 GMT`, ignoring the day of the week.
    static func parse(_ text: String) -> Timestamp? {
        guard let parts = text.wholeMatch(of: /[A-Z][a-z]{2}, ([0-9]{2}) ([A-Z][a-z]{2}) ([0-9]{4}) ([0-9:]{8}) GMT/),
            let month = months.firstIndex(of: String(parts.2))
        else { return nil }
        // Checks the ranges.
        return Timestamp(rfc3339: "\(parts.3)-\(month < 9 ? "0" : "")\(month + 1)-\(parts.1)T\(parts.4)Z")
    }
}
