import Metrics
import Synchronization
import WidgetModel

/// Labels of a series, with their values.
typealias MetricLabels = [(String, String)]

/// Passes figures that are counted elsewhere to swift-metrics.
final class MetricBridge: Sendable {
    private struct State {
        /// Counters by name and labels, with the last total.
        var counters: [String: (counter: FloatingPointCounter, last: Double)] = [:]
        /// Meters by name, then by labels.
        var meters: [String: [String: Meter]] = [:]
    }

    private let state = Mutex(State())

    /// Brings a counter to a total. If the total is smaller than before, the count restarts from zero.
    func count(_ definition: MetricDefinition, _ total: Double, _ labels: MetricLabels = []) {
        let key = definition.name + Self.key(labels)
        state.withLock { state in
            let known = state.counters[key]
            let counter = known?.counter ?? FloatingPointCounter(label: definition.name, dimensions: labels)
            let last = known?.last ?? 0
            counter.increment(by: total >= last ? total - last : total)
            state.counters[key] = (counter, total)
        }
    }

    func count(_ definition: MetricDefinition, _ total: Int, _ labels: MetricLabels = []) {
        count(definition, Double(total), labels)
    }

    func set(_ definition: MetricDefinition, _ value: Double) {
        replace(definition, [([], value)])
    }

    /// Sets the gauges of a metric, and removes all others.
    func replace(_ definition: MetricDefinition, _ values: [(labels: MetricLabels, value: Double)]) {
        let gone = state.withLock { state in
            let before = state.meters[definition.name] ?? [:]
            var kept: [String: Meter] = [:]
            for (labels, value) in values {
                let key = Self.key(labels)
                let meter = before[key] ?? Meter(label: definition.name, dimensions: labels)
                meter.set(value)
                kept[key] = meter
            }
            state.meters[definition.name] = kept
            return before.filter { kept[$0.key] == nil }
        }
        for meter in gone.values { meter.destroy() }
    }

    /// Key of a series among those of its metric.
    static func key(_ labels: MetricLabels) -> String {
        labels.map { "\u{0}" + $0.1 }.joined()
    }
}
