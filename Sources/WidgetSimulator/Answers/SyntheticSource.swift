package import WidgetModel

/// Synthetic providers: entries for some time, then a reload by policy, and content that changes from time to time.
package struct SyntheticSource: TimelineSource {
    /// Distance of a timeline's reloads by policy.
    package var refresh: Duration
    /// Distance for certain kinds, by ``SimulationReport/Kind/title``.
    package var refreshOfKinds: [String: Duration] = [:]
    /// Mean time between two changes of a timeline's content.
    private static let changeEvery = Duration.seconds(2_400)

    package init(refresh: Duration = .seconds(1_800)) {
        self.refresh = max(refresh, .seconds(60))
    }

    package mutating func fetch(
        _ targets: ArraySlice<SimulatedTarget>, at now: Timestamp, into outcomes: inout [SimulatedFetch]
    ) {
        let period = Self.changeEvery.wholeMicroseconds
        for target in targets {
            // Timelines differ in phase, so that not all change at once.
            let phase = Int64(target.id.high % UInt64(period))
            let version = UInt64(bitPattern: (now.microseconds + phase) / period)
            let kind = refreshOfKinds.isEmpty ? nil : refreshOfKinds["\(target.identity.app) \(target.identity.kind)"]
            let lastEntry = now + (kind ?? refresh)
            let isAtEnd = target.id.high & 1 == 0
            outcomes.append(
                .answer(
                    SimulatedAnswer(
                        policy: isAtEnd ? .atEnd : .after(lastEntry), lastEntry: lastEntry,
                        hash: ContentHash(high: target.id.low, low: version))))
        }
    }
}
