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
