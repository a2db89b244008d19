import FreshetService
import WidgetModel

/// Trends in a soak's samples, which show whether its figures stay stable.
struct SoakTrends: Sendable {
    let samples: [LoadSample]
    let spans: [LoadCharts.Span]

    /// Longest part of the run, in seconds, that is compared at the beginning and at the end.
    private static let longest = 600.0

    /// The mean of a value over a time span; nil without samples. A sample belongs to the span that contains the
    /// sample's time.
    func mean(_ key: LoadSample.Key, from: Double, to: Double) -> Double? {
        let values = samples.filter { $0.seconds > from && $0.seconds <= to }.compactMap { $0.values[key] }
        return values.isEmpty ? nil : values.reduce(0, +) / Double(values.count)
    }

    private func largest(_ key: LoadSample.Key) -> Double? {
        samples.compactMap { $0.values[key] }.max()
    }

    /// The first and last part of the run with their ratio, and the differences while a transaction is held open.
    var members: [(key: String, value: JSONValue)] {
        guard let end = samples.last?.seconds else { return [] }
        let part = min(Self.longest, end / 3)
        // The beginning of the run is a warm-up.
        let skipped = min(30, end / 10)
        func trend(_ key: LoadSample.Key) -> JSONValue {
            let first = mean(key, from: skipped, to: skipped + part)
            let last = mean(key, from: end - part, to: end)
            let ratio: Double? =
                if let first, let last, first > 0 { last / first } else { nil }
            return ["first": .rounded(first), "last": .rounded(last), "ratio": .rounded(ratio)]
        }
        var members: [(key: String, value: JSONValue)] = [
            (
                "trends",
                [
                    "partSeconds": .rounded(part), "timelinesPerSecond": trend(.timelinesPerSecond),
                    "p99": trend(.p99), "residentBytes": trend(.residentBytes),
                    "stateTableBytes": trend(.stateTableBytes), "stateIndexBytes": trend(.stateIndexBytes),
                ]
            ),
            (
                "largest",
                [
                    "stateTableBytes": .rounded(largest(.stateTableBytes)),
                    "stateIndexBytes": .rounded(largest(.stateIndexBytes)),
                    "deadTuples": .rounded(largest(.deadTuples)),
                    "residentBytes": .rounded(largest(.residentBytes)),
                ]
            ),
        ]
        if let span = spans.first {
            let before = mean(.timelinesPerSecond, from: skipped, to: span.from)
            let held = mean(.timelinesPerSecond, from: span.from, to: span.to)
            let ratio: Double? =
                if let before, let held, before > 0 { held / before } else { nil }
            members.append(
                (
                    "whileHeld",
                    [
                        "timelinesPerSecond": .rounded(held), "before": .rounded(before), "ratio": .rounded(ratio),
                        "secondsUntilDeadTuplesAreBack": .rounded(secondsUntilBack([.deadTuples], after: span)),
                        "secondsUntilSizesAreBack": .rounded(
                            secondsUntilBack([.stateTableBytes, .stateIndexBytes], after: span)),
                    ]
                ))
        }
        return members
    }

    /// Seconds from the end of the span until all of these values are at most 1.5 times their largest value before it.
    /// Nil if they do not get there within the run.
    private func secondsUntilBack(_ keys: [LoadSample.Key], after span: LoadCharts.Span) -> Double? {
        var limits: [LoadSample.Key: Double] = [:]
        for key in keys {
            let before = samples.filter { $0.seconds < span.from }.compactMap { $0.values[key] }
            guard let most = before.max() else { return nil }
            limits[key] = most * 1.5
        }
        return samples.first { sample in
            sample.seconds >= span.to && limits.allSatisfy { sample.values[$0.key] ?? .infinity <= $0.value }
        }.map { $0.seconds - span.to }
    }
}
