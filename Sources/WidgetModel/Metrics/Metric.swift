// SPDX-License-Identifier: Apache-2.0

import Metrics
import Synchronization

/// Name, type and description of a metric.
package struct MetricDefinition: Hashable, Sendable {
    package enum Instrument: Hashable, Sendable {
        /// Grows from 0 at the start of the process.
        case counter
        /// Current value.
        case gauge
        /// Numbers of values up to each of these bounds; the bounds ascend.
        case histogram([Double])

        package var name: String {
            switch self {
            case .counter: "counter"
            case .gauge: "gauge"
            case .histogram: "histogram"
            }
        }
    }

    /// Name by Prometheus' conventions: prefix `freshet_`, unit as suffix, and `_total` for counters.
    package var name: String
    package var instrument: Instrument
    /// Names of its labels; each has a bounded number of values.
    package var labels: [String]
    package var help: String

    init(_ name: String, _ instrument: Instrument, labels: [String] = [], _ help: String) {
        self.name = name
        self.instrument = instrument
        self.labels = labels
        self.help = help
    }

    /// Bounds of times between a millisecond and an hour.
    package static let seconds: [Double] = [
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600,
    ]
    /// Bounds of batch sizes.
    package static let sizes: [Double] = [
        1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000,
    ]
}

// MARK: - Prometheus

/// Names, labels and numbers in Prometheus' text format (version 0.0.4).
extension MetricDefinition {
    /// Labels as `{name="value",…}`, sorted by name; empty without labels.
    static func labels(_ pairs: some Sequence<(String, String)>) -> String {
        let pairs = pairs.sorted { $0.0 < $1.0 }.map { "\($0)=\"\(escaped($1))\"" }
        return pairs.isEmpty ? "" : "{\(pairs.joined(separator: ","))}"
    }

    /// Labels with one more at their end.
    static func adding(_ name: String, value: String, to labels: String) -> String {
        labels.isEmpty ? "{\(name)=\"\(value)\"}" : "\(labels.dropLast()),\(name)=\"\(value)\"}"
    }

    /// The escaped value of a label, or, with its quotes kept, a help text.
    static func escaped(_ text: String, alsoQuotes: Bool = true) -> String {
        var result = ""
        // By scalars, since CR and LF form one character.
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\\": result += "\\\\"
            case "\n": result += "\\n"
            case "\"" where alsoQuotes: result += "\\\""
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }

    /// The name with characters that Prometheus does not allow replaced.
    static func metricName(_ text: String) -> String { name(text, alsoAllowing: UInt8(ascii: ":")) }

    static func labelName(_ text: String) -> String { name(text, alsoAllowing: UInt8(ascii: "_")) }

    private static func name(_ text: String, alsoAllowing extra: UInt8) -> String {
        var bytes = text.utf8.map { byte -> UInt8 in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), extra:
                byte
            default: UInt8(ascii: "_")
            }
        }
        if bytes.first.map({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) ?? true {
            bytes.insert(UInt8(ascii: "_"), at: 0)
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    package static func number(_ value: Double) -> String {
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value < 0 ? "-Inf" : "+Inf" }
        if value == value.rounded(), abs(value) < 1e15 { return "\(Int64(value))" }
        return "\(value)"
    }
}

// MARK: - Metrics

/// A metric of any instrument.
package protocol AnyMetric: Sendable {
    var definition: MetricDefinition { get }
    /// Number of series that were not kept, since the metric has too many.
    var dropped: Int { get }
    /// The series with these values of the labels, created if it does not exist.
    func series(_ values: [String]) -> any MetricSeries
    /// The kept series, with the values of their labels.
    var allSeries: [(values: [String], series: any MetricSeries)] { get }
}

/// A metric: its definition, and an instrument of swift-metrics for each combination of its labels' values.
///
/// ```swift
/// metrics.claims.increment()
/// metrics.apiRefusals("events").increment()
/// ```
///
/// A metric without labels counts without a look-up; with labels, the instrument may be kept.
package final class Metric<Instrument: Sendable>: AnyMetric {
    private typealias Entry = (instrument: Instrument, series: any MetricSeries)

    package let definition: MetricDefinition
    private let make: @Sendable () -> (Instrument, any MetricSeries)
    private let entries = Mutex<[[String]: Entry]>([:])
    /// The only series of a counter or a histogram without labels, and whether it is exposed.
    private let only: Entry?
    private let hasBegun = Atomic(false)
    private let lost = Atomic(0)

    init<Series: MetricSeries>(
        _ definition: MetricDefinition, _ makeSeries: @escaping @Sendable () -> Series,
        _ instrument: @escaping @Sendable (Series) -> Instrument
    ) {
        self.definition = definition
        make = {
            let series = makeSeries()
            return (instrument(series), series)
        }
        only = definition.labels.isEmpty && definition.instrument != .gauge ? make() : nil
    }

    /// The instrument with these values of the labels, in the order of the definition.
    package func callAsFunction(_ values: String...) -> Instrument { entry(values).instrument }

    package func callAsFunction(_ values: [String]) -> Instrument { entry(values).instrument }

    /// Creates the series of all combinations of values, so that their first increments count as increases.
    package func begin(_ values: [String]...) {
        let all = values.reduce([[]]) { rows, column in rows.flatMap { row in column.map { row + [$0] } } }
        for values in all { _ = entry(values) }
    }

    private func entry(_ values: [String]) -> Entry {
        if let only {
            if !hasBegun.load(ordering: .relaxed) { hasBegun.store(true, ordering: .relaxed) }
            return only
        }
        return entries.withLock { entries in
            if let known = entries[values] { return known }
            let new = make()
            // Memory is bounded; the registry bounds the kinds.
            guard entries.count < 2_000 || definition.labels.contains("kind") else {
                lost.add(1, ordering: .relaxed)
                return new
            }
            entries[values] = new
            return new
        }
    }

    /// Removes the series with other values of the labels.
    func keep(_ isKept: ([String]) -> Bool) {
        entries.withLock { entries in entries = entries.filter { isKept($0.key) } }
    }

    // MARK: Reading

    package var dropped: Int { lost.load(ordering: .relaxed) }

    package func series(_ values: [String]) -> any MetricSeries { entry(values).series }

    package var allSeries: [(values: [String], series: any MetricSeries)] {
        if let only { return hasBegun.load(ordering: .relaxed) ? [([], only.series)] : [] }
        return entries.withLock { $0.map { ($0.key, $0.value.series) } }
    }
}

extension AnyMetric {
    /// The sum of the series with these values of labels: counts, values of gauges, or numbers of recorded values.
    package func value(_ labels: [String: String] = [:]) -> Double {
        let wanted = definition.labels.map { labels[$0] }
        return allSeries.reduce(0) { sum, entry in
            zip(wanted, entry.values).allSatisfy { $0 == nil || $0 == $1 } ? sum + entry.series.value : sum
        }
    }

    package func total(_ labels: [String: String] = [:]) -> Int { Int(value(labels)) }

    /// Appends the metric to a page, unless it has no series.
    func write(to text: inout String) {
        let series = allSeries.map { (labels: MetricDefinition.labels(zip(definition.labels, $0.values)), $0.series) }
        guard !series.isEmpty else { return }
        text += "# HELP \(definition.name) \(MetricDefinition.escaped(definition.help, alsoQuotes: false))\n"
        text += "# TYPE \(definition.name) \(definition.instrument.name)\n"
        for (labels, series) in series.sorted(by: { $0.labels < $1.labels }) {
            series.write(definition.name, labels: labels, to: &text)
        }
    }
}

// MARK: - Series

/// A metric with one set of labels.
package protocol MetricSeries: AnyObject, Sendable {
    /// The count, the value of a gauge, or the number of recorded values.
    var value: Double { get }
    /// Appends the series' lines to the page.
    ///
    /// - Parameter labels: as ``MetricDefinition/labels(_:)`` writes them.
    func write(_ name: String, labels: String, to text: inout String)
}

final class CounterSeries: MetricSeries, CounterHandler, FloatingPointCounterHandler {
    /// Whole and fractional increments, separated so that large counts are exact.
    private let whole = Atomic<Int64>(0)
    private let part = Atomic(0.0)

    func increment(by amount: Int64) {
        guard amount > 0 else { return }
        whole.wrappingAdd(amount, ordering: .relaxed)
    }

    func increment(by amount: Double) {
        guard amount > 0, amount.isFinite else { return }
        part.update { $0 + amount }
    }

    func raise(to total: Int64) { whole.max(total, ordering: .relaxed) }
    func raise(to total: Double) { part.update { max($0, total) } }

    func reset() {
        whole.store(0, ordering: .relaxed)
        part.store(0, ordering: .relaxed)
    }

    var value: Double { Double(whole.load(ordering: .relaxed)) + part.load(ordering: .relaxed) }

    func write(_ name: String, labels: String, to text: inout String) {
        let isWhole = part.load(ordering: .relaxed) == 0
        text += "\(name)\(labels) \(isWhole ? "\(whole.load(ordering: .relaxed))" : MetricDefinition.number(value))\n"
    }
}

extension Atomic<Double> {
    fileprivate func update(_ change: (Double) -> Double) {
        var old = load(ordering: .relaxed)
        while true {
            let (exchanged, original) = weakCompareExchange(
                expected: old, desired: change(old), ordering: .relaxed)
            if exchanged { return }
            old = original
        }
    }
}

final class GaugeSeries: MetricSeries, MeterHandler, RecorderHandler {
    private let current = Atomic(0.0)

    var value: Double { current.load(ordering: .relaxed) }

    func set(_ value: Int64) { set(Double(value)) }
    func set(_ value: Double) { current.store(value, ordering: .relaxed) }
    func increment(by amount: Double) { current.update { $0 + amount } }
    func decrement(by amount: Double) { current.update { $0 - amount } }
    func record(_ value: Int64) { set(Double(value)) }
    func record(_ value: Double) { set(value) }

    func write(_ name: String, labels: String, to text: inout String) {
        text += "\(name)\(labels) \(MetricDefinition.number(value))\n"
    }
}

package final class HistogramSeries: MetricSeries, RecorderHandler, TimerHandler {
    private let bounds: [Double]
    /// Counts by bucket, the last one for values above all bounds, and the sum of the values.
    private let counts: Mutex<(buckets: [UInt64], sum: Double)>

    init(_ bounds: [Double]) {
        self.bounds = bounds
        counts = Mutex((Array(repeating: 0, count: bounds.count + 1), 0))
    }

    package func record(_ value: Int64) { record(Double(value)) }

    package func record(_ value: Double) {
        guard value.isFinite else { return }
        let bucket = bounds.firstIndex { value <= $0 } ?? bounds.count
        counts.withLock { counts in
            counts.buckets[bucket] &+= 1
            counts.sum += value
        }
    }

    package func recordNanoseconds(_ duration: Int64) {
        record(Double(duration) / 1_000_000_000)
    }

    package var value: Double { Double(counts.withLock { $0.buckets.reduce(0, &+) }) }

    /// Upper bounds, the last one infinite, with the numbers of values up to them.
    package var buckets: [(bound: Double, count: UInt64)] { cumulated.buckets }

    private var cumulated: (buckets: [(bound: Double, count: UInt64)], sum: Double) {
        let counts = counts.withLock { $0 }
        var total: UInt64 = 0
        let buckets = zip(bounds + [.infinity], counts.buckets).map { bound, count in
            total &+= count
            return (bound, total)
        }
        return (buckets, counts.sum)
    }

    package func write(_ name: String, labels: String, to text: inout String) {
        let (buckets, sum) = cumulated
        for (bound, count) in buckets {
            let bound = MetricDefinition.adding("le", value: MetricDefinition.number(bound), to: labels)
            text += "\(name)_bucket\(bound) \(count)\n"
        }
        text += "\(name)_sum\(labels) \(MetricDefinition.number(sum))\n"
        text += "\(name)_count\(labels) \(buckets.last?.count ?? 0)\n"
    }
}
