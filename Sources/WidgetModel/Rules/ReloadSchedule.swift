/// How far apart the reloads of a kind's timelines are, and how far jitter spreads those that are due at one time.
package struct ReloadSchedule: Hashable, Sendable {
    /// Least time between two reloads for budgeted reasons.
    package var minimumSpacing: Duration
    /// Lifts the spacing, for an app under development.
    package var developerMode: Bool
    /// The most that jitter may delay a reload.
    package var tolerance: Duration

    /// Least time between two reloads by policy even in developer mode: a provider whose last entry is always past must
    /// not turn into a loop.
    package static let developerSpacing: Duration = .seconds(1)
    package static let defaultTolerance: Duration = .seconds(300)

    package init(
        minimumSpacing: Duration, developerMode: Bool = false, tolerance: Duration = defaultTolerance
    ) {
        self.minimumSpacing = minimumSpacing
        self.developerMode = developerMode
        self.tolerance = tolerance
    }

    /// The spacing that holds.
    package var spacing: Duration { developerMode ? Self.developerSpacing : max(minimumSpacing, .zero) }

    /// When a budgeted reason may reload again.
    ///
    /// - Parameter time: when the timeline was rendered.
    package func eligible(after time: Timestamp) -> Timestamp {
        developerMode ? time : time + spacing
    }

    /// A delay of at most a tenth of the interval and the tolerance, the same whenever timeline and interval are.
    package func jitter(interval: Duration, timeline: TimelineID) -> Duration {
        let limit = min(interval.wholeMicroseconds / 10, tolerance.wholeMicroseconds)
        guard limit > 0 else { return .zero }
        // The id's bits are those of a hash, so any of them are uniform.
        let offset = timeline.low.multipliedFullWidth(by: UInt64(limit) + 1).high
        return .microseconds(Int64(offset))
    }
}
