/// Spacing of the reloads of a kind's timelines, and the jitter that spreads simultaneous ones.
package struct ReloadSchedule: Hashable, Sendable {
    /// Least time between two reloads for budgeted reasons.
    package var minimumSpacing: Duration
    /// Lifts the spacing, for an app under development.
    package var developerMode: Bool
    /// Longest delay by jitter.
    package var tolerance: Duration

    /// Least time between two reloads by policy in developer mode, so that a provider whose last entry is always past
    /// does not cause a loop.
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

    /// Time from which a budgeted reason may reload again.
    ///
    /// - Parameter time: when the timeline was rendered.
    package func eligible(after time: Timestamp) -> Timestamp {
        developerMode ? time : time + spacing
    }

    /// Longest permitted delay of a reload that is due after `interval`: a tenth of it, at most the tolerance.
    private func allowance(_ interval: Duration) -> Int64 {
        max(0, min(interval.wholeMicroseconds / 10, tolerance.wholeMicroseconds))
    }

    /// The time on a grid, so that many timelines share a list; later by at most a quarter of the permitted delay.
    package func gridded(_ time: Timestamp, from now: Timestamp) -> Timestamp {
        time.rounded(upTo: allowance(time - now) / 4)
    }

    /// The time with jitter, on the grid: later by at most the permitted delay. A function of timeline and interval.
    package func jittered(_ time: Timestamp, from now: Timestamp, timeline: TimelineID) -> Timestamp {
        let limit = allowance(time - now)
        let step = limit / 4
        guard step > 0 else { return time }
        // The id's bits are those of a hash, so any of them are uniform.
        let offset = timeline.low.multipliedFullWidth(by: UInt64(limit - step) + 1).high
        return (time + .microseconds(Int64(offset))).rounded(upTo: step)
    }
}

extension Timestamp {
    /// Rounded up to a multiple of the greatest power of two of microseconds that is not above `step`.
    package func rounded(upTo step: Int64) -> Timestamp {
        guard step > 1, self != .distantFuture, self != .distantPast else { return self }
        let grid = Int64(1) << (63 - Int64(step.leadingZeroBitCount))
        let (sum, overflow) = microseconds.addingReportingOverflow(grid - 1)
        return overflow ? self : Timestamp(microseconds: sum & ~(grid - 1))
    }
}
