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
        guard overflow else { return .microseconds(difference) }
        return .microseconds(left < right ? Int64.min : Int64.max)
    }

    package var description: String { rfc3339 }

    /// The time of a stored change; `distantPast`, which no change precedes, for one after now.
    ///
    /// A clock that was ahead has stored such a time, and it says nothing about the order of changes.
    package func usable(at now: Timestamp) -> Timestamp { self > now ? .distantPast : self }
}

extension Duration {
    /// Whole microseconds, rounded towards zero, saturating.
    package var wholeMicroseconds: Int64 {
        let (seconds, attoseconds) = components
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000)
        guard !overflow else { return seconds < 0 ? .min : .max }
        let (sum, sumOverflow) = product.addingReportingOverflow(attoseconds / 1_000_000_000_000)
        guard !sumOverflow else { return seconds < 0 ? .min : .max }
        return sum
    }
}
