import Foundation
import WidgetModel

/// Short texts of times in a time zone.
struct LocalClock: Sendable {
    /// IANA name of the zone that is used.
    let timeZone: String
    private let zone: TimeZone

    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// - Parameter timeZone: an IANA name; UTC is used if it is not known.
    init(timeZone: String) {
        let zone = TimeZone(identifier: timeZone)
        self.timeZone = zone == nil ? "UTC" : timeZone
        self.zone = zone ?? .gmt
    }

    /// `22 Jun 14:05`
    func text(_ time: Timestamp) -> String { "\(day(time)) \(clock(time))" }

    /// `14:05`
    func clock(_ time: Timestamp) -> String { String(local(time).dropFirst(11).prefix(5)) }

    /// `22 Jun`
    func day(_ time: Timestamp) -> String {
        let parts = local(time).prefix(10).split(separator: "-")
        guard parts.count == 3, let month = Int(parts[1]), let day = Int(parts[2]) else { return "" }
        return "\(day) \(Self.months[month - 1])"
    }

    /// Seconds that local time is ahead of UTC.
    func offset(at time: Timestamp) -> Int64 {
        Int64(zone.secondsFromGMT(for: Date(timeIntervalSince1970: Double(time.microseconds) / 1_000_000)))
    }

    /// Local date and time in the form of RFC 3339.
    private func local(_ time: Timestamp) -> String { (time + .seconds(offset(at: time))).rfc3339 }
}
