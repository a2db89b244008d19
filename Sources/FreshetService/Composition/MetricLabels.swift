import Metrics
import Synchronization
import WidgetModel
import WidgetStore

/// Which kinds have series of their own: the first that were met, up to a bound, for as long as the process lives. All
/// others are one.
final class KindLabels: Sendable {
    private let directory: DirectoryCache
    private let limit: Int
    private let known = Mutex<[Int32: [(String, String)]]>([:])

    static let other = [("app", "other"), ("kind", "other")]

    init(directory: DirectoryCache, limit: Int) {
        self.directory = directory
        self.limit = limit
    }

    func labels(of id: Int32) -> [(String, String)] {
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

/// A counter that follows a total which is counted elsewhere.
final class FollowingCounter: Sendable {
    private let counter: Counter
    private let last = Mutex(0)

    init(_ definition: MetricDefinition, _ labels: [(String, String)] = []) {
        counter = Counter(label: definition.name, dimensions: labels)
    }

    /// - Parameter total: never smaller than before; what is smaller is taken for a new beginning.
    func follow(_ total: Int) {
        let increment = last.withLock { last in
            defer { last = total }
            return total >= last ? total - last : total
        }
        if increment > 0 { counter.increment(by: increment) }
    }
}

/// Counters that follow totals, by labels that appear as they are met.
final class FollowingCounters: Sendable {
    private let definition: MetricDefinition
    private let counters = Mutex<[String: FollowingCounter]>([:])

    init(_ definition: MetricDefinition) {
        self.definition = definition
    }

    func follow(_ total: Int, _ labels: [(String, String)]) {
        let key = labels.map(\.1).joined(separator: "\u{0}")
        let counter = counters.withLock { counters in
            if let known = counters[key] { return known }
            let new = FollowingCounter(definition, labels)
            counters[key] = new
            return new
        }
        counter.follow(total)
    }
}

/// Gauges of one metric: what is not set any more is not shown any more.
final class GaugeSet: Sendable {
    private let definition: MetricDefinition
    private let meters = Mutex<[String: Meter]>([:])

    init(_ definition: MetricDefinition) {
        self.definition = definition
    }

    /// Sets these, and takes away all others.
    func replace(_ values: [(labels: [(String, String)], value: Double)]) {
        let gone = meters.withLock { meters in
            var kept: [String: Meter] = [:]
            for (labels, value) in values {
                let key = labels.map(\.1).joined(separator: "\u{0}")
                let meter = meters[key] ?? Meter(label: definition.name, dimensions: labels)
                meter.set(value)
                kept[key] = meter
            }
            defer { meters = kept }
            return meters.filter { kept[$0.key] == nil }
        }
        for meter in gone.values { meter.destroy() }
    }
}

/// Totals of kinds, by the labels of their series.
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
