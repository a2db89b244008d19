internal import Foundation

/// A half hour of a local day around a full or half hour: number 24 is from 11:45 to 12:15.
///
/// Habits are usually at a full or half hour, a few minutes early or late; this way both sides count together.
package struct HalfHour: Hashable, Sendable {
    package static let perDay = 48

    /// Local days since 1 January 1970. The half hour around midnight belongs to the day that begins.
    package let day: Int
    /// From 0, around midnight, to 47.
    package let index: Int

    package init(day: Int, index: Int) {
        self.day = day
        self.index = index
    }

    /// - Parameter timeZone: an IANA name; an unknown one is taken for UTC.
    package init(at time: Timestamp, timeZone: String) {
        self.init(at: time, in: TimeZone(identifier: timeZone))
    }

    /// - Parameter zone: nil is UTC.
    init(at time: Timestamp, in zone: TimeZone?) {
        let seconds = time.microseconds / 1_000_000
        let offset = zone?.secondsFromGMT(for: Date(timeIntervalSince1970: Double(seconds))) ?? 0
        let local = Int(seconds) + offset + 900
        let second = ((local % 86_400) + 86_400) % 86_400
        self.init(day: (local - second) / 86_400, index: second / 1_800)
    }

    /// Next full quarter of an hour. Half hours of every time zone begin at one.
    static func nextQuarter(after time: Timestamp) -> Timestamp {
        let quarter: Int64 = 900 * 1_000_000
        return Timestamp(microseconds: (time.microseconds / quarter + 1) * quarter)
    }

    /// From 0, Monday, to 6.
    package var weekday: Int { (((day + 3) % 7) + 7) % 7 }

    var isWeekend: Bool { weekday > 4 }

    /// The half hour in words, such as "between 11:45 and 12:15".
    var words: String {
        func clock(_ minute: Int) -> String {
            let (hours, minutes) = ((minute + 1_440) % 1_440).quotientAndRemainder(dividingBy: 60)
            return "\(hours < 10 ? "0" : "")\(hours):\(minutes < 10 ? "0" : "")\(minutes)"
        }
        return "between \(clock(index * 30 - 15)) and \(clock(index * 30 + 15))"
    }
}
