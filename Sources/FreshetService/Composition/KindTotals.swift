import Synchronization
import WidgetModel

/// What kinds came to, by the labels of their series.
///
/// A kind may be counted before the directory knows it, as one of the others, and get series of its own later. What was
/// counted as another's stays there: each kind's share since the last look goes where it belongs now, so that nothing is
/// counted twice, and no total ever goes back.
final class KindTotals: Sendable {
    typealias Labels = [(String, String)]

    private struct State {
        var seen: [Int32: KindCounters] = [:]
        var totals: [String: (labels: Labels, counters: KindCounters)] = [:]
    }

    private let kinds: KindLabels
    private let state = Mutex(State())

    init(_ kinds: KindLabels) {
        self.kinds = kinds
    }

    /// - Parameter counted: of each kind since the process started, by its row id.
    /// - Returns: the totals of each series.
    func follow(_ counted: [Int32: KindCounters]) -> [(labels: Labels, counters: KindCounters)] {
        // Asked for before the lock: the labels have one of their own.
        let labelled = counted.map { (id: $0.key, counters: $0.value, labels: kinds.labels(of: $0.key)) }
        return state.withLock { state in
            for (id, counters, labels) in labelled {
                let new = counters - (state.seen[id] ?? KindCounters())
                state.seen[id] = counters
                guard !new.isZero else { continue }
                let key = labels.map(\.1).joined(separator: "\u{0}")
                let before = state.totals[key]?.counters ?? KindCounters()
                state.totals[key] = (labels, before + new)
            }
            return Array(state.totals.values)
        }
    }
}
