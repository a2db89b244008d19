/// Spacing of the reloads of a kind's timelines, and the jitter that spreads simultaneous ones.
package struct ReloadSchedule: Hashable, Sendable {
    /// Minimum time between two reloads for budgeted reasons.
    package var minimumSpacing: Duration
    /// Whether the spacing is lifted, for an app under development.
    package var developerMode: Bool
    /// Longest delay through jitter.
    package var tolerance: Duration

    /// Minimum time between two reloads by policy in developer mode. It prevents a loop with a provider whose last
    /// entry is always in the past.
    package static let developerSpacing: Duration = .seconds(1)

    package init(
        minimumSpacing: Duration, developerMode: Bool = false,
        tolerance: Duration = KindDefinition.defaultReloadTolerance
    ) {
        self.minimumSpacing = minimumSpacing
        self.developerMode = developerMode
        self.tolerance = tolerance
    }

    /// The spacing in effect.
    package var spacing: Duration { developerMode ? Self.developerSpacing : max(minimumSpacing, .zero) }

    /// Earliest time at which a budgeted reason may reload again.
    ///
    /// - Parameter time: time at which the timeline was rendered.
    package func eligible(after time: Timestamp) -> Timestamp {
        developerMode ? time : time + spacing
    }

    /// Longest permitted delay of a reload that is due after `interval`: a tenth of it, at most the tolerance.
    private func allowance(_ interval: Duration) -> Int64 {
        max(0, min(interval.wholeMicroseconds / 10, tolerance.wholeMicroseconds))
    }

    /// Rounds the time up to a grid, so that many timelines share a list. The result is later by at most a quarter of
    /// the permitted delay.
    package func gridded(_ time: Timestamp, from now: Timestamp) -> Timestamp {
        time.rounded(upTo: allowance(time - now) / 4)
    }

    /// Adds jitter and rounds up to the grid. The result is later by at most the permitted delay, and depends only on
    /// the timeline and the interval.
    package func jittered(_ time: Timestamp, from now: Timestamp, timeline: TimelineID) -> Timestamp {
        let limit = allowance(time - now)
        let step = limit / 4
        guard step > 0 else { return time }
        // The id's bits are those of a hash, so any of them are distributed uniformly.
        let offset = timeline.low.multipliedFullWidth(by: UInt64(limit - step) + 1).high
        return (time + .microseconds(Int64(offset))).rounded(upTo: step)
    }
}

extension Timestamp {
    /// Rounds up to a multiple of the largest power of two, in microseconds, that does not exceed `step`.
    package func rounded(upTo step: Int64) -> Timestamp {
        guard step > 1, self != .distantFuture, self != .distantPast else { return self }
        let grid = Int64(1) << (63 - Int64(step.leadingZeroBitCount))
        let (sum, overflow) = microseconds.addingReportingOverflow(grid - 1)
        return overflow ? self : Timestamp(microseconds: sum & ~(grid - 1))
    }
}
