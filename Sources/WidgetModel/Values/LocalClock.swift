// SPDX-License-Identifier: Apache-2.0

import Foundation

/// Times in a time zone, as people read them.
package struct LocalClock: Sendable {
    /// IANA name of the zone.
    package let timeZone: String
    private let zone: TimeZone

    package static let utc = LocalClock(timeZone: "UTC", zone: .gmt)

    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    private init(timeZone: String, zone: TimeZone) {
        self.timeZone = timeZone
        self.zone = zone
    }

    /// - Parameter timeZone: an IANA name. The result is nil if it is not known.
    package init?(timeZone: String) {
        guard let zone = TimeZone(identifier: timeZone) else { return nil }
        self.init(timeZone: timeZone, zone: zone)
    }

    /// Time that local time is ahead of UTC.
    package func offset(at time: Timestamp) -> Duration {
        .seconds(zone.secondsFromGMT(for: Date(timeIntervalSince1970: Double(time.microseconds) / 1_000_000)))
    }

    // MARK: Texts

    /// Local date and time in the form of RFC 3339.
    private func local(_ time: Timestamp) -> String { (time + offset(at: time)).rfc3339 }

    /// `14:05`
    package func clock(_ time: Timestamp) -> String { String(local(time).dropFirst(11).prefix(5)) }

    /// `2026-06-22`
    package func date(_ time: Timestamp) -> String { String(local(time).prefix(10)) }

    /// `22 Jun`
    package func day(_ time: Timestamp) -> String {
        let parts = date(time).split(separator: "-")
        guard parts.count == 3, let month = Int(parts[1]), let day = Int(parts[2]) else { return "" }
        return "\(day) \(Self.months[month - 1])"
    }

    /// `22 Jun 14:05`
    package func text(_ time: Timestamp) -> String { "\(day(time)) \(clock(time))" }

    /// `2026-06-22 14:05:03 UTC`
    package func full(_ time: Timestamp) -> String {
        "\(date(time)) \(local(time).dropFirst(11).prefix(8)) \(timeZone)"
    }

    // MARK: Days

    /// The calendar day of a date such as `2026-06-22`; nil for another text.
    ///
    /// A day on which the clocks change is shorter or longer than 24 hours.
    package func day(of date: String) -> Range<Timestamp>? {
        guard date.utf8.count == 10, let midnight = Timestamp(rfc3339: "\(date)T00:00:00Z") else { return nil }
        let start = beginning(of: midnight)
        return start..<max(start, beginning(of: midnight + .seconds(86_400)))
    }

    /// The first moment of the calendar day after that of a time.
    package func nextDay(after time: Timestamp) -> Timestamp {
        day(of: date(time))?.upperBound ?? time + .seconds(86_400)
    }

    /// The first moment of a day.
    ///
    /// - Parameter midnight: the day's midnight in UTC.
    private func beginning(of midnight: Timestamp) -> Timestamp {
        // The offset may change at midnight itself, which may not exist or come twice.
        let day = LocalClock.utc.date(midnight)
        let moments = [-1, 1].map { midnight - offset(at: midnight + .seconds(86_400) * $0) }
        return moments.filter { date($0) == day }.min() ?? moments[1]
    }
}

extension Timestamp {
    /// The time of this machine, for tokens, signatures and published events. Leases and due times depend on the
    /// database's clock alone.
    package static func now() -> Timestamp {
        Timestamp(microseconds: Int64((Date().timeIntervalSince1970 * 1_000_000).rounded()))
    }
}
