import Metrics
import Synchronization

/// A metric with one set of labels.
protocol MetricSeries: AnyObject, Sendable {
    /// Appends the series' lines to the page.
    ///
    /// - Parameter labels: as ``PrometheusText/labels(_:)`` writes them.
    func write(_ name: String, _ labels: String, to text: inout String)
}

final class CounterSeries: MetricSeries, CounterHandler, FloatingPointCounterHandler {
    /// Whole and fractional increments, separated so that large counts are exact.
    private let value = Mutex<(whole: Int64, part: Double)>((0, 0))

    func increment(by amount: Int64) {
        guard amount > 0 else { return }
        value.withLock { $0.whole &+= amount }
    }

    func increment(by amount: Double) {
        guard amount > 0, amount.isFinite else { return }
        value.withLock { $0.part += amount }
    }

    func reset() {
        value.withLock { $0 = (0, 0) }
    }

    func write(_ name: String, _ labels: String, to text: inout String) {
        let value = value.withLock { $0 }
        let number = value.part == 0 ? "\(value.whole)" : PrometheusText.number(Double(value.whole) + value.part)
        text += "\(name)\(labels) \(number)\n"
    }
}

final class GaugeSeries: MetricSeries, MeterHandler, RecorderHandler {
    private let value = Mutex(0.0)

    func set(_ value: Int64) { set(Double(value)) }
    func set(_ value: Double) { self.value.withLock { $0 = value } }
    func increment(by amount: Double) { value.withLock { $0 += amount } }
    func decrement(by amount: Double) { value.withLock { $0 -= amount } }
    func record(_ value: Int64) { set(Double(value)) }
    func record(_ value: Double) { set(value) }

    func write(_ name: String, _ labels: String, to text: inout String) {
        text += "\(name)\(labels) \(PrometheusText.number(value.withLock { $0 }))\n"
    }
}

final class HistogramSeries: MetricSeries, RecorderHandler, TimerHandler {
    private let bounds: [Double]
    /// Counts by bucket, the last one for values above all bounds, and the sum of the values.
    private let counts: Mutex<(buckets: [UInt64], sum: Double)>

    init(_ bounds: [Double]) {
        self.bounds = bounds
        counts = Mutex((Array(repeating: 0, count: bounds.count + 1), 0))
    }

    func record(_ value: Int64) { record(Double(value)) }

    func record(_ value: Double) {
        guard value.isFinite else { return }
        let bucket = bounds.firstIndex { value <= $0 } ?? bounds.count
        counts.withLock { counts in
            counts.buckets[bucket] &+= 1
            counts.sum += value
        }
    }

    func recordNanoseconds(_ duration: Int64) {
        record(Double(duration) / 1_000_000_000)
    }

    func write(_ name: String, _ labels: String, to text: inout String) {
        let counts = counts.withLock { $0 }
        var total: UInt64 = 0
        for (index, bucket) in counts.buckets.enumerated() {
            total &+= bucket
            let bound = index < bounds.count ? PrometheusText.number(bounds[index]) : "+Inf"
            text += "\(name)_bucket\(PrometheusText.adding("le", bound, to: labels)) \(total)\n"
        }
        text += "\(name)_sum\(labels) \(PrometheusText.number(counts.sum))\n"
        text += "\(name)_count\(labels) \(total)\n"
    }
}
