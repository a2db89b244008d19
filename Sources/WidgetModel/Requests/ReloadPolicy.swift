/// When a timeline may be reloaded without a request. Each case gives the *earliest* time.
package enum ReloadPolicy: Hashable, Sendable {
    /// When the last entry's date is reached.
    case atEnd
    /// At this date, wherever the entries lie.
    case after(Timestamp)
    /// Only on an explicit request.
    case never

    /// Earliest time of the next reload by policy; nil for `never`.
    package func earliestReload(lastEntry: Timestamp) -> Timestamp? {
        switch self {
        case .atEnd: lastEntry
        case .after(let date): date
        case .never: nil
        }
    }
}
