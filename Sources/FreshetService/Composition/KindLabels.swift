import Synchronization
import WidgetModel
import WidgetStore

/// Labels of the kinds that have series of their own: the first that were met, up to a limit, while the process lives. All
/// others share one series.
final class KindLabels: Sendable {
    private let directory: DirectoryCache
    private let limit: Int
    private let known = Mutex<[Int32: MetricLabels]>([:])

    static let other = [("app", "other"), ("kind", "other")]

    init(directory: DirectoryCache, limit: Int) {
        self.directory = directory
        self.limit = limit
    }

    func labels(of id: Int32) -> MetricLabels {
        if let labels = known.withLock({ $0[id] }) { return labels }
        guard let kind = directory.directory().kinds[id] else { return Self.other }
        let labels = [("app", kind.app), ("kind", kind.definition.name)]
        return known.withLock { known in
            guard known.count < limit else { return Self.other }
            known[id] = labels
            return labels
        }
    }
}

/// Totals of kinds, by the labels of their series.
///
/// A kind may be counted before the directory knows it, as one of the others, and get series of its own later. Counts of the
/// others stay there: each kind's increment since the last call is added to its present series, so that nothing is counted
/// twice, and no total decreases.
final class KindTotals: Sendable {
    private struct State {
        var seen: [Int32: KindCounters] = [:]
        var totals: [String: (labels: MetricLabels, counters: KindCounters)] = [:]
    }

    private let kinds: KindLabels
    private let state = Mutex(State())

    init(_ kinds: KindLabels) {
        self.kinds = kinds
    }

    /// - Parameter counted: counts of each kind since the process started, by its row id.
    /// - Returns: the totals of each series.
    func follow(_ counted: [Int32: KindCounters]) -> [(labels: MetricLabels, counters: KindCounters)] {
        // Outside the lock, since the labels have a lock of their own.
        let labelled = counted.map { (id: $0.key, counters: $0.value, labels: kinds.labels(of: $0.key)) }
        return state.withLock { state in
            for (id, counters, labels) in labelled {
                let new = counters - (state.seen[id] ?? KindCounters())
                state.seen[id] = counters
                guard !new.isZero else { continue }
                let key = MetricBridge.key(labels)
                let before = state.totals[key]?.counters ?? KindCounters()
                state.totals[key] = (labels, before + new)
            }
            return Array(state.totals.values)
        }
    }
}
