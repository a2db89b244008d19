import Foundation
import Histogram
import WidgetModel

/// Latencies to three digits, from a microsecond to ten minutes; what is longer counts as ten minutes.
struct LatencyHistogram: Sendable {
    private static let longest: UInt64 = 600_000_000

    private var histogram = Histogram<UInt32>(
        highestTrackableValue: LatencyHistogram.longest, numberOfSignificantValueDigits: .three)

    mutating func record(_ latency: Duration) {
        _ = histogram.record(min(UInt64(max(0, latency / .microseconds(1))), Self.longest))
    }

    mutating func reset() {
        histogram.reset()
    }

    var summary: LatencySummary {
        func milliseconds(_ percentile: Double) -> Double {
            Double(histogram.valueAtPercentile(percentile)) / 1_000
        }
        return LatencySummary(
            samples: Int(histogram.totalCount), p50: milliseconds(50), p90: milliseconds(90), p99: milliseconds(99),
            p999: milliseconds(99.9), max: histogram.totalCount == 0 ? 0 : Double(histogram.max) / 1_000)
    }

    /// How many latencies were how long, for a drawing: twenty buckets to each power of ten, without gaps.
    var buckets: [LatencyBucket] {
        var counts: [Int: Int] = [:]
        for recorded in histogram.recordedValues() {
            let milliseconds = Double(max(1, recorded.value)) / 1_000
            counts[Int((log10(milliseconds) * LatencyBucket.perPowerOfTen).rounded(.up)), default: 0] +=
                Int(recorded.count)
        }
        guard let first = counts.keys.min(), let last = counts.keys.max() else { return [] }
        return (first...last).map { index in
            LatencyBucket(
                upTo: pow(10, Double(index) / LatencyBucket.perPowerOfTen), count: counts[index, default: 0])
        }
    }
}

/// Percentiles in milliseconds; all zero without samples.
struct LatencySummary: Sendable, Equatable {
    var samples = 0
    var p50 = 0.0
    var p90 = 0.0
    var p99 = 0.0
    var p999 = 0.0
    var max = 0.0

    var json: JSONValue {
        [
            "samples": .number(JSONNumber(samples)), "p50": .rounded(p50), "p90": .rounded(p90), "p99": .rounded(p99),
            "p999": .rounded(p999), "max": .rounded(max),
        ]
    }

    /// A table of series, each with its rate and the number of its events.
    static func table(_ rows: [(name: String, rate: Int, events: Int, latency: LatencySummary)]) -> [String] {
        var table = TextTable("event → stored", "events/s", "events", "p50", "p90", "p99", "max (ms)")
        for (name, rate, events, latency) in rows {
            let columns = [latency.p50, latency.p90, latency.p99, latency.max].map(DemoScreen.decimal)
            table.add(name, "\(rate)", "\(events)", columns[0], columns[1], columns[2], columns[3])
        }
        return table.lines
    }

    /// How many times the p99 of another one is this one's; nil when there is nothing to compare.
    func ratio(to other: LatencySummary) -> Double? {
        samples > 0 && other.samples > 0 && other.p99 > 0 ? p99 / other.p99 : nil
    }
}

extension JSONValue {
    /// A number to three decimals; null when there is none, or it is not finite.
    static func rounded(_ value: Double?) -> JSONValue {
        value.flatMap { JSONNumber(($0 * 1_000).rounded() / 1_000) }.map { .number($0) } ?? .null
    }
}
