import Foundation
import WidgetModel

/// A calendar day in a time zone.
struct LocalDay {
    /// `2026-06-22`
    let name: String
    let timeZone: String
    /// 23 to 25 hours: a day on which the clocks change is shorter or longer.
    let range: Range<Timestamp>

    private let calendar: Calendar

    /// - Parameters:
    ///   - name: a date such as `2026-06-22`; nil: the day of `now`.
    ///   - timeZone: an IANA name. The result is nil if it is not known.
    init?(_ name: String?, timeZone: String, now: Timestamp) {
        guard let zone = TimeZone(identifier: timeZone) else { return nil }
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = zone
        guard let noon = name.map({ Self.noon($0, calendar) }) ?? Self.date(now),
            let interval = calendar.dateInterval(of: .day, for: noon)
        else { return nil }
        let parts = calendar.dateComponents([.year, .month, .day], from: noon)
        self.name = String(format: "%04d-%02d-%02d", parts.year ?? 0, parts.month ?? 0, parts.day ?? 0)
        self.timeZone = timeZone
        self.calendar = calendar
        range = Self.timestamp(interval.start)..<Self.timestamp(interval.end)
    }

    /// Whether a text is a date of the calendar.
    static func isValid(_ name: String) -> Bool {
        let calendar = Calendar(identifier: .gregorian)
        guard name.utf8.count == 10, let noon = noon(name, calendar) else { return false }
        let parts = calendar.dateComponents([.year, .month, .day], from: noon)
        return String(format: "%04d-%02d-%02d", parts.year ?? 0, parts.month ?? 0, parts.day ?? 0) == name
    }

    /// `09:41`
    func clock(_ time: Timestamp) -> String {
        let parts = calendar.dateComponents([.hour, .minute], from: Self.date(time))
        return String(format: "%02d:%02d", parts.hour ?? 0, parts.minute ?? 0)
    }

    private static func noon(_ name: String, _ calendar: Calendar) -> Date? {
        let numbers = name.split(separator: "-", omittingEmptySubsequences: false).map { Int($0) }
        guard numbers.count == 3, let year = numbers[0], let month = numbers[1], let day = numbers[2] else {
            return nil
        }
        return calendar.date(from: DateComponents(year: year, month: month, day: day, hour: 12))
    }

    private static func date(_ time: Timestamp) -> Date {
        Date(timeIntervalSince1970: Double(time.microseconds) / 1_000_000)
    }

    private static func timestamp(_ date: Date) -> Timestamp {
        Timestamp(microseconds: Int64((date.timeIntervalSince1970 * 1_000_000).rounded()))
    }
}
